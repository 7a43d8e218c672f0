import { meanOf } from "./compare.ts";
import { callers, MIN_WEIGHT_SHARE } from "./invert.ts";
import { nameKey } from "./focus.ts";
import { withoutLine } from "./packages.ts";
import { rebuildTree } from "./rebuildTree.ts";
import { totals, type Tree } from "./tree.ts";
import { collapseStates, expandStates } from "./expandStates.ts";

/** One function from both ends. In both trees it is the root, and its total is that of the stacks that have it. */
export interface Sandwich {
  readonly callers: Tree;
  readonly callees: Tree;
}

/**
 * Who called a function and what it called. A stack in which it recurs counts once, at its outermost frame:
 * callers are those of that frame, and inner frames are among its callees. Null if no frame has that name.
 */
export function sandwich(tree: Tree, fn: string, divisor: readonly number[], minShare = MIN_WEIGHT_SHARE): Sandwich | null {
  const joined = joinFrames(expandStates(tree), fn);
  if (!joined) return null;
  const sides = tree.self.length;
  const total = meanOf(joined.tree.self.slice(0, sides).map((self) => totals(joined.tree.level, self)), divisor);
  const withSides = (half: Tree): Tree => ({ ...collapseStates(half, sides), by: tree.by });
  return { callers: withSides(callers(joined.tree, joined.name, total, minShare)), callees: withSides(callees(joined.tree, joined.name)) };
}

/** The tree with all frames of the function under its one name, and that name's number. */
function joinFrames(tree: Tree, key: string): { tree: Tree; name: number } | null {
  const matches = (text: string) => nameKey(text) === key || (tree.by === undefined && nameKey(withoutLine(text)) === key);
  const isFunction = Uint8Array.from(tree.names, (text) => (matches(text) ? 1 : 0));
  if (!tree.name.some((name, node) => node > 0 && isFunction[name] === 1)) return null;
  const text = tree.names[isFunction.indexOf(1)];
  const fn = nameKey(text) === key ? text : withoutLine(text);
  const existing = tree.names.indexOf(fn);
  const nameIndex = existing < 0 ? tree.names.length : existing;
  const names = existing < 0 ? [...tree.names, fn] : tree.names;
  return { tree: { ...tree, names, name: tree.name.map((name) => (isFunction[name] === 1 ? nameIndex : name)) }, name: nameIndex };
}

function callees(tree: Tree, name: number): Tree {
  let startLevel = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    if (startLevel >= at) startLevel = 0;
    if (startLevel > 0) placement.keep();
    else if (tree.name[node] === name) {
      startLevel = at;
      placement.mergeInto(0);
    } else placement.drop();
  }, (_, at) => at > 0 && startLevel > 0, name);
}
