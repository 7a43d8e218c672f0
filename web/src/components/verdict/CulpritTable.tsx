import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Culprit, Verdict } from "../../api/verdict.ts";
import { pathKeyOfNames } from "../../flamegraph/tree/focus.ts";
import { formatFrame } from "../../flamegraph/analysis/significance.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { place } from "../../lib/location.ts";
import { percent, signed } from "../../lib/numbers.ts";
import { formatColumn, rateUnit } from "../../lib/quantities.ts";
import { describeNoCulprits } from "../../viewmodels/verdictText.ts";
import { SourceLink } from "../controls/SourceLink.tsx";
import { Link } from "../ui/Controls.tsx";
import { formatPods, formatQ } from "./EffectCells.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

/** Where the change starts: a few functions at once, all on demand. */
export function CulpritTable({ verdict }: { verdict: Verdict }) {
  const [isAll, setAll] = useState(false);
  const { rows } = verdict.culprits;
  // What leaves the graph its room: on a phone rows are cards, and side by side each has a heading.
  const first = matchMedia("(max-width: 699px)").matches ? 2 : place.value.view === "sides" ? 3 : 4;
  const more = rows.length - first;
  return (
    <CulpritRows verdict={verdict} shown={isAll ? rows.length : first}>
      {more > 0 && <button type="button" aria-expanded={isAll} onClick={() => setAll(!isAll)}>{isAll ? strings.showFewer : strings.showMoreRows(more)}</button>}
    </CulpritRows>
  );
}

export function CulpritRows({ verdict, shown, children }: { verdict: Verdict; shown: number; children?: ComponentChildren }) {
  const { culprits: { rows }, functions, functions_total: all, method: { unit }, direction } = verdict;
  const here = place.value;
  const allFunctions = <Link to={{ ...here, view: "table", sort: "-total", q: "" }}>{strings.allFunctions(all)}</Link>;
  if (direction === "not_comparable" || direction === "no_data") return null;
  if (rows.length === 0) return <p class="culprits none" role="status">{describeNoCulprits(verdict)} {all > 0 && allFunctions}</p>;
  const isShare = unit === "share";
  const { scale, symbol } = isShare ? { scale: 100, symbol: "" } : rateUnit(here.type, unit);
  const deltas = formatColumn(rows.map(({ delta }) => delta * scale), symbol);
  const largest = Math.max(...rows.map(({ delta }) => Math.abs(delta)));
  const renamed = new Map(functions.function.map((name, at) => [formatFrame(name, functions.file[at]), functions.renamed_from[at]]));
  const heads: [string, string?][] = [
    [isShare ? strings.deltaSharePoints : unit === "request" ? strings.deltaPerRequest : strings.deltaPerPod],
    [strings.part, strings.partHint],
    [strings.change, strings.changeHint],
    [strings.fdrQ, strings.fdrHint],
    [strings.pods, strings.podsHint],
  ];
  return (
    <section class="culprits" aria-label={strings.whatChanged}>
      <div class="wide cards" role="region" aria-label={strings.functionsWhereChangeStarts}>
        <table role="table">
          <thead><tr>
            <th scope="col">{strings.whatChanged}</th>
            {heads.map(([text, hint]) => <th key={text} scope="col" class="number" title={hint}>{text}</th>)}
            <th scope="col" class="more">{children} {allFunctions}</th>
          </tr></thead>
          <tbody role="rowgroup">
            {rows.slice(0, shown).map((row, at) => (
              <tr role="row" key={`${row.names.join("\n")}\n${row.direction}`}>
                <th scope="row" role="rowheader"><CulpritName row={row} renamedFrom={renamed.get(formatFrame(row.function, row.file)) ?? null} /></th>
                {[deltas[at], percent(Math.abs(row.share), 0), describeRelative(row), formatQ(row.q), formatPods(row.pods_agreeing, row.pods_total)].map((text, column) => (
                  <td role="cell" key={heads[column][0]} class={`number ${column === 0 ? row.direction : ""}`} data-head={heads[column][0]}>{text}</td>
                ))}
                <td role="cell" class="weight"><span class={row.direction} aria-hidden="true" style={{ width: `${(Math.abs(row.delta) / largest) * 100}%` }} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** The function, the library frames folded into it, and the way to its place in the graph. */
function CulpritName({ row: { function: name, file, folded, names, direction, delta }, renamedFrom }: { row: Culprit; renamedFrom: string | null }) {
  const path = names.map((frame) => frameParts(frame).function).join(" › ").slice(-300);
  return (
    <>
      <span class={direction} aria-hidden="true">{delta > 0 ? "▲" : "▼"} </span>
      <Link to={{ ...place.value, view: "flame", by: "function", t: "", q: "", invert: false, collapse: false, focus: pathKeyOfNames(names) }} title={strings.openInGraph(path)} onClick={showGraph}>
        <bdi>{name.slice(0, 120)}</bdi>{folded.map((frame) => <span key={frame}> › <bdi>{frameParts(frame).function.slice(0, 60)}</bdi></span>)}
      </Link>{" "}
      <bdi class="quiet">{file.slice(-80)}</bdi>{" "}<SourceLink frame={formatFrame(name, file)} />
      {renamedFrom !== null && <span class="quiet">{" "}{strings.was(<bdi>{renamedFrom.slice(0, 120)}</bdi>)}</span>}
    </>
  );
}

/** The graph, where it is out of view; the page opens it at the frame. */
const showGraph = () => {
  // After the page has drawn the view with the graph.
  setTimeout(() => document.querySelector(".flame-graph")?.scrollIntoView({ block: "nearest" }));
};

/** "+9 % (+4 … +14)", of all that the function took in A. */
function describeRelative({ relative, delta, low, high, direction }: Culprit): string {
  if (direction === "new" || direction === "removed" || relative === null || delta === 0) return direction;
  const part = (value: number) => {
    // Nothing loses more than all.
    const change = Math.max((value / delta) * relative, -1);
    return signed((change * 100).toFixed(Math.abs(relative) < 0.095 ? 1 : 0), change);
  };
  return `${part(delta)} %${low !== null && high !== null ? ` (${part(low)} … ${part(high)})` : ""}`;
}

