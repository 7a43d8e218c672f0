import type { Effect, Effects, Verdict } from "../../api/verdict.ts";
import { formatFrame, isSignificant } from "../../flamegraph/analysis/significance.ts";
import { sandwichPlace } from "../../viewmodels/frameActions.ts";
import { formatNormalised } from "../../flamegraph/analysis/frameDescription.ts";
import { searchable } from "../../flamegraph/analysis/search.ts";
import { href, place } from "../../lib/location.ts";
import { count, interval, short, signed, confidenceLabel } from "../../lib/numbers.ts";
import { CopyButton } from "../ui/CopyButton.tsx";
import { Badge } from "../ui/Badge.tsx";
import { Link } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";

const MAX_ROWS = 10;

/** A rate of a verdict: time per second that a pod was watched, or per request. */
export const formatRate = (value: number, unit: string): string => formatNormalised(value, 1, "rate").replace("/s", unit === "request" ? "/request" : "/s");

/** The functions whose time changed most, with how sure that is: each leads on. */
export function ChangeTable({ verdict: { functions, functions_total: all, method: { unit, alpha_spent: level } } }: { verdict: Verdict }) {
  const here = place.value;
  const rows = functions.function.map((_, at) => at).filter((at) => functions.total.delta[at] !== 0 && (!here.sig || isSignificant(functions.total.direction[at]))).slice(0, MAX_ROWS);
  const rate = (value: number) => formatRate(value, unit);
  const delta = (of: Effects, at: number) => (
    <td class={`number ${of.direction[at]}`}>
      <Delta effect={{ delta: of.delta[at], low: of.low[at], high: of.high[at], direction: of.direction[at] }} format={rate} formatEnd={(value) => short(value * 1000)} />
    </td>
  );
  return (
    <section class="card changes" aria-label="Largest changes">
      <div class="caption"><h2>Largest changes</h2><Link to={{ ...here, view: "table", sort: "-total", q: "" }}>All {count(all)} functions</Link></div>
      {rows.length === 0 ? <p class="quiet">No function changed beyond noise.</p> : (
        <Table label="Functions that changed most" heads={["Function", "#A total", "#B total", `#Δ total, ${confidenceLabel(level)}`, "#Δ self", "#Pods", "#FDR q", "~Leads to"]}>
          {rows.map((at) => {
            const [fn, file, previousName] = [functions.function[at], functions.file[at], functions.renamed_from[at]];
            const text = formatFrame(fn, file);
            const searchPlace = { ...here, q: searchable(text), view: "flame" as const, focus: "" };
            return (
              <tr key={text}>
                <th scope="row">
                  <Link to={searchPlace} title="Find in the graph"><bdi>{fn.slice(0, 200)}</bdi></Link> <bdi class="quiet">{file.slice(0, 200)}</bdi>
                  {previousName !== null && <span class="quiet"> was <bdi>{previousName.slice(0, 200)}</bdi></span>}
                  <Badge change={{ direction: functions.total.direction[at] }} />
                </th>
                <td class="number">{rate(functions.total.baseline[at])}</td><td class="number">{rate(functions.total.comparison[at])}</td>
                {delta(functions.total, at)}{delta(functions.self, at)}
                <CertaintyCells effects={functions.total} row={at} />
                <td class="acts">
                  <Link class="button" to={{ ...here, ...sandwichPlace(text) }} title="Callers and callees">sandwich</Link>{" "}
                  <CopyButton text={() => text} what="Name">copy</CopyButton>{" "}
                  <CopyButton text={() => window.location.origin + href(searchPlace)} what="Link">link</CopyButton>
                </td>
              </tr>
            );
          })}
        </Table>
      )}
    </section>
  );
}

/** A difference with its sign and its interval. */
export function Delta({ effect: { delta, low, high, direction }, format, formatEnd = format }: {
  effect: Pick<Effect, "delta" | "low" | "high" | "direction">; format: (value: number) => string; formatEnd?: (value: number) => string;
}) {
  return (
    <>
      {isSignificant(direction) ? (delta > 0 ? "▲" : "▼") : "≈"} {signed(format(delta), delta)}
      {low !== null && high !== null && (low !== 0 || high !== 0) && <><br /><span class="quiet">{interval(low, high, formatEnd)}</span></>}
    </>
  );
}

/** How many of B's pods went the same way, and q: the part of changes this sure that is none. */
export function CertaintyCells({ effects, row }: { effects: Effects; row: number }) {
  const q = effects.q[row];
  return (
    <>
      <td class="number">{effects.pods_total[row] > 0 ? `${effects.pods_agreeing[row]} of ${effects.pods_total[row]}` : "–"}</td>
      <td class="number">{q < 0.001 ? "<.001" : q.toFixed(3).replace(/^0/, "")}</td>
    </>
  );
}
