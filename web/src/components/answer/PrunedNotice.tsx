import type { FlameAnswer } from "../../api/answers.ts";
import { change } from "../../lib/location.ts";
import * as strings from "../../strings/answerStrings.tsx";

/** Says what the collector folded into (other) so that the picture stays drawable. */
export function PrunedNotice({ pruned }: { pruned: FlameAnswer["pruned"] }) {
  if (pruned.nodes === 0) return null;
  return (
    <p class="notices single">
      {strings.groupedPaths(pruned.nodes, <code>(other)</code>)}{" "}
      <button type="button" onClick={() => change({ nodes: "all" })}>{strings.showAll}</button>
    </p>
  );
}
