import { foldLibraries, mergeBy } from "./merge.ts";
import { applyTransforms, type OmittedSamples, type Transformed } from "./transforms.ts";
import type { Tree } from "./tree.ts";
import { collapseStates, expandStates } from "./expandStates.ts";
import type { MergeBy } from "../../lib/viewOptions.ts";

/** A tree after its transforms and merges, with the status of each transform. */
export interface TransformedTree {
  readonly tree: Tree;
  readonly steps: Transformed["steps"];
  /** By side. */
  readonly omitted: readonly OmittedSamples[];
}

/** Applies the transforms of an address, folds libraries, then merges frames. Transforms name functions, files and packages. */
export function transformTree(tree: Tree, t: string, by: MergeBy, isAppOnly = false): TransformedTree {
  const sides = tree.self.length;
  const { tree: transformed, steps, omitted } = applyTransforms(expandStates(tree), t);
  const merged = mergeBy(isAppOnly ? foldLibraries(transformed) : transformed, by);
  return { tree: { ...collapseStates(merged, sides), by: merged.by }, steps, omitted: omitted.slice(0, sides) };
}
