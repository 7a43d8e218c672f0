import { findFocus, focusName, nameWord, wordText } from "./focus.ts";
import { ownerOf, withoutLine } from "./packages.ts";
import { regrow } from "./rebuildTree.ts";
import { shapeOf, sum, type Tree } from "./tree.ts";

/** What is done; a subject other than a function stands behind it: `drop-package`. */
export type Verb = "focus" | "path" | "with" | "drop" | "fold" | "below" | "one" | "collapse";
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
};

const kindOf = (verb: Verb, subject: Subject) => (subject === "function" ? verb : `${verb}-${subject}`);

const BY_KIND = new Map(
  (Object.keys(KINDS) as Verb[]).flatMap((verb) => KINDS[verb].map((subject) => [kindOf(verb, subject), [verb, subject]] as const)),
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
  return [...parts, part].filter((each) => each !== "").map(parseOne);
}

function parseOne(text: string): Transform {
  const [kind] = text.split(":", 1);
  const name = text.slice(kind.length + 1);
  const known = name === "" ? undefined : BY_KIND.get(kind);
  return { verb: known?.[0] ?? "", subject: known?.[1] ?? "function", name, text };
}

export const formatTransforms = (all: readonly Pick<Transform, "text">[]): string =>
  all.map(({ text }) => text.replaceAll("*", "**")).join("*");

/** A transform of frames by their name, path or owner. */
export function transform(verb: Verb, subject: Subject, about: string): Transform {
  const name = nameWord(about);
  return { verb, subject, name, text: `${kindOf(verb, subject)}:${name}` };
}

/** The list with one more at its end; the same one twice in a row is made once. */
export function withTransform(t: string, added: Transform): string {
  const all = parseTransforms(t);
  return all.at(-1)?.text === added.text ? t : formatTransforms([...all, added]);
}

export const without = (t: string, at: number): string => formatTransforms(parseTransforms(t).filter((_, other) => other !== at));

/** The words of a transform in the row above the graph. */
export function transformWords({ verb, subject, name, text }: Transform): string {
  const what = subject === "package" ? `package ${wordText(name)}` : wordText(name);
  if (verb === "focus") return `focus ${what}`;
  if (verb === "path") return `path ${focusName(name)}`;
  if (verb === "with") return `with ${what}`;
  if (verb === "drop") return `without ${what}`;
  if (verb === "fold") return `fold ${what}`;
  if (verb === "below") return `callees of ${what}`;
  if (verb === "one") return `one frame for ${what}`;
  return verb === "collapse" ? `recursion of ${what}` : text;
}

/** What became of one transform: made, not understood, about a name this tree does not have, or one too many. */
export type Fate = "made" | "unknown" | "missing" | "beyond";

/** An address can name thousands; each of them walks the whole tree. */
export const MOST_TRANSFORMS = 64;

/** Samples and microseconds of one side that transforms left out, and of how many. */
export interface LeftOut {
  readonly samples: number;
  readonly of: number;
}

export interface Transformed {
  readonly tree: Tree;
  readonly steps: readonly { readonly transform: Transform; readonly fate: Fate }[];
  /** Per column of `self`; not counted where no transform is asked for. */
  readonly left: readonly LeftOut[];
}

/** Makes the transforms one after the other; one that cannot be made does nothing. */
export function applyTransforms(tree: Tree, t: string): Transformed {
  const steps: { transform: Transform; fate: Fate }[] = [];
  let at = tree;
  for (const each of parseTransforms(t)) {
    const beyond = steps.length >= MOST_TRANSFORMS;
    const next = each.verb === "" || beyond ? null : apply(at, each);
    steps.push({ transform: each, fate: beyond ? "beyond" : each.verb === "" ? "unknown" : next ? "made" : "missing" });
    at = next ?? at;
  }
  const left = tree.samples.map((column, side) => {
    const of = t === "" ? 0 : sum(column);
    return { samples: at === tree ? 0 : of - sum(at.samples[side]), of };
  });
  return { tree: at, steps, left };
}

/** The tree after one transform; null if nothing in it has that name. */
function apply(tree: Tree, { verb, subject, name }: Transform): Tree | null {
  if (verb === "path") {
    const node = findFocus(tree, name);
    return node > 0 ? below(tree, node) : null;
  }
  const is = subjects(tree, subject, name);
  if (!is) return null;
  const has = (node: number) => is[tree.name[node]] === 1;
  if (verb === "focus") return focused(tree, has);
  if (verb === "with") return holding(tree, has, true);
  if (verb === "drop") return holding(tree, has, false);
  if (verb === "fold") return regrow(tree, tree.names, (node, at, path) => (has(node) ? path.into(at - 1) : path.keep()));
  if (verb === "below") return closed(tree, has);
  return verb === "one" ? asOne(tree, has, name) : outermost(tree, has);
}

/** 1 for each name that is meant; null if no frame has one. */
function subjects(tree: Tree, subject: Subject, wanted: string): Uint8Array | null {
  const is = Uint8Array.from(tree.names, (text) => (means(text, subject, wanted) ? 1 : 0));
  for (let node = 1; node < tree.name.length; node++) if (is[tree.name[node]]) return is;
  return null;
}

function means(text: string, subject: Subject, wanted: string): boolean {
  if (subject !== "function") return nameWord(ownerOf(text, subject)) === wanted;
  return nameWord(text) === wanted || nameWord(withoutLine(text)) === wanted;
}

type Has = (node: number) => boolean;

/** Stacks begin at the first frame that is meant; those without one are left out. */
function focused(tree: Tree, has: Has): Tree {
  let begun = 0;
  return regrow(tree, tree.names, (node, at, path) => {
    if (begun >= at) begun = 0;
    if (begun > 0) path.keep();
    else if (has(node)) {
      begun = at;
      path.begin();
    } else path.nowhere();
  }, (_, at) => begun > 0 && at > 0);
}

/** Only the stacks that have (or have not) a frame that is meant, with their callers. */
function holding(tree: Tree, has: Has, wanted: boolean): Tree {
  let found = 0;
  return regrow(tree, tree.names, (node, at, path) => {
    if (found >= at) found = 0;
    if (found === 0 && has(node)) found = at;
    path.keep();
  }, (_, at) => (at > 0 && found > 0) === wanted);
}

/** What a frame that is meant calls becomes its own time. */
function closed(tree: Tree, has: Has): Tree {
  let found = 0;
  return regrow(tree, tree.names, (node, at, path) => {
    if (found >= at) found = 0;
    if (found > 0) path.into(found);
    else path.keep();
    if (found === 0 && has(node)) found = at;
  });
}

/** Neighbours on a stack that are meant become one frame, coloured and merged like what it stands for. */
function asOne(tree: Tree, has: Has, name: string): Tree {
  const text = `${name} (${name})`;
  const known = tree.names.indexOf(text);
  const names = known < 0 ? [...tree.names, text] : tree.names;
  const one = known < 0 ? tree.names.length : known;
  const inside = new Uint8Array(deepestOf(tree) + 1);
  return regrow(tree, names, (node, at, path) => {
    inside[at] = has(node) ? 1 : 0;
    if (!inside[at]) path.keep();
    else if (inside[at - 1]) path.into(at - 1);
    else path.keep(one);
  });
}

/** A frame that is meant, anywhere below the same function, becomes the outer one. */
function outermost(tree: Tree, has: Has): Tree {
  let found = 0;
  return regrow(tree, tree.names, (node, at, path) => {
    if (found >= at) found = 0;
    if (found > 0 && has(node)) path.into(found);
    else path.keep();
    if (found === 0 && has(node)) found = at;
  });
}

/** What lies at and below one node, its callers taken away. */
function below(tree: Tree, top: number): Tree {
  const { end } = shapeOf(tree.level);
  return regrow(tree, tree.names, (node, _, path) => {
    if (node === top) path.begin();
    else if (node > top && node < end[top]) path.keep();
    else path.nowhere();
  }, (node) => node > 0);
}

function deepestOf(tree: Tree): number {
  let deepest = 0;
  for (const at of tree.level) if (at > deepest) deepest = at;
  return deepest;
}
