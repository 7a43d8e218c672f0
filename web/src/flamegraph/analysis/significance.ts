import type { Verdict, Direction } from "../../api/verdict.ts";
import { directionOfDelta, type Change, type ChangeDirection } from "../tree/compare.ts";
import { libraryName } from "../tree/merge.ts";
import { ownerOf, withoutLine } from "../tree/packages.ts";
import type { Tree } from "../tree/tree.ts";
import * as strings from "../../strings/frameStrings.ts";

/** The flags of nodes in an answer. */
const WITHIN_NOISE = 0;
const CHANGED = 1;
const NOT_JUDGED = 2;

/** The significant changes of a comparison, as the collector computed them. */
export interface Significance {
  /** The levels of the tested nodes; they identify the tree. */
  readonly level: Int32Array;
  /** 0 within noise, 1 changed, 2 not judged, for each tested node. */
  readonly flags: ArrayLike<number>;
  /** The names of the changed nodes, and their files or packages. */
  readonly names: ReadonlySet<string>;
  /** The names of which no node was judged. */
  readonly unjudged: ReadonlySet<string>;
  /** The row of a function in the verdict. */
  readonly row: ReadonlyMap<string, number>;
  readonly functions: Verdict["functions"];
  /** Whether shares of the profile were tested, not rates. */
  readonly isByShare: boolean;
  /** The text of an insignificant change. */
  readonly label: string;
}

/** A verdict on a tree whose frames may be drawn under the names of their files or packages. */
export function significanceOf(tree: Tree, flags: ArrayLike<number>, { functions, direction, basis }: Verdict, by?: "file" | "package"): Significance {
  const isNotComparable = direction === "not_comparable";
  const flagged = (flag: number) => namesFlagged(tree, isNotComparable ? [] : flags, flag, by);
  const names = flagged(CHANGED);
  let unjudged: ReadonlySet<string> | null = null;
  return {
    level: tree.level, flags: isNotComparable ? [] : flags, functions, isByShare: basis === "composition", label: isNotComparable ? strings.notComparable : strings.withinNoise,
    names,
    // For trees put together anew alone: the first picture does not wait for it.
    get unjudged() {
      if (unjudged) return unjudged;
      const within = flagged(WITHIN_NOISE);
      return (unjudged = new Set([...flagged(NOT_JUDGED)].filter((name) => !names.has(name) && !within.has(name))));
    },
    row: new Map(isNotComparable ? [] : functions.function.map((name, at) => [formatFrame(name, functions.file[at]), at])),
  };
}

function namesFlagged(tree: Tree, flags: ArrayLike<number>, flag: number, by?: "file" | "package"): Set<string> {
  const numbers = new Set<number>();
  for (let node = 0; node < flags.length; node++) if (flags[node] === flag) numbers.add(tree.name[node]);
  return new Set([...numbers].map((number) => tree.names[number]).flatMap((name) => (by ? [ownerOf(name, by)] : [name, withoutLine(name), libraryName(name)])));
}

export const formatFrame = (name: string, file: string): string => (file === "" ? name : `${name} (${file})`);

/** Whether a direction is a significant change. */
export const isSignificant = (direction: Direction | ChangeDirection): boolean => direction === "increased" || direction === "decreased" || direction === "new" || direction === "removed";

/**
 * A change, with the direction that what was found leaves it. What was tested itself is taken at its word; of
 * what is put together of such, only what is beyond its counting noise too.
 */
export function applySignificance(change: Change, us: readonly [number, number], verdict: "changed" | "noise" | "unjudged", isTested: boolean): Change {
  if (change.direction === "no_data" || (verdict === "changed" && !isTested)) return change;
  return { ...change, direction: verdict === "changed" ? directionOfDelta(us, change.delta) : verdict === "unjudged" ? "not_judged" : "unchanged" };
}

export function applyNodeSignificance(significance: Significance, { level, names, name }: Tree, node: number, us: readonly [number, number], change: Change): Change {
  if (level === significance.level) {
    const flag = significance.flags[node];
    return applySignificance(change, us, flag === CHANGED ? "changed" : flag === NOT_JUDGED ? "unjudged" : "noise", true);
  }
  const text = names[name[node]];
  return applySignificance(change, us, significance.names.has(text) ? "changed" : significance.unjudged.has(text) ? "unjudged" : "noise", false);
}

/** 1 for each node that changed, of the tree that was tested; null for others, whose nodes are put together of its nodes. */
export function testedChanges({ level, flags }: Significance, tree: Tree): Uint8Array | null {
  if (tree.level !== level) return null;
  const changes = new Uint8Array(level.length);
  for (let node = 0; node < changes.length; node++) changes[node] = flags[node] === CHANGED ? 1 : 0;
  return changes;
}
