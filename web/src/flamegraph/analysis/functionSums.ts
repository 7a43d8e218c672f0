import { totals, type Shape, type Tree } from "../tree/tree.ts";

/** Sums per function over one subtree: `total[side][row]` counts a function once per stack. Microseconds. */
export interface FunctionSums {
  readonly name: Int32Array;
  readonly self: readonly Float64Array[];
  readonly total: readonly Float64Array[];
  readonly selfSamples: readonly Float64Array[];
  readonly totalSamples: readonly Float64Array[];
}

/**
 * Every function below `top` (and `top` itself, unless it is the root) with its self and total.
 * A recursive function is counted at its outermost frame only, so no total exceeds the whole.
 */
export function functionSums(tree: Tree, shape: Shape, top = 0): FunctionSums {
  const sides = tree.self.length;
  const row = new Int32Array(tree.names.length).fill(-1);
  const name: number[] = [];
  const start = top === 0 ? 1 : top;
  for (let i = start; i < shape.end[top]; i++) {
    if (row[tree.name[i]] >= 0) continue;
    row[tree.name[i]] = name.length;
    name.push(tree.name[i]);
  }
  const columns = () => Array.from({ length: sides }, () => new Float64Array(name.length));
  const sums = { name: Int32Array.from(name), self: columns(), total: columns(), selfSamples: columns(), totalSamples: columns() };
  const total = tree.self.map((column) => totals(tree.level, column));
  const totalSamples = tree.samples.map((column) => totals(tree.level, column));
  // The end of the outermost open frame of each function: a frame before it lies inside.
  const openUntil = new Int32Array(name.length);
  for (let i = start; i < shape.end[top]; i++) {
    const at = row[tree.name[i]];
    const outermost = i >= openUntil[at];
    if (outermost) openUntil[at] = shape.end[i];
    for (let side = 0; side < sides; side++) {
      sums.self[side][at] += tree.self[side][i];
      sums.selfSamples[side][at] += tree.samples[side][i];
      if (!outermost) continue;
      sums.total[side][at] += total[side][i];
      sums.totalSamples[side][at] += totalSamples[side][i];
    }
  }
  return sums;
}
