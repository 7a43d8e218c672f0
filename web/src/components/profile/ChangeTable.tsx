import type { Effect, Effects, Verdict } from "../../api/verdict.ts";
import { frameText, isOutside } from "../../flamegraph/analysis/significance.ts";
import { sandwichOf } from "../../viewmodels/frameActions.ts";
import { normalised } from "../../flamegraph/analysis/frameDescription.ts";
import { searchable } from "../../flamegraph/analysis/search.ts";
import { href, place } from "../../lib/location.ts";
import { count, interval, short, signed, sure } from "../../lib/numbers.ts";
import { CopyButton } from "../ui/CopyButton.tsx";
import { Badge } from "../ui/Badge.tsx";
import { Link } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";

const MOST = 10;

/** A rate of a verdict: time per second that a pod was watched, or per request. */
export const rateWords = (value: number, unit: string): string => normalised(value, 1, "rate").replace("/s", unit === "request" ? "/request" : "/s");

/** The functions whose time changed most, with how sure that is: each leads on. */
export function Changes({ verdict: { functions, functions_in_all: all, method: { unit, level } } }: { verdict: Verdict }) {
  const here = place.value;
  const rows = functions.function.map((_, at) => at).filter((at) => functions.total.delta[at] !== 0 && (!here.sig || isOutside(functions.total.direction[at]))).slice(0, MOST);
  const rate = (value: number) => rateWords(value, unit);
  const delta = (of: Effects, at: number) => (
    <td class={`number ${of.direction[at]}`}>
      <Delta of={{ delta: of.delta[at], low: of.low[at], high: of.high[at], direction: of.direction[at] }} write={rate} ends={(value) => short(value * 1000)} />
    </td>
  );
  return (
    <section class="card changes" aria-label="Largest changes">
      <div class="caption"><h2>Largest changes</h2><Link to={{ ...here, view: "table", sort: "-total", q: "" }}>All {count(all)} functions</Link></div>
      {rows.length === 0 ? <p class="quiet">No function changed beyond noise.</p> : (
        <Table label="Functions that changed most" heads={["Function", "#A total", "#B total", `#Δ total, ${sure(level)}`, "#Δ self", "#Pods agree", "#q", "~Leads to"]}>
          {rows.map((at) => {
            const [fn, file, was] = [functions.function[at], functions.file[at], functions.renamed_from[at]];
            const text = frameText(fn, file);
            const found = { ...here, q: searchable(text), view: "flame" as const, focus: "" };
            return (
              <tr key={text}>
                <th scope="row">
                  <Link to={found} title="Find in the graph"><bdi>{fn.slice(0, 200)}</bdi></Link> <bdi class="quiet">{file.slice(0, 200)}</bdi>
                  {was !== null && <span class="quiet"> was <bdi>{was.slice(0, 200)}</bdi></span>}
                  <Badge of={{ direction: functions.total.direction[at] }} />
                </th>
                <td class="number">{rate(functions.total.a[at])}</td><td class="number">{rate(functions.total.b[at])}</td>
                {delta(functions.total, at)}{delta(functions.self, at)}
                <Certain of={functions.total} at={at} />
                <td class="acts">
                  <Link class="button" to={{ ...here, ...sandwichOf(text) }} title="Callers and callees">sandwich</Link>{" "}
                  <CopyButton text={() => text} what="Name">copy</CopyButton>{" "}
                  <CopyButton text={() => window.location.origin + href(found)} what="Link">link</CopyButton>
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
export function Delta({ of: { delta, low, high, direction }, write, ends = write }: {
  of: Pick<Effect, "delta" | "low" | "high" | "direction">; write: (value: number) => string; ends?: (value: number) => string;
}) {
  return (
    <>
      {isOutside(direction) ? (delta > 0 ? "▲" : "▼") : "≈"} {signed(write(delta), delta)}
      {low !== null && high !== null && (low !== 0 || high !== 0) && <><br /><span class="quiet">{interval(low, high, ends)}</span></>}
    </>
  );
}

/** How many of B's pods went the same way, and q: the part of changes this sure that is none. */
export function Certain({ of, at }: { of: Effects; at: number }) {
  const q = of.q[at];
  return (
    <>
      <td class="number">{of.of[at] > 0 ? `${of.agree[at]} of ${of.of[at]}` : "–"}</td>
      <td class="number">{q === null ? "–" : q < 0.001 ? "<.001" : q.toFixed(3).replace(/^0/, "")}</td>
    </>
  );
}
