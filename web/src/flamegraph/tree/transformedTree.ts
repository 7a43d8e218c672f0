import { mergeBy } from "./merge.ts";
import { applyTransforms, type LeftOut, type Transformed } from "./transforms.ts";
import type { Tree } from "./tree.ts";
import { narrow, widen } from "./expandStates.ts";
import type { MergeBy } from "../../lib/viewOptions.ts";

/** A tree as it is looked at: transformed, merged, and what became of each transform. */
export interface Looked {
  readonly tree: Tree;
  readonly steps: Transformed["steps"];
  /** By side. */
  readonly left: readonly LeftOut[];
}

/** Makes the transforms of an address, then merges frames: what transforms name are functions, files and packages. */
export function look(tree: Tree, t: string, by: MergeBy): Looked {
  const sides = tree.self.length;
  const { tree: transformed, steps, left } = applyTransforms(widen(tree), t);
  const merged = mergeBy(transformed, by);
  return { tree: { ...narrow(merged, sides), by: merged.by }, steps, left: left.slice(0, sides) };
}
