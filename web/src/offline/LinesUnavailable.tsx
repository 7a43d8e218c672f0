import type { Tree } from "../flamegraph/tree/tree.ts";
import { change, place } from "../lib/location.ts";

/** Stands in the file for the view of one function's lines, which asks the collector. */
export function LinesView(_: { tree: Tree; names: readonly string[] }) {
  return (
    <div class="card zero">
      <h2>The lines of one function are not in this file</h2>
      <p>The collector has them: open the same view there. A file that was exported with frames by line has all lines in its graph.</p>
      <button type="button" class="primary" onClick={() => change({ view: place.peek().fn === "" ? "flame" : "sandwich" })}>Back</button>
    </div>
  );
}
