import type { Tree } from "../flamegraph/tree/tree.ts";
import { change, place } from "../lib/location.ts";
import * as strings from "../strings/offlineStrings.tsx";

/** Stands in the file for the view of one function's lines, which asks the collector. */
export function LinesView(_: { tree: Tree; names: readonly string[] }) {
  return (
    <div class="card zero">
      <h2>{strings.linesOfOneFunction}</h2>
      <p>{strings.collectorHasThemOpen}</p>
      <button type="button" class="primary" onClick={() => change({ view: place.peek().fn === "" ? "flame" : "sandwich" })}>{strings.back}</button>
    </div>
  );
}
