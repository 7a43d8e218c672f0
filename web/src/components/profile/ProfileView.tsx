import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { FlameAnswer } from "../../api/answers.ts";
import { judgedBy } from "../../flamegraph/analysis/significance.ts";
import { look } from "../../flamegraph/tree/transformedTree.ts";
import { read } from "../../flamegraph/analysis/treeMetrics.ts";
import { treeOf, sum, type Tree, type WireTree } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { FlamePanel } from "./FlamePanel.tsx";
import { Functions } from "./FunctionTable.tsx";
import { LinesView } from "./LinesView.tsx";
import type { PictureSide } from "./PictureButtons.tsx";
import { SandwichView } from "./SandwichView.tsx";
import { LensBar } from "./TransformBar.tsx";

/**
 * A tree of one side or two through every lens of the address: transforms, merging, and a view of what is left.
 * `below` stands under a flame graph.
 */
export function Lensed({ answer, names, below }: {
  answer: Omit<WireTree, "sides"> & Pick<FlameAnswer, "verdict" | "changed"> & { readonly sides: readonly (WireTree["sides"][number] & PictureSide & { readonly pod_seconds: number })[] };
  names: readonly string[]; below?: () => ComponentChildren;
}) {
  const { t, by, invert, collapse, view, raw } = place.value;
  const norm = names.length === 1 ? "rate" : place.value.norm;
  const tree = useMemo(() => treeOf(answer), [answer]);
  const looked = useMemo(() => look(tree, t, by), [tree, t, by]);
  const inverted = invert && view !== "table" && view !== "sandwich";
  const { verdict, changed } = answer;
  const podSeconds = useMemo(() => observed(answer.sides.map((side) => side.pod_seconds), tree, verdict), [tree]);
  const judged = useMemo(() => (verdict && changed && !raw ? judgedBy(tree, changed, verdict, looked.tree.by) : null), [looked, raw]);
  const reading = useMemo(
    () => read(looked.tree, podSeconds, { invert: inverted, collapse, norm, judged }),
    [looked, podSeconds, inverted, collapse, norm, judged],
  );
  const nothing = t !== "" && looked.left.every(({ samples, of }) => samples === of);
  return (
    <>
      <LensBar looked={looked} names={names} perRequest={verdict?.method.unit === "request"} />
      {view === "lines" ? <LinesView tree={tree} names={names} />
        : nothing ? <NothingLeft />
        : view === "table" ? <Functions reading={reading} names={names} />
        : view === "sandwich" ? <SandwichView reading={reading} names={names} />
        : <><FlamePanel reading={reading} names={names} sides={answer.sides} />{below?.()}</>}
    </>
  );
}

/** Pod-seconds of each side; of B, where a verdict is per request, as many as A would have had for B's requests. */
function observed(podSeconds: number[], tree: Tree, verdict: FlameAnswer["verdict"]): number[] {
  if (verdict?.method.unit !== "request") return podSeconds;
  const { a, b } = verdict.sampled ?? verdict.rate;
  const [inA, inB] = tree.self.map(sum);
  // Not a number where a side took none.
  return [podSeconds[0], (podSeconds[0] * inB * a) / (inA * b) || podSeconds[1]];
}

function NothingLeft() {
  return (
    <div class="card zero">
      <h2>These transforms leave out every sample</h2>
      <p>Remove one of them above, or all.</p>
      <button type="button" class="primary" onClick={() => change({ t: "", focus: "" })}>Remove all transforms</button>
    </div>
  );
}
