import { findPathKey, pathKeyName, nameKey, nameKeyText } from "./focus.ts";
import { ownerOf, withoutLine } from "./packages.ts";
import { rebuildTree } from "./rebuildTree.ts";
import { shapeOf, STATES, sum, type State, type Tree } from "./tree.ts";
import * as strings from "../../strings/frameStrings.ts";

/** What is done; a subject other than a function stands behind it: `drop-package`. */
export type Verb = "focus" | "path" | "with" | "drop" | "fold" | "below" | "one" | "collapse" | "state";
export type Subject = "function" | "file" | "package";

/** One step in how a tree is looked at. An empty verb is one that no version of these pages knows. */
export interface Transform {
  readonly verb: Verb | "";
  readonly subject: Subject;
  readonly name: string;
  /** As the address has it. */
  readonly text: string;
}

const KINDS: Readonly<Record<Verb, readonly Subject[]>> = {
  focus: ["function", "file", "package"],
  path: ["function"],
  with: ["function", "file", "package"],
  drop: ["function", "file", "package"],
  fold: ["function", "file", "package"],
  below: ["function", "file", "package"],
  one: ["file", "package"],
  collapse: ["function"],
  state: ["function"],
};

const formatKind = (verb: Verb, subject: Subject) => (subject === "function" ? verb : `${verb}-${subject}`);

const BY_KIND = new Map(
  (Object.keys(KINDS) as Verb[]).flatMap((verb) => KINDS[verb].map((subject) => [formatKind(verb, subject), [verb, subject]] as const)),
);

/** Transforms as the address has them: `kind:name`, a `*` between two, a `*` in a name doubled. */
export function parseTransforms(text: string): Transform[] {
  const parts: string[] = [];
  let part = "";
  for (let i = 0; i < text.length; i++) {
    if (text[i] !== "*") part += text[i];
    else if (text[i + 1] === "*") part += text[i++];
    else {
      parts.push(part);
      part = "";
    }
  }
  return [...parts, part].filter((entry) => entry !== "").map(parseOne);
}

function parseOne(text: string): Transform {
  const [kind] = text.split(":", 1);
  const name = text.slice(kind.length + 1);
  const entry = name === "" ? undefined : BY_KIND.get(kind);
  return { verb: entry?.[0] ?? "", subject: entry?.[1] ?? "function", name, text };
}

export const formatTransforms = (all: readonly Pick<Transform, "text">[]): string =>
  all.map(({ text }) => text.replaceAll("*", "**")).join("*");

/** A transform of frames by their name, path or owner. */
export function transform(verb: Verb, subject: Subject, about: string): Transform {
  const name = nameKey(about);
  return { verb, subject, name, text: `${formatKind(verb, subject)}:${name}` };
}

/** The list with one more at its end; the same one twice in a row is made once. */
export function appendTransform(t: string, added: Transform): string {
  const all = parseTransforms(t);
  return all.at(-1)?.text === added.text ? t : formatTransforms([...all, added]);
}

export const removeTransform = (t: string, at: number): string => formatTransforms(parseTransforms(t).filter((_, other) => other !== at));

/** The words of a transform in the row above the graph. */
export function describeTransform({ verb, subject, name, text }: Transform): string {
  const what = subject === "package" ? strings.packageSubject(nameKeyText(name)) : nameKeyText(name);
  if (verb === "focus") return strings.focusTransform(what);
  if (verb === "path") return strings.pathTransform(pathKeyName(name));
  if (verb === "with") return strings.withTransform(what);
  if (verb === "drop") return strings.withoutTransform(what);
  if (verb === "fold") return strings.foldTransform(what);
  if (verb === "below") return strings.calleesOf(what);
  if (verb === "one") return strings.oneFrameFor(what);
  if (verb === "state") return strings.stateTransform(name in strings.stateNames ? strings.stateNames[name as State] : name);
  return verb === "collapse" ? strings.recursionOf(what) : text;
}

/** What became of one transform: made, not understood, about a name this tree does not have, or one too many. */
export type TransformStatus = "made" | "unknown" | "missing" | "beyond";

/** An address can name thousands; each of them walks the whole tree. */
export const MAX_TRANSFORMS = 64;

/** Samples and microseconds of one side that transforms left out, and of how many. */
export interface OmittedSamples {
  readonly samples: number;
  readonly total: number;
}

export interface Transformed {
  readonly tree: Tree;
  readonly steps: readonly { readonly transform: Transform; readonly fate: TransformStatus }[];
  /** Per column of `self`; not counted where no transform is asked for. */
  readonly omitted: readonly OmittedSamples[];
}

/** Makes the transforms one after the other; one that cannot be made does nothing. */
export function applyTransforms(tree: Tree, t: string): Transformed {
  const steps: { transform: Transform; fate: TransformStatus }[] = [];
  let current = tree;
  for (const step of parseTransforms(t)) {
    const isBeyondLimit = steps.length >= MAX_TRANSFORMS;
    const next = step.verb === "" || isBeyondLimit ? null : apply(current, step);
    steps.push({ transform: step, fate: isBeyondLimit ? "beyond" : step.verb === "" ? "unknown" : next ? "made" : "missing" });
    current = next ?? current;
  }
  const omitted = tree.samples.map((column, side) => {
    const total = t === "" ? 0 : sum(column);
    return { samples: current === tree ? 0 : total - sum(current.samples[side]), total };
  });
  return { tree: current, steps, omitted };
}

/** The tree after one transform; null if nothing in it has that name. */
function apply(tree: Tree, { verb, subject, name }: Transform): Tree | null {
  if (verb === "path") {
    const node = findPathKey(tree, name);
    return node > 0 ? subtreeOf(tree, node) : null;
  }
  if (verb === "state") return keepState(tree, STATES.indexOf(name as State));
  const matching = matchingNames(tree, subject, name);
  if (!matching) return null;
  const has = (node: number) => matching[tree.name[node]] === 1;
  if (verb === "focus") return focusOn(tree, has);
  if (verb === "with") return filterStacks(tree, has, true);
  if (verb === "drop") return filterStacks(tree, has, false);
  if (verb === "fold") return rebuildTree(tree, tree.names, (node, at, placement) => (has(node) ? placement.mergeInto(at - 1) : placement.keep()));
  if (verb === "below") return mergeCallees(tree, has);
  return verb === "one" ? mergeToOneFrame(tree, has, name) : mergeRecursion(tree, has);
}

/** 1 for each name that is meant; null if no frame has one. */
function matchingNames(tree: Tree, subject: Subject, key: string): Uint8Array | null {
  const matching = Uint8Array.from(tree.names, (text) => (nameMatches(text, subject, key) ? 1 : 0));
  for (let node = 1; node < tree.name.length; node++) if (matching[tree.name[node]]) return matching;
  return null;
}

function nameMatches(text: string, subject: Subject, key: string): boolean {
  if (subject !== "function") return nameKey(ownerOf(text, subject)) === key;
  return nameKey(text) === key || nameKey(withoutLine(text)) === key;
}

/** The time in one state alone; null for a tree without states. Each node's samples are divided like its time. */
function keepState(tree: Tree, state: number): Tree | null {
  const sides = tree.self.length / (STATES.length + 1);
  if (state < 0 || !Number.isInteger(sides)) return null;
  const self = tree.self.map((column, at) =>
    at < sides ? tree.self[sides + at * STATES.length + state] : (at - sides) % STATES.length === state ? column : new Float64Array(column.length));
  const samples = tree.samples.map((column, at) => (at < sides ? self[at].map((us, node) => us && Math.round((column[node] * us) / tree.self[at][node])) : column));
  return rebuildTree({ ...tree, self, samples }, tree.names, (_node, _at, placement) => placement.keep());
}

type FramePredicate = (node: number) => boolean;

/** Stacks begin at the first frame that is meant; those without one are left out. */
function focusOn(tree: Tree, has: FramePredicate): Tree {
  let startLevel = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    if (startLevel >= at) startLevel = 0;
    if (startLevel > 0) placement.keep();
    else if (has(node)) {
      startLevel = at;
      placement.startAt();
    } else placement.drop();
  }, (_, at) => startLevel > 0 && at > 0);
}

/** Only the stacks that have (or have not) a frame that is meant, with their callers. */
function filterStacks(tree: Tree, has: FramePredicate, keepMatching: boolean): Tree {
  let matchLevel = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    if (matchLevel >= at) matchLevel = 0;
    if (matchLevel === 0 && has(node)) matchLevel = at;
    placement.keep();
  }, (_, at) => (at > 0 && matchLevel > 0) === keepMatching);
}

/** What a frame that is meant calls becomes its own time. */
function mergeCallees(tree: Tree, has: FramePredicate): Tree {
  let matchLevel = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    if (matchLevel >= at) matchLevel = 0;
    if (matchLevel > 0) placement.mergeInto(matchLevel);
    else placement.keep();
    if (matchLevel === 0 && has(node)) matchLevel = at;
  });
}

/** Neighbours on a stack that are meant become one frame, coloured and merged like what it stands for. */
function mergeToOneFrame(tree: Tree, has: FramePredicate, name: string): Tree {
  const text = `${name} (${name})`;
  const existing = tree.names.indexOf(text);
  const names = existing < 0 ? [...tree.names, text] : tree.names;
  const nameIndex = existing < 0 ? tree.names.length : existing;
  const inside = new Uint8Array(deepestOf(tree) + 1);
  return rebuildTree(tree, names, (node, at, placement) => {
    inside[at] = has(node) ? 1 : 0;
    if (!inside[at]) placement.keep();
    else if (inside[at - 1]) placement.mergeInto(at - 1);
    else placement.keep(nameIndex);
  });
}

/** A frame that is meant, anywhere below the same function, becomes the outer one. */
function mergeRecursion(tree: Tree, has: FramePredicate): Tree {
  let matchLevel = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    if (matchLevel >= at) matchLevel = 0;
    if (matchLevel > 0 && has(node)) placement.mergeInto(matchLevel);
    else placement.keep();
    if (matchLevel === 0 && has(node)) matchLevel = at;
  });
}

/** What lies at and below one node, its callers taken away. */
function subtreeOf(tree: Tree, top: number): Tree {
  const { end } = shapeOf(tree.level);
  return rebuildTree(tree, tree.names, (node, _, placement) => {
    if (node === top) placement.startAt();
    else if (node > top && node < end[top]) placement.keep();
    else placement.drop();
  }, (node) => node > 0);
}

function deepestOf(tree: Tree): number {
  let deepest = 0;
  for (const at of tree.level) if (at > deepest) deepest = at;
  return deepest;
}
