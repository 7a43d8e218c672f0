import { deflateRawSync } from "node:zlib";
import { parseAst, type Plugin } from "vite";

/**
 * Puts the functions of a script in another order, so that gzip finds more of what it has seen before: it looks back
 * 32 kB, and functions that are alike lie anywhere. Function declarations mean the same wherever they stand in their
 * scope, and so do variables that hold a function when they are made before all that runs; all other statements stay
 * in their order.
 */
export function order(tries = 0): Plugin {
  return {
    name: "sidelight-order",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) if (file.type === "chunk") file.code = ordered(file.code, tries);
    },
  };
}

const BACK = 32_000;
/** So many functions are moved together at most. */
const MOST_MOVED = 6;
/** What is counted as seen before: so many letters in a row. */
const LETTERS = 5;
/** Weights of what is short: with a larger one, long functions are chosen earlier. Which is best depends on the script. */
const TRIED = [2, 3, 5, 7, 10];

/** The script in the shortest order found; `tries` times a run of functions is moved elsewhere, and stays there if that is shorter. */
export function ordered(code: string, tries = 0): string {
  const functions: string[] = [];
  const others: string[] = [];
  for (const statement of parseAst(code).body) {
    if (statement.type === "FunctionDeclaration") functions.push(textOf(code, statement));
    else if (statement.type !== "VariableDeclaration") others.push(textOf(code, statement));
    else for (const one of statement.declarations) (one.init?.type === "ArrowFunctionExpression" ? functions : others).push(`${statement.kind} ${textOf(code, one)};`);
  }
  const pieces = functions.map((text) => piecesOf(text));
  const times = new Map<string, number[]>();
  pieces.forEach((own, at) => own.forEach((piece) => times.set(piece, [...(times.get(piece) ?? []), at])));
  const shared = pieces.map((own) => [...own].filter((piece) => (times.get(piece) as number[]).length > 1));
  const textIn = (some: readonly string[]) => joined([...some, ...others]);
  const size = (some: readonly string[]) => deflateRawSync(textIn(some), { level: 9 }).length;
  let best = TRIED.map((least) => chain(functions, shared, times, least)).reduce((one, other) => (size(other) < size(one) ? other : one));
  let least = size(best);
  const draw = drawing();
  for (let at = 0; at < tries; at++) {
    const moved = [...best];
    const run = moved.splice(draw(best.length), 1 + draw(MOST_MOVED));
    moved.splice(draw(moved.length + 1), 0, ...run);
    const now = size(moved);
    if (now < least) [best, least] = [moved, now];
  }
  return least < deflateRawSync(code, { level: 9 }).length ? textIn(best) : code;
}

/** Numbers below a limit that look like chance and are the same in every build. */
function drawing(): (below: number) => number {
  let seed = 1;
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

const textOf = (code: string, { start, end }: { start: number; end: number }) => code.slice(start, end);

/** Statements behind each other, variables that follow each other in one. */
function joined(statements: readonly string[]): string {
  const before = (at: number) => /^(var|let|const) /.exec(statements[at] ?? "")?.[0];
  return statements.map((text, at) => {
    const kind = before(at);
    const begun = kind !== undefined && kind === before(at - 1) ? text.slice(kind.length) : text;
    const goesOn = kind !== undefined && kind === before(at + 1);
    return goesOn ? `${begun.slice(0, -1)},` : /[;}]$/.test(begun) ? begun : `${begun};`;
  }).join("");
}

const piecesOf = (text: string): Set<string> => new Set(Array.from({ length: Math.max(text.length - LETTERS + 1, 0) }, (_, at) => text.slice(at, at + LETTERS)));

/** From the first function on, always the one of which most was seen in the text just before it. */
function chain(functions: readonly string[], shared: readonly string[][], times: ReadonlyMap<string, readonly number[]>, least: number): string[] {
  const weight = (piece: string) => (times.get(piece) as readonly number[]).length ** -0.5;
  const whole = shared.map((own) => own.reduce((sum, piece) => sum + weight(piece), least));
  const seen = new Float64Array(functions.length);
  const held = new Map<string, number>();
  const window: number[] = [];
  const left = new Set(functions.keys());
  const hold = (at: number, by: 1 | -1) => {
    for (const piece of shared[at]) {
      const count = (held.get(piece) ?? 0) + by;
      held.set(piece, count);
      if (count === (by > 0 ? 1 : 0)) for (const other of times.get(piece) as readonly number[]) seen[other] += by * weight(piece);
    }
  };
  const out: string[] = [];
  for (let next = 0, length = 0; left.size > 0;) {
    left.delete(next);
    out.push(functions[next]);
    window.push(next);
    length += functions[next].length;
    hold(next, 1);
    while (window.length > 1 && length - functions[window[0]].length > BACK) {
      const gone = window.shift() as number;
      length -= functions[gone].length;
      hold(gone, -1);
    }
    for (const at of left) if (!left.has(next) || seen[at] / whole[at] > seen[next] / whole[next]) next = at;
  }
  return out;
}
