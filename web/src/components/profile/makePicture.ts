import { lookOf, changeLook, unlessSame } from "../../flamegraph/render/colourSchemes.ts";
import { describe } from "../../flamegraph/analysis/frameDescription.ts";
import type { Reading } from "../../flamegraph/analysis/treeMetrics.ts";
import type { Picture } from "../../flamegraph/render/flameGraphView.ts";
import type { Norm, ColourBy } from "../../lib/viewOptions.ts";

/** What a graph shows of a reading: its only side, one of two, or their difference. */
export type Kind = "single" | "a" | "b" | "difference";

export function paint(
  kind: Kind, reading: Reading, names: readonly string[], norm: Norm, sig: boolean, seen: Pick<Picture, "focus" | "hit" | "marksBefore">,
  colour: ColourBy = "package",
): Picture {
  const { tree, shape } = reading;
  const side = kind === "b" ? 1 : 0;
  const title = kind === "difference" ? "Differential flame graph, A to B" : kind === "single" ? "Flame graph" : `Flame graph of ${names[side]}`;
  return {
    tree,
    shape,
    total: kind === "difference" ? reading.total : reading.us[side],
    look: kind === "difference" ? changeLook(reading, sig) : kind !== "single" && sig ? unlessSame(reading, lookOf(reading, side, colour)) : lookOf(reading, side, colour),
    describe: (node) => describe(reading, norm, node),
    label: `${title}: ${tree.level.length - 1} call paths, ${shape.deepest} deep. Arrow keys walk, Enter zooms. The Table view has the same numbers.`,
    ...seen,
  };
}
