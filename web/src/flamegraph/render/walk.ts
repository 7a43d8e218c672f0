import { childrenOf, type Shape } from "../tree/tree.ts";

export type ArrowStep = "up" | "down" | "left" | "right";

/**
 * The frame an arrow key leads to: up to the caller, down to the widest callee, left and right to the
 * siblings that have a width. At an edge it stays where it is.
 */
export function nextFrame(shape: Shape, total: Float64Array, from: number, step: ArrowStep): number {
  if (step === "up") return Math.max(shape.parent[from], 0);
  if (step === "down") {
    let widest = from;
    for (const child of childrenOf(shape, from)) {
      if (total[child] > 0 && (widest === from || total[child] > total[widest])) widest = child;
    }
    return widest;
  }
  if (from === 0) return 0;
  const siblings = childrenOf(shape, shape.parent[from]).filter((node) => total[node] > 0 || node === from);
  const at = siblings.indexOf(from) + (step === "left" ? -1 : 1);
  return siblings[at] ?? from;
}
