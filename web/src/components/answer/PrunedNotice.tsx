import type { FlameAnswer } from "../../api/answers.ts";
import { change } from "../../lib/location.ts";
import { plural } from "../../lib/numbers.ts";

/** Says what the collector folded into (other) so that the picture stays drawable. */
export function PrunedNotice({ pruned }: { pruned: FlameAnswer["pruned"] }) {
  if (pruned.nodes === 0) return null;
  return (
    <p class="notices single">
      {plural(pruned.nodes, "tiny call path")} grouped into <code>(other)</code>; totals are exact.{" "}
      <button type="button" onClick={() => change({ nodes: "all" })}>Show all</button>
    </p>
  );
}
