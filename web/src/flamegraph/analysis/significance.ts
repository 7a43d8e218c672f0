import type { Verdict, Direction } from "../../api/verdict.ts";
import { directionOfDelta, type Change } from "../tree/compare.ts";
import { ownerOf, withoutLine } from "../tree/packages.ts";
import type { Tree } from "../tree/tree.ts";

/** The significant changes of a comparison, as the collector computed them. */
export interface Significance {
  /** The levels of the tested nodes; they identify the tree. */
  readonly level: Int32Array;
  readonly changed: ArrayLike<number>;
  /** The names of the changed nodes, and their files or packages. */
  readonly names: ReadonlySet<string>;
  /** The row of a function in the verdict. */
  readonly row: ReadonlyMap<string, number>;
  readonly functions: Verdict["functions"];
  /** The text of an insignificant change. */
  readonly label: string;
}

/** A verdict on a tree whose frames may be drawn under the names of their files or packages. */
export function significanceOf(tree: Tree, changed: ArrayLike<number>, { functions, direction }: Verdict, by?: "file" | "package"): Significance {
  const names = new Set<string>();
  const isNotComparable = direction === "not_comparable";
  if (!isNotComparable) tree.name.forEach((name, node) => { if (changed[node] === 1) names.add(tree.names[name]).add(withoutLine(tree.names[name])); });
  return {
    level: tree.level, changed: isNotComparable ? [] : changed, functions, label: isNotComparable ? "not comparable" : "within noise",
    names: by ? new Set([...names].map((name) => ownerOf(name, by))) : names,
    row: new Map(isNotComparable ? [] : functions.function.map((name, at) => [formatFrame(name, functions.file[at]), at])),
  };
}

export const formatFrame = (name: string, file: string): string => (file === "" ? name : `${name} (${file})`);

/** Whether a direction is a significant change. */
export const isSignificant = (direction: Direction): boolean => direction === "increased" || direction === "decreased" || direction === "new" || direction === "removed";

/**
 * A change, with the direction that what was found leaves it. What was tested itself is taken at its word; of
 * what is put together of such, only what is beyond its counting noise too.
 */
export function applySignificance(change: Change, us: readonly [number, number], isSignificantChange: boolean, isTested: boolean): Change {
  if (change.direction === "no_data" || (isSignificantChange && !isTested)) return change;
  return { ...change, direction: isSignificantChange ? directionOfDelta(us, change.delta) : "unchanged" };
}

export const applyNodeSignificance = (significance: Significance, { level, names, name }: Tree, node: number, us: readonly [number, number], change: Change): Change =>
  (level === significance.level ? applySignificance(change, us, significance.changed[node] === 1, true) : applySignificance(change, us, significance.names.has(names[name[node]]), false));
