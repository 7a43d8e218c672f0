import { byState, STATES, type States, type Tree } from "./tree.ts";

/**
 * A tree whose states are columns like sides, so that whatever is done to sides is done to them: sides first,
 * then the states of each side. `collapseStates` puts them back.
 */
export function expandStates(tree: Tree): Tree {
  if (!tree.states) return tree;
  const columns = tree.states.flatMap((states) => STATES.map((state) => states[state]));
  const zeros = new Float64Array(tree.level.length);
  return { ...tree, self: [...tree.self, ...columns], samples: [...tree.samples, ...columns.map(() => zeros)] };
}

export function collapseStates(tree: Tree, sides: number): Tree {
  if (tree.self.length === sides) return tree;
  const { self, samples } = tree;
  return { ...tree, self: self.slice(0, sides), samples: samples.slice(0, sides), states: statesOf(self, sides) };
}

/** The columns behind the sides', by side. */
export function statesOf(columns: readonly Float64Array[], sides: number): States[] {
  return Array.from({ length: sides }, (_, side) => byState((_state, at) => columns[sides + side * STATES.length + at]));
}
