import type { Verdict, Way } from "../../api/verdict.ts";
import { wayOf, type Change } from "../tree/compare.ts";
import { ownerOf, withoutLine } from "../tree/packages.ts";
import type { Tree } from "../tree/tree.ts";

/** What of a comparison is outside noise, as the collector found it. */
export interface Judged {
  /** Of the nodes that were tested: their levels are these, by which their tree is known. */
  readonly level: Int32Array;
  readonly changed: ArrayLike<number>;
  /** The names of the nodes that changed, and the files or packages that those are of. */
  readonly names: ReadonlySet<string>;
  /** The row of a function in the verdict. */
  readonly row: ReadonlyMap<string, number>;
  readonly functions: Verdict["functions"];
  /** What is said of that which has no direction. */
  readonly words: string;
}

/** A verdict on a tree whose frames may be drawn under the names of their files or packages. */
export function judgedBy(tree: Tree, changed: ArrayLike<number>, { functions, direction }: Verdict, by?: "file" | "package"): Judged {
  const names = new Set<string>();
  const none = direction === "incomparable";
  if (!none) tree.name.forEach((name, node) => { if (changed[node]) names.add(tree.names[name]).add(withoutLine(tree.names[name])); });
  return {
    level: tree.level, changed: none ? [] : changed, functions, words: none ? "not comparable" : "within noise",
    names: by ? new Set([...names].map((name) => ownerOf(name, by))) : names,
    row: new Map(none ? [] : functions.function.map((name, at) => [frameText(name, functions.file[at]), at])),
  };
}

export const frameText = (name: string, file: string): string => (file === "" ? name : `${name} (${file})`);

/** Whether something is outside noise: neither the same nor unknown in some way. */
export const isOutside = (way: Way): boolean => way === "more" || way === "less" || way === "new" || way === "gone";

/**
 * A change, with the direction that what was found leaves it. What was tested itself is taken at its word; of
 * what is put together of such, only what is beyond its counting noise too.
 */
export function settled(change: Change, us: readonly [number, number], outside: boolean, tested: boolean): Change {
  if (change.direction === "unknown" || (outside && !tested)) return change;
  return { ...change, direction: outside ? wayOf(us, change.delta) : "same" };
}

export const nodeSettled = (judged: Judged, { level, names, name }: Tree, node: number, us: readonly [number, number], change: Change): Change =>
  (level === judged.level ? settled(change, us, judged.changed[node] === 1, true) : settled(change, us, judged.names.has(names[name[node]]), false));
