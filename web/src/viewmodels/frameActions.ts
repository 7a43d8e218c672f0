import type { Place } from "../lib/url.ts";
import { focusWord, nameWord } from "../flamegraph/tree/focus.ts";
import { frameParts, packageOf, withoutLine } from "../flamegraph/tree/packages.ts";
import { transform, withTransform, type Subject, type Verb } from "../flamegraph/tree/transforms.ts";
import type { Tree } from "../flamegraph/tree/tree.ts";

/** Something that can be done with a frame: hand `to` to `change()`. */
export interface Offer {
  readonly label: string;
  /** The single key that does the same, or none. */
  readonly key: string;
  readonly to: Partial<Place>;
}

/** A name's text without its line: what a transform is about, and as a word a sandwich and a list of lines. */
export const functionOf = (tree: Tree, name: number): string => (tree.by ? tree.names[name] : withoutLine(tree.names[name]));

/** What can be done with one node of the shown tree, in the order to show. The root has nothing. */
export function offers(tree: Tree, node: number, here: Place): readonly Offer[] {
  if (node <= 0) return [];
  // A path is one of the tree that transforms are made on.
  const asMade = !here.invert && !here.collapse && !tree.by && here.view !== "sandwich";
  return offersOf(tree, tree.name[node], here, asMade ? focusWord(tree, node) : "");
}

/** The same of a name of the tree, wherever it is in it; `path` is its call path, if one is meant. */
export function offersOf(tree: Tree, name: number, here: Place, path = ""): readonly Offer[] {
  const fn = functionOf(tree, name);
  const own: Subject = tree.by ?? "function";
  const add = (label: string, verb: Verb, subject: Subject, about: string): Offer =>
    ({ label, key: "", to: { t: withTransform(here.t, transform(verb, subject, about)), focus: "" } });
  const all: Offer[] = [
    { label: "Callers and callees", key: "s", to: sandwichOf(fn) },
    ...(tree.by ? [] : [{ label: "Lines of it", key: "l", to: linesOf(fn) }]),
    add("Focus on it", "focus", own, fn),
    ...(path === "" ? [] : [add("Focus on this call path", "path", "function", path)]),
    add("Only stacks with it", "with", own, fn),
    add("Leave out stacks with it", "drop", own, fn),
    add("Fold it into its callers", "fold", own, fn),
    add("Fold its callees into it", "below", own, fn),
    ...(tree.by ? [] : [add("Collapse its recursion", "collapse", "function", fn)]),
  ];
  const owner = packageOf(tree.names[name]).name;
  if (tree.by || owner === "") return all;
  const short = [...owner.slice(0, 80)].slice(0, 40).join("");
  return [
    ...all,
    add(`Only stacks with package ${short}`, "with", "package", owner),
    add(`Leave out stacks with package ${short}`, "drop", "package", owner),
    add(`Fold package ${short} into its callers`, "fold", "package", owner),
    add(`Draw package ${short} as one frame`, "one", "package", owner),
    add("Draw its file as one frame", "one", "file", frameParts(fn).file),
  ];
}

/** The text of the function that a word in the address means, as these names have it; the word where none does. */
export const functionMeant = (names: readonly string[], word: string): string =>
  names.map(withoutLine).find((text) => nameWord(text) === word) ?? word;

export const sandwichOf = (fn: string): Partial<Place> => ({ view: "sandwich", fn: nameWord(fn), focus: "", q: "" });

export const linesOf = (fn: string): Partial<Place> => ({ view: "lines", fn: nameWord(fn), focus: "" });
