import type { Note } from "../../api/answers.ts";
import { withNotes } from "../notes/noteText.ts";
import { boxStyles, changeStyles, greyUnchanged } from "../../flamegraph/render/colourSchemes.ts";
import { describeFrame } from "../../flamegraph/analysis/frameDescription.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import type { Picture } from "../../flamegraph/render/flameGraphView.ts";
import type { ColourBy } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** What a graph shows of a reading: its only side, one of two, or their difference. */
export type PictureKind = "single" | "a" | "b" | "difference";

export function makePicture(
  kind: PictureKind, metrics: TreeMetrics, names: readonly string[], sig: boolean, view: Pick<Picture, "focus" | "base" | "hit" | "marksBefore" | "isUpward">,
  colour: ColourBy = "package", noted: ReadonlyMap<number, readonly Note[]> = new Map(),
): Picture {
  const { tree, shape } = metrics;
  const side = kind === "b" ? 1 : 0;
  const title = kind === "difference" ? strings.differentialGraph : kind === "single" ? strings.flameGraph : strings.flameGraphOf(names[side]);
  return {
    tree,
    shape,
    total: kind === "difference" ? metrics.total : metrics.us[side],
    style: kind === "difference" ? changeStyles(metrics, sig) : kind !== "single" && sig ? greyUnchanged(metrics, boxStyles(metrics, side, colour)) : boxStyles(metrics, side, colour),
    describe: (node) => withNotes(describeFrame(metrics, node, view.focus), noted.get(tree.name[node])),
    isNoted: noted.size > 0 ? (node) => noted.has(tree.name[node]) : null,
    label: strings.graphDescription(title, tree.level.length - 1, shape.deepest),
    ...view,
  };
}
