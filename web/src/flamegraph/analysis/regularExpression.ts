/**
 * Regular expressions whose time is linear in the length of the text, without regard to case.
 *
 * A search may come from somebody else's link, and the browser's own matcher takes exponential time for some
 * expressions, such as `(a+)+b`. This one follows all states of the expression at once (Ken Thompson, 1968). It
 * knows the syntax that RE2 shares with JavaScript: no lookaround, and no reference to a group.
 */

import * as strings from "../../strings/frameStrings.ts";

export class BadExpression extends Error {}

const MAX_REPEAT = 1000;
const MAX_STEPS = 20_000;
const MAX_NESTING = 200;

type Test = (character: string) => boolean;

/** A step of a program: a test of one character, jumps, an assertion, or the end. Targets are relative. */
type Step =
  | { readonly kind: "test"; readonly test: Test }
  | { readonly kind: "jump"; readonly targets: readonly number[] }
  | { readonly kind: "start" | "end" | "boundary" | "no boundary" }
  | { readonly kind: "match" };

const jump = (...targets: number[]): Step => ({ kind: "jump", targets });
const isWord = (character: string): boolean => /^[A-Za-z0-9_]$/.test(character);
const CLASSES: Readonly<Record<string, Test>> = {
  d: (character) => character >= "0" && character <= "9",
  s: (character) => /^\s$/u.test(character),
  w: isWord,
};
const CONTROLS: Readonly<Record<string, string>> = { f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

/** A test whether a text contains a match. Throws BadExpression. */
export function compileSearch(expression: string): (text: string) => boolean {
  const program: readonly Step[] = [...new Parser(expression).parse(), { kind: "match" }];
  return (text) => contains(program, [...text]);
}

function contains(program: readonly Step[], text: readonly string[]): boolean {
  let states: number[] = [];
  const visited = new Int32Array(program.length).fill(-1);
  for (let at = 0; at <= text.length; at++) {
    const next: number[] = [];
    const pending = [...states, 0];
    for (const state of pending) visited[state] = at;
    while (pending.length > 0) {
      const state = pending.pop() as number;
      const step = program[state];
      if (step.kind === "match") return true;
      if (step.kind === "test") {
        if (at < text.length && step.test(text[at])) next.push(state + 1);
        continue;
      }
      const targets = step.kind === "jump" ? step.targets : holds(step.kind, text, at) ? [1] : [];
      for (const target of targets) {
        if (visited[state + target] === at) continue;
        visited[state + target] = at;
        pending.push(state + target);
      }
    }
    states = [...new Set(next)];
  }
  return false;
}

function holds(kind: "start" | "end" | "boundary" | "no boundary", text: readonly string[], at: number): boolean {
  if (kind === "start") return at === 0;
  if (kind === "end") return at === text.length;
  const isBoundary = (at > 0 && isWord(text[at - 1])) !== (at < text.length && isWord(text[at]));
  return isBoundary === (kind === "boundary");
}

class Parser {
  private readonly text: readonly string[];
  private at = 0;
  private depth = 0;

  constructor(expression: string) {
    this.text = [...expression];
  }

  parse(): Step[] {
    const steps = this.parseAlternatives();
    if (this.at < this.text.length) throw new BadExpression(strings.unexpectedParenthesis);
    return steps;
  }

  private parseAlternatives(): Step[] {
    if (++this.depth > MAX_NESTING) throw new BadExpression(strings.nestedTooDeeply);
    const branches = [this.parseSequence()];
    while (this.take("|")) branches.push(this.parseSequence());
    this.depth--;
    return branches.reduceRight((others, branch) => limit([jump(1, branch.length + 2), ...branch, jump(others.length + 1), ...others]));
  }

  private parseSequence(): Step[] {
    const steps: Step[] = [];
    while (this.at < this.text.length && this.text[this.at] !== "|" && this.text[this.at] !== ")") {
      for (const step of this.parseQuantifier(this.parseAtom())) steps.push(step);
      limit(steps);
    }
    return steps;
  }

  private parseQuantifier(piece: Step[]): Step[] {
    const bounds = this.takeBounds();
    if (bounds === null) return piece;
    this.take("?");
    if (this.takeBounds() !== null) throw new BadExpression(strings.nothingToRepeat);
    const [least, most] = bounds;
    if (Math.max(least, most === Infinity ? 0 : most) * piece.length > MAX_STEPS) throw new BadExpression(strings.expressionTooLarge);
    const required = Array.from({ length: least }, () => piece).flat();
    if (most === Infinity) {
      return least === 0 ? [jump(1, piece.length + 2), ...piece, jump(-piece.length - 1)] : [...required, jump(-piece.length, 1)];
    }
    let optional: Step[] = [];
    for (let count = least; count < most; count++) optional = limit([jump(1, piece.length + optional.length + 1), ...piece, ...optional]);
    return limit([...required, ...optional]);
  }

  private takeBounds(): [number, number] | null {
    if (this.take("*")) return [0, Infinity];
    if (this.take("+")) return [1, Infinity];
    if (this.take("?")) return [0, 1];
    const found = /^\{(\d{1,6})(,(\d{1,6})?)?\}/.exec(this.text.slice(this.at, this.at + 16).join(""));
    if (!found) return null;
    const least = Number(found[1]);
    const most = found[2] === undefined ? least : found[3] === undefined ? Infinity : Number(found[3]);
    if (least > MAX_REPEAT || (most !== Infinity && most > MAX_REPEAT) || most < least) throw new BadExpression(strings.invalidRepetition(found[0]));
    this.at += found[0].length;
    return [least, most];
  }

  private parseAtom(): Step[] {
    const character = this.text[this.at++];
    if ("*+?".includes(character)) throw new BadExpression(strings.nothingToRepeat);
    if (character === "(") return this.parseGroup();
    if (character === "[") return [this.parseClass()];
    if (character === ".") return [{ kind: "test", test: (one) => one !== "\n" }];
    if (character === "^") return [{ kind: "start" }];
    if (character === "$") return [{ kind: "end" }];
    if (character !== "\\") return [literal(character)];
    if (this.take("b")) return [{ kind: "boundary" }];
    if (this.take("B")) return [{ kind: "no boundary" }];
    const escape = this.parseEscape();
    return [typeof escape === "string" ? literal(escape) : { kind: "test", test: escape }];
  }

  private parseGroup(): Step[] {
    if (this.take("?") && !this.take(":")) {
      const name = /^P?<([A-Za-z_]\w*)>/.exec(this.text.slice(this.at, this.at + 80).join(""));
      if (!name) throw new BadExpression(strings.noLookaround);
      this.at += name[0].length;
    }
    const steps = this.parseAlternatives();
    if (!this.take(")")) throw new BadExpression(strings.missingParenthesis);
    return steps;
  }

  /** What follows a backslash: a class, or one character. */
  private parseEscape(): Test | string {
    const character = this.text[this.at++];
    if (character === undefined) throw new BadExpression(strings.nothingAfterBackslash);
    const members = Object.hasOwn(CLASSES, character.toLowerCase()) ? CLASSES[character.toLowerCase()] : null;
    if (members) return character === character.toLowerCase() ? members : (one) => !members(one);
    if (Object.hasOwn(CONTROLS, character)) return CONTROLS[character];
    if (!/[A-Za-z0-9]/.test(character)) return character;
    throw new BadExpression(strings.unsupportedEscape(character));
  }

  private parseClass(): Step {
    const isNegated = this.take("^");
    const tests: Test[] = [];
    for (let first = true; first || this.text[this.at] !== "]"; first = false) {
      const low = this.parseMember();
      if (typeof low !== "string") {
        tests.push(low);
        continue;
      }
      let high = low;
      if (this.text[this.at] === "-" && this.text[this.at + 1] !== "]") {
        this.at++;
        const end = this.parseMember();
        if (typeof end !== "string" || codeOf(end) < codeOf(low)) throw new BadExpression(strings.rangeOutOfOrder);
        high = end;
      }
      const [from, until] = [codeOf(low), codeOf(high)];
      tests.push((one) => variants(one).some((variant) => codeOf(variant) >= from && codeOf(variant) <= until));
    }
    this.at++;
    return { kind: "test", test: (one) => tests.some((test) => test(one)) !== isNegated };
  }

  private parseMember(): Test | string {
    const character = this.text[this.at++];
    if (character === undefined) throw new BadExpression(strings.missingBracket);
    return character === "\\" ? this.parseEscape() : character;
  }

  private take(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }
}

const codeOf = (character: string): number => character.codePointAt(0) ?? 0;
const variants = (character: string): readonly string[] => [character, character.toLowerCase(), character.toUpperCase()];

function literal(character: string): Step {
  const lower = character.toLowerCase();
  return { kind: "test", test: (one) => one === character || one.toLowerCase() === lower };
}

function limit(steps: Step[]): Step[] {
  if (steps.length > MAX_STEPS) throw new BadExpression(strings.expressionTooLarge);
  return steps;
}
