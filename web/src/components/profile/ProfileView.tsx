import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { FlameAnswer } from "../../api/answers.ts";
import { significanceOf } from "../../flamegraph/analysis/significance.ts";
import { transformTree } from "../../flamegraph/tree/transformedTree.ts";
import { computeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { treeOf, sum, type Tree, type WireTree } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { rateUnit } from "../../lib/quantities.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";
import { FlamePanel } from "./FlamePanel.tsx";
import type { PictureSide } from "./PictureButtons.tsx";
import { CallTree, FunctionTable, LinesView, SandwichView } from "./viewsOnDemand.ts";
import { DirectionMenu, isByWeight } from "./ProfileControls.tsx";
import { TransformBar } from "./TransformBar.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/**
 * A tree of one side or two through every lens of the address: transforms, merging, and a view of what is left.
 * `controls` stand at the start of its tools; `breakdown` draws the groups of the transformed tree.
 */
export function ProfileView({ answer, names, controls, breakdown }: {
  answer: Omit<WireTree, "sides"> & Pick<FlameAnswer, "verdict" | "changed"> & { readonly sides: readonly (WireTree["sides"][number] & PictureSide & { readonly pod_seconds: number })[] };
  names: readonly string[]; controls?: ComponentChildren; breakdown?: (tree: Tree) => ComponentChildren;
}) {
  const { t, by, invert, collapse, app, view, raw } = place.value;
  const norm = names.length === 1 ? "rate" : normalisationOf(answer.verdict);
  const unit = rateUnit(place.value.type, answer.verdict?.method.unit);
  const tree = useMemo(() => treeOf(answer), [answer]);
  const transformed = useMemo(() => transformTree(tree, t, by, app), [tree, t, by, app]);
  // A table and a sandwich are the same in each direction, and a call tree sorts its rows itself.
  const hasDirection = view === "flame" || view === "sides" || view === "both";
  const isInverted = invert && (hasDirection || view === "tree");
  const isHeaviestFirst = hasDirection && isByWeight();
  const { verdict, changed } = answer;
  const podSeconds = useMemo(() => observedPodSeconds(answer.sides.map((side) => side.pod_seconds), tree, verdict), [tree]);
  const significance = useMemo(() => (verdict && changed && !raw ? significanceOf(tree, changed, verdict, transformed.tree.by) : null), [transformed, raw]);
  const metrics = useMemo(
    () => computeMetrics(transformed.tree, podSeconds, { invert: isInverted, isByWeight: isHeaviestFirst, collapse, norm, unit, significance }),
    [transformed, podSeconds, isInverted, isHeaviestFirst, collapse, norm, unit, significance],
  );
  const isEmpty = t !== "" && transformed.omitted.every(({ samples, total }) => samples === total);
  const isGraph = hasDirection && !isEmpty;
  return (
    <>
      {controls && !isGraph && <div class="viewbar">{controls}{view === "tree" && <DirectionMenu hasRoots={false} />}</div>}
      <TransformBar transformed={transformed} names={names} hasPicker={!controls} />
      {view === "breakdown" && breakdown ? breakdown(transformed.tree)
        : view === "lines" ? <LinesView tree={tree} names={names} norm={norm} />
        : isEmpty ? <EmptyTransform />
        : view === "table" ? <FunctionTable metrics={metrics} names={names} />
        : view === "tree" ? <CallTree metrics={metrics} names={names} />
        : view === "sandwich" ? <SandwichView metrics={metrics} names={names} />
        : <FlamePanel key={view === "both" ? "both" : "graph"} metrics={metrics} names={names} sides={answer.sides} controls={controls}
            {...(view === "both" && { table: (link) => <FunctionTable metrics={metrics} names={names} link={link} /> })} />}
    </>
  );
}

/** What numbers are divided by: as the address has it, else as the basis of the comparison needs it. */
export const normalisationOf = (verdict: FlameAnswer["verdict"] | null): Normalisation => place.value.norm || (verdict?.basis === "composition" ? "share" : "rate");

/** Pod-seconds of each side; of B, where a verdict is per request, as many as A would have had for B's requests. */
function observedPodSeconds(podSeconds: number[], tree: Tree, verdict: FlameAnswer["verdict"]): number[] {
  if (verdict?.method.unit !== "request") return podSeconds;
  const { baseline: a, comparison: b } = verdict.sampling_only ?? verdict.rate;
  const [inA, inB] = tree.self.map(sum);
  // Not a number where a side took none.
  return [podSeconds[0], (podSeconds[0] * inB * a) / (inA * b) || podSeconds[1]];
}

function EmptyTransform() {
  return (
    <div class="card zero">
      <h2>{strings.everySampleHidden}</h2>
      <p>{strings.removeOneOfThem}</p>
      <button type="button" class="primary" onClick={() => change({ t: "", focus: "" })}>{strings.removeAllTransforms}</button>
    </div>
  );
}
