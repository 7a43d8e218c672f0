import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { apiUrl, ask } from "../../api/request.ts";
import type { Deploy } from "../../api/deploys.ts";
import type { HeatmapAnswer, OverviewAnswer } from "../../api/grids.ts";
import { Sparkline, type Trend } from "../../charts/Sparkline.tsx";
import { inView, laidOut, namesMatchers, perPod, trendStep, type Drift } from "../../viewmodels/serviceList.ts";
import { place } from "../../lib/location.ts";
import { count, interval, plural, short, signedPercent } from "../../lib/numbers.ts";
import { joined } from "../../lib/selectors.ts";
import { ago, rangeName, rfc3339, zoned, type Range } from "../../lib/times.ts";
import { onPage } from "../../lib/url.ts";
import { Bar, Link } from "../ui/Controls.tsx";
import { stateWords, viewOf } from "./DeployList.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import { STALE_SECONDS } from "../../viewmodels/staleness.ts";

const ROW_PIXELS = 40;
/** Rows stand still this long before their trends are asked for. */
const SETTLED_MS = 150;

interface Shown {
  readonly answer: OverviewAnswer;
  readonly order: Int32Array;
  readonly drifts: readonly Drift[];
  readonly deploys: ReadonlyMap<string, Deploy>;
  readonly sorted: string;
  readonly range: Range;
}

/**
 * The table of services, of which only the rows in view are in the page. The row that has the focus stays,
 * wherever it is scrolled to, and screen readers are told how many rows there are and which ones these are.
 */
export function ServiceTable({ answer, order, drifts, deploys, sorted, range }: Shown) {
  const host = useRef<HTMLDivElement>(null);
  const [view, look] = useState({ first: 0, last: Math.min(order.length, 40) });
  const [kept, keep] = useState<string | null>(null);
  const wanted = useRef<{ at: number; link: number } | null>(null);
  const measure = () => {
    if (!host.current) return;
    const next = inView(order.length, ROW_PIXELS, host.current.scrollTop, host.current.clientHeight);
    look((now) => (now.first === next.first && now.last === next.last ? now : next));
  };
  useLayoutEffect(measure, [order]);
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    if (host.current) watch.observe(host.current);
    return () => watch.disconnect();
  }, [order]);
  useLayoutEffect(() => {
    if (host.current) host.current.scrollTop = 0;
  }, [sorted, place.value.q]);
  useLayoutEffect(() => {
    const to = wanted.current;
    const links = to && host.current?.querySelectorAll<HTMLElement>(`tr[data-at="${to.at}"] a`);
    if (!to || !links || links.length === 0) return;
    wanted.current = null;
    links[Math.min(to.link, links.length - 1)].focus({ preventScroll: true });
  });
  const at = kept === null ? -1 : order.findIndex((each) => answer.service[each] === kept);
  const { rows, after } = laidOut(order.length, Math.min(view.first, order.length), Math.min(view.last, order.length), at < 0 ? null : at);
  const trends = useTrends(answer, rows.map((row) => answer.service[order[row.at]]));
  const most = { cores: largest(order, (each) => answer.cores[each]), pod: largest(order, (each) => perPod(answer, each)) };

  const walk = (event: KeyboardEvent) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const row = link?.closest<HTMLElement>("tr[data-at]");
    if (!host.current || !link || !row || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(Math.floor(host.current.clientHeight / ROW_PIXELS) - 2, 1);
    const from = Number(row.dataset.at);
    const steps: Record<string, number> = { ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: order.length - 1 };
    if (!Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    const to = Math.min(Math.max(steps[event.key], 0), order.length - 1);
    wanted.current = { at: to, link: [...row.querySelectorAll("a")].indexOf(link) };
    keep(answer.service[order[to]]);
    const { scrollTop, clientHeight } = host.current;
    // The heading covers one row.
    if (to * ROW_PIXELS < scrollTop) host.current.scrollTop = to * ROW_PIXELS;
    else if ((to + 2) * ROW_PIXELS > scrollTop + clientHeight) host.current.scrollTop = (to + 2) * ROW_PIXELS - clientHeight;
    measure();
  };
  return (
    <div class="wide windowed" ref={host} tabIndex={0} role="region" aria-label="Table of services" onScroll={measure} onKeyDown={walk}
      onFocusIn={(event) => keep((event.target as Element).closest<HTMLElement>("tr[data-at]")?.dataset.service ?? null)} onFocusOut={(event) => { if (!host.current?.contains(event.relatedTarget as Node | null)) keep(null); }}>
      <table class="services" aria-rowcount={order.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <SortHeading id="service" text="Service" sorted={sorted} />
            <SortHeading id="cores" text="CPU cores, all pods" sorted={sorted} number />
            <SortHeading id="cpu" text="per pod" sorted={sorted} number />
            <th scope="col" title="CPU cores per pod; a marker where a version was seen first">Trend, {rangeName(range)}</th>
            <th scope="col">Current version (since)</th>
            <SortHeading id="change" text="vs previous" sorted={sorted} number />
            <SortHeading id="pods" text="Pods" sorted={sorted} number />
            <SortHeading id="seen" text="Last seen" sorted={sorted} />
          </tr>
        </thead>
        <tbody>
          {rows.flatMap(({ at, before }) => [
            before > 0 && <Gap key={`before ${at}`} rows={before} />,
            <Row key={answer.service[order[at]]} answer={answer} of={order[at]} at={at} drift={drifts[order[at]]} deploy={deploys.get(answer.service[order[at]])} most={most} trend={trends.get(answer.service[order[at]])} />,
          ])}
          {after > 0 && <Gap key="after" rows={after} />}
        </tbody>
      </table>
    </div>
  );
}

const Gap = ({ rows }: { rows: number }) => <tr aria-hidden="true" class="gap-row" style={{ height: `${rows * ROW_PIXELS}px` }} />;

function largest(order: Int32Array, value: (at: number) => number | null): number {
  let most = 1e-9;
  for (const at of order) most = Math.max(most, value(at) ?? 0);
  return most;
}

interface OneRow {
  readonly answer: OverviewAnswer;
  /** Which service, and which row of the table. */
  readonly of: number;
  readonly at: number;
  readonly drift: Drift;
  readonly deploy: Deploy | undefined;
  readonly most: { readonly cores: number; readonly pod: number };
  readonly trend: Trend | null | undefined;
}

export function Row({ answer, of, at, drift, deploy, most, trend }: OneRow) {
  const here = place.value;
  const name = answer.service[of];
  const cores = answer.cores[of];
  const pod = perPod(answer, of);
  const seen = answer.last_seen[of];
  const now = Date.now() / 1000;
  const [all, current] = [answer.pods_now[of], answer.current.pods_now[of]];
  return (
    <tr aria-rowindex={at + 2} data-at={at} data-service={name}>
      <th scope="row"><Link to={onPage(here, "service", { service: name })} class="service" title={name}><bdi>{name.slice(0, 200)}</bdi></Link></th>
      <td class="number"><Bar part={(cores ?? 0) / most.cores}>{cores === null ? "–" : short(cores)}</Bar></td>
      <td class="number"><Bar part={(pod ?? 0) / most.pod}>{pod === null ? "–" : short(pod)}</Bar></td>
      <td class="trend">{trend ? <Sparkline trend={trend} /> : <span class="quiet">{trend === null ? "–" : "…"}</span>}</td>
      <td class="line"><Version answer={answer} of={of} now={now} /></td>
      <td class="number">{deploy ? <Found deploy={deploy} /> : <Change answer={answer} of={of} drift={drift} now={now} />}</td>
      <td class="number" title={`${plural(answer.pods[of], "pod")} in the whole range`}>{current < all ? <>{count(current)}/{count(all)}<span class="unseen"> pods have the current version</span></> : count(all)}</td>
      <td class="line" title={zoned(seen)}>{ago(seen, now)} {answer.until - seen > STALE_SECONDS && <span class="badge">stale</span>}</td>
    </tr>
  );
}

function Version({ answer, of, now }: { answer: OverviewAnswer; of: number; now: number }) {
  const version = answer.current.version[of];
  const since = answer.current.first_seen[of] ?? now;
  if (!version) {
    return <span class="quiet">no version label <Link to={onPage(place.value, "service", { service: answer.service[of] })} class="how" title="How to add one">how</Link></span>;
  }
  const back = (answer.previous.first_seen[of] ?? 0) > since;
  const whole = since - answer.from < STALE_SECONDS && answer.versions[of] === 1;
  return (
    <>
      <bdi class="version" title={version}>{version.slice(0, 200)}</bdi>
      <span class="quiet" title={`first seen in this range ${zoned(since)}`}> ({back ? "rolled back to" : whole ? `over ${ago(since, now).replace(" ago", "")}` : ago(since, now).replace(" ago", "")})</span>
    </>
  );
}

/** What was found when the current version was compared with the one before. */
function Found({ deploy }: { deploy: Deploy }) {
  const { previous, summary, analyses, state } = deploy;
  const rate = analyses[analyses.length - 1]?.rate;
  const way = state === "not_comparable" || !rate ? "" : rate.direction;
  const { relative, relative_low: low, relative_high: high } = rate ?? { relative: null, relative_low: null, relative_high: null };
  return (
    <Link to={viewOf(deploy)} class={`drift ${way}`} title={summary}>
      {way === "same" ? "≈ no change" : way === "new" ? "▲ from nothing" : way === "gone" ? "▼ to nothing" : way === "unclear" ? "… not enough data"
        : relative !== null && (way === "more" || way === "less") ? <>{way === "more" ? "▲" : "▼"} {signedPercent(relative)}{low !== null && high !== null && <span class="quiet"> {interval(low, high, (part) => (part * 100).toFixed(1))}</span>}</>
        : stateWords(deploy)}<span class="unseen"> against {previous.slice(0, 100) || "no version"}: compare</span>
    </Link>
  );
}

/** A change that nobody has looked at: numbers, without saying that it is one. */
function Change({ answer, of, drift, now }: { answer: OverviewAnswer; of: number; drift: Drift; now: number }) {
  const [before, current] = [answer.previous.version[of], answer.current.version[of]];
  if (drift.kind === "none" || before === null) return <span class="quiet">one version</span>;
  const young = now - (answer.current.first_seen[of] ?? now) < 3600;
  const to = onPage(place.value, "compare", { service: answer.service[of], a: `version:${before}`, b: `version:${current}` });
  return (
    <Link to={to} class="drift" title={`CPU per pod-second of ${current || "(no version)"} against ${before || "(no version)"}: whether that is a change, the comparison tells.`}>
      <span class="quiet">{drift.kind === "unknown" ? "not watched" : drift.kind === "few" ? (young ? "… collecting" : "… few samples") : drift.kind === "new" ? "from nothing" : `${signedPercent(drift.part)} ?`}</span><span class="unseen"> against {before.slice(0, 100) || "no version"}: compare</span>
    </Link>
  );
}

/** Trends of the services in view, asked for together once they stand still; null where one cannot be had. */
function useTrends(answer: OverviewAnswer, names: readonly string[]): ReadonlyMap<string, Trend | null> {
  const held = useRef<{ answer: OverviewAnswer; trends: Map<string, Trend | null> }>({ answer, trends: new Map() });
  const [, drawn] = useState(0);
  if (held.current.answer !== answer) held.current = { answer, trends: new Map() };
  const { trends } = held.current;
  const missing = names.filter((name) => !trends.has(name));
  const { query } = place.value;
  useEffect(() => {
    if (missing.length === 0) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      for (const batch of namesMatchers(missing)) void asked(answer, query, batch, stop.signal).then((found) => {
        if (stop.signal.aborted) return;
        for (const [name, trend] of found) trends.set(name, trend);
        drawn((turn) => turn + 1);
      });
    }, SETTLED_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [answer, missing.join("\n")]);
  return trends;
}

async function asked(answer: OverviewAnswer, query: string, batch: { names: string[]; matcher: string }, signal: AbortSignal): Promise<Map<string, Trend | null>> {
  const trends = new Map<string, Trend | null>(batch.names.map((name) => [name, null]));
  const step = trendStep(answer.until - answer.from);
  const scope = { query: `{${joined(batch.matcher, query)}}`, from: rfc3339(answer.from), until: rfc3339(answer.until), type: "cpu", rows: "service", step: String(step), limit: String(batch.names.length) };
  try {
    const found = await ask<HeatmapAnswer>(apiUrl("heatmap", scope), signal);
    found.row.forEach((name, at) => {
      const value = found.seconds[at].map((seconds, i) => {
        const watched = found.pod_seconds[at][i];
        return seconds === null || !watched ? null : seconds / watched;
      });
      trends.set(name, { start: found.start, step, value, versions: found.versions[at] });
    });
  } catch {
    // The row says that there is no trend; its numbers stand.
  }
  return trends;
}
