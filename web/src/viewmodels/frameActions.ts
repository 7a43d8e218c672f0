import type { Place } from "../lib/url.ts";
import { pathKey, nameKey } from "../flamegraph/tree/focus.ts";
import { frameParts, packageOf, withoutLine } from "../flamegraph/tree/packages.ts";
import { transform, appendTransform, type Subject, type Verb } from "../flamegraph/tree/transforms.ts";
import type { Tree } from "../flamegraph/tree/tree.ts";
import * as strings from "../strings/frameStrings.ts";

/** An action on a frame: pass `changes` to `change()`. */
export interface FrameAction {
  readonly label: string;
  /** Its keyboard shortcut, or empty. */
  readonly key: string;
  readonly changes: Partial<Place>;
}

/** The text of a name without its line, as transforms, the sandwich and the lines view use it. */
export const functionText = (tree: Tree, name: number): string => (tree.by ? tree.names[name] : withoutLine(tree.names[name]));

/** The actions on a node of the displayed tree, in display order. The root has none. */
export function frameActions(tree: Tree, node: number, here: Place): readonly FrameAction[] {
  if (node <= 0) return [];
  // A path is one of the tree that transforms are made on.
  const isUntransformed = !here.invert && !here.collapse && !tree.by && here.view !== "sandwich";
  return nameActions(tree, tree.name[node], here, isUntransformed ? pathKey(tree, node) : "");
}

/** The actions on a name of the tree; `path` is the key of its call path, or empty. */
export function nameActions(tree: Tree, name: number, here: Place, path = ""): readonly FrameAction[] {
  const fn = functionText(tree, name);
  const subject: Subject = tree.by ?? "function";
  const add = (label: string, verb: Verb, subject: Subject, about: string): FrameAction =>
    ({ label, key: "", changes: { t: appendTransform(here.t, transform(verb, subject, about)), focus: "" } });
  const actions: FrameAction[] = [
    { label: strings.callersAndCallees, key: "s", changes: sandwichPlace(fn) },
    ...(tree.by || here.page === "files" ? [] : [{ label: strings.lines, key: "l", changes: linesPlace(fn) }]),
    add(strings.focusOn(subject), "focus", subject, fn),
    ...(path === "" ? [] : [add(strings.focusOnCallPath, "path", "function", path)]),
    add(strings.keepStacksContainingIt, "with", subject, fn),
    add(strings.hideStacksContainingIt, "drop", subject, fn),
    add(strings.mergeIntoCallers, "fold", subject, fn),
    add(strings.mergeCallees, "below", subject, fn),
    ...(tree.by ? [] : [add(strings.foldRecursion, "collapse", "function", fn)]),
  ];
  const packageName = packageOf(tree.names[name]).name;
  if (tree.by || packageName === "") return actions;
  const short = [...packageName.slice(0, 80)].slice(0, 40).join("");
  return [
    ...actions,
    add(strings.keepStacksContainingPackage(short), "with", "package", packageName),
    add(strings.hideStacksContainingPackage(short), "drop", "package", packageName),
    add(strings.mergePackageIntoCallers(short), "fold", "package", packageName),
    add(strings.groupPackage(short), "one", "package", packageName),
    add(strings.groupFile, "one", "file", frameParts(fn).file),
  ];
}

/** The function text that a key in the address stands for; the key itself if no name matches. */
export const resolveFunction = (names: readonly string[], word: string): string =>
  names.map(withoutLine).find((text) => nameKey(text) === word) ?? word;

export const sandwichPlace = (fn: string): Partial<Place> => ({ view: "sandwich", fn: nameKey(fn), focus: "", q: "" });

export const linesPlace = (fn: string): Partial<Place> => ({ view: "lines", fn: nameKey(fn), focus: "" });
