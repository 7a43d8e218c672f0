import { meanOf } from "./compare.ts";
import { callers, GROW_AT_LEAST } from "./invert.ts";
import { nameWord } from "./focus.ts";
import { withoutLine } from "./packages.ts";
import { regrow } from "./rebuildTree.ts";
import { totals, type Tree } from "./tree.ts";
import { narrow, widen } from "./expandStates.ts";

/** One function from both ends. In both trees it is the root, and its total is that of the stacks that have it. */
export interface Sandwich {
  readonly callers: Tree;
  readonly callees: Tree;
}

/**
 * Who called a function and what it called. A stack in which it recurs counts once, at its outermost frame:
 * callers are those of that frame, and inner frames are among its callees. Null if no frame has that name.
 */
export function sandwich(tree: Tree, fn: string, divisor: readonly number[], atLeast = GROW_AT_LEAST): Sandwich | null {
  const one = joined(widen(tree), fn);
  if (!one) return null;
  const sides = tree.self.length;
  const total = meanOf(one.tree.self.slice(0, sides).map((self) => totals(one.tree.level, self)), divisor);
  const shown = (half: Tree): Tree => ({ ...narrow(half, sides), by: tree.by });
  return { callers: shown(callers(one.tree, one.name, total, atLeast)), callees: shown(callees(one.tree, one.name)) };
}

/** The tree with all frames of the function under its one name, and that name's number. */
function joined(tree: Tree, word: string): { tree: Tree; name: number } | null {
  const means = (text: string) => nameWord(text) === word || (tree.by === undefined && nameWord(withoutLine(text)) === word);
  const meant = Uint8Array.from(tree.names, (text) => (means(text) ? 1 : 0));
  if (!tree.name.some((name, node) => node > 0 && meant[name] === 1)) return null;
  const text = tree.names[meant.indexOf(1)];
  const fn = nameWord(text) === word ? text : withoutLine(text);
  const known = tree.names.indexOf(fn);
  const one = known < 0 ? tree.names.length : known;
  const names = known < 0 ? [...tree.names, fn] : tree.names;
  return { tree: { ...tree, names, name: tree.name.map((name) => (meant[name] === 1 ? one : name)) }, name: one };
}

function callees(tree: Tree, name: number): Tree {
  let begun = 0;
  return regrow(tree, tree.names, (node, at, path) => {
    if (begun >= at) begun = 0;
    if (begun > 0) path.keep();
    else if (tree.name[node] === name) {
      begun = at;
      path.into(0);
    } else path.nowhere();
  }, (_, at) => at > 0 && begun > 0, name);
}
