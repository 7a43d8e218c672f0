import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { apiUrl, requestJson } from "../../api/request.ts";
import type { Deploy } from "../../api/deploys.ts";
import type { HeatmapAnswer, OverviewAnswer } from "../../api/grids.ts";
import { Sparkline, type Trend } from "../../charts/Sparkline.tsx";
import { visibleRows, layoutRows, batchNameMatchers, coresPerPod, trendStep } from "../../viewmodels/serviceList.ts";
import type { ServiceGroup, VersionChange } from "../../viewmodels/attention.ts";
import { favourites, toggleFavourite } from "../../viewmodels/browserStorage.ts";
import { place } from "../../lib/location.ts";
import { interval, short, signed } from "../../lib/numbers.ts";
import { evenColumn, orZero } from "../../lib/quantities.ts";
import { count } from "../../strings/counts.ts";
import { equals, joinMatchers } from "../../lib/selectors.ts";
import { formatAgo, formatRange, rfc3339, formatWithZone, type Range } from "../../lib/times.ts";
import { onPage } from "../../lib/url.ts";
import { openCapture } from "../controls/dialogs.ts";
import { BarCell, Link } from "../ui/Controls.tsx";
import { formatDeployState, deployPlace } from "./DeployList.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import { STALE_SECONDS } from "../../viewmodels/staleness.ts";
import * as strings from "../../strings/serviceStrings.tsx";

const NARROW = window.matchMedia?.("(max-width: 699px)");
/** The height of a row; on a phone a row is a card of three lines (see services.css). */
const rowPixels = (): number => (NARROW?.matches ? 84 : 40);
/** Rows stand still this long before their trends are asked for. */
const TREND_DELAY_MS = 150;

interface ServiceTableProps {
  readonly answer: OverviewAnswer;
  /** Indices of services, and −1 − the index of a group before its rows. */
  readonly order: Int32Array;
  readonly groups: readonly ServiceGroup[];
  readonly changes: readonly VersionChange[];
  readonly deploys: ReadonlyMap<string, Deploy>;
  readonly sort: string;
  readonly range: Range;
}

/**
 * The table of services, of which only the rows in view are in the page. The row that has the focus stays,
 * wherever it is scrolled to, and screen readers get the number of rows and the index of each.
 */
export function ServiceTable({ answer, order, groups, changes, deploys, sort, range }: ServiceTableProps) {
  const ROW_PIXELS = rowPixels();
  const host = useRef<HTMLDivElement>(null);
  const [visible, setVisible] = useState({ first: 0, last: Math.min(order.length, 40) });
  const [focusedService, setFocusedService] = useState<string | null>(null);
  const pendingFocus = useRef<{ at: number; link: number } | null>(null);
  const measure = () => {
    if (!host.current) return;
    const next = visibleRows(order.length, ROW_PIXELS, host.current.scrollTop, host.current.clientHeight);
    setVisible((now) => (now.first === next.first && now.last === next.last ? now : next));
  };
  useLayoutEffect(measure, [order]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (host.current) observer.observe(host.current);
    return () => observer.disconnect();
  }, [order]);
  useLayoutEffect(() => {
    if (host.current) host.current.scrollTop = 0;
  }, [sort, place.value.q]);
  useLayoutEffect(() => {
    const to = pendingFocus.current;
    const links = to && host.current?.querySelectorAll<HTMLElement>(`tr[data-at="${to.at}"] a`);
    if (!to || !links || links.length === 0) return;
    pendingFocus.current = null;
    links[Math.min(to.link, links.length - 1)].focus({ preventScroll: true });
  });
  const at = focusedService === null ? -1 : order.findIndex((index) => index >= 0 && answer.service[index] === focusedService);
  const { rows, after } = layoutRows(order.length, Math.min(visible.first, order.length), Math.min(visible.last, order.length), at < 0 ? null : at);
  const trends = useTrends(answer, rows.flatMap((row) => (order[row.at] < 0 ? [] : [answer.service[order[row.at]]])));
  const maximum = maxOf(order, (index) => answer.cores[index]);
  const formats = useMemo(() => rateFormats(answer), [answer]);

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
    pendingFocus.current = { at: to, link: [...row.querySelectorAll("a")].indexOf(link) };
    setFocusedService(answer.service[order[to]] ?? null);
    const { scrollTop, clientHeight } = host.current;
    // The heading covers one row.
    if (to * ROW_PIXELS < scrollTop) host.current.scrollTop = to * ROW_PIXELS;
    else if ((to + 2) * ROW_PIXELS > scrollTop + clientHeight) host.current.scrollTop = (to + 2) * ROW_PIXELS - clientHeight;
    measure();
  };
  return (
    <div class="wide windowed" ref={host} tabIndex={0} role="region" aria-label={strings.tableOfServices} onScroll={measure} onKeyDown={walk}
      onFocusIn={(event) => setFocusedService((event.target as Element).closest<HTMLElement>("tr[data-at]")?.dataset.service ?? null)} onFocusOut={(event) => { if (!host.current?.contains(event.relatedTarget as Node | null)) setFocusedService(null); }}>
      <table class="services" role="table" aria-rowcount={order.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <SortHeading id="service" text={strings.service} sort={sort} />
            <SortHeading id="change" text={strings.vsPrevious} sort={sort} isNumeric />
            <SortHeading id="cores" text={strings.cpuCores} sort={sort} isNumeric />
            <SortHeading id="cpu" text={strings.perPod} sort={sort} isNumeric />
            <th scope="col" title={strings.trendHint}>{strings.trend(formatRange(range))}</th>
            <th scope="col">{strings.versionAge}</th>
            <SortHeading id="pods" text={strings.pods} sort={sort} isNumeric />
            <SortHeading id="seen" text={strings.lastSeen} sort={sort} />
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.flatMap(({ at, gap }) => [
            gap > 0 && <SpacerRow key={`before ${at}`} pixels={gap * ROW_PIXELS} />,
            order[at] < 0 ? <GroupRow key={`group ${groups[-1 - order[at]].name}`} group={groups[-1 - order[at]]} at={at} /> : <ServiceRow key={answer.service[order[at]]} answer={answer} index={order[at]} at={at} change={changes[order[at]]} deploy={deploys.get(answer.service[order[at]])} maximum={maximum} formats={formats} trend={trends.get(answer.service[order[at]])} />,
          ])}
          {after > 0 && <SpacerRow key="after" pixels={after * ROW_PIXELS} />}
        </tbody>
      </table>
    </div>
  );
}

const SpacerRow = ({ pixels }: { pixels: number }) => <tr aria-hidden="true" class="gap-row" style={{ height: `${pixels}px` }} />;

/** The heading of a group; its link filters by the group's value. */
function GroupRow({ group: { name, services, cores, pods }, at }: { group: ServiceGroup; at: number }) {
  const { group, query } = place.value;
  return (
    <tr class="group-row" role="row" aria-rowindex={at + 2} data-at={at}>
      <th scope="rowgroup" role="rowheader" colSpan={8}>
        <Link to={{ ...place.value, group: "", query: joinMatchers(query, equals(group, name)) }} title={strings.onlyThisGroup}><bdi>{name === "" ? strings.without(group) : name.slice(0, 100)}</bdi></Link>{" "}
        <span class="quiet">{strings.groupSummary(services, short(cores), pods)}</span>
      </th>
    </tr>
  );
}

function maxOf(order: Int32Array, value: (at: number) => number | null): number {
  let maximum = 1e-9;
  for (const at of order) if (at >= 0) maximum = Math.max(maximum, value(at) ?? 0);
  return maximum;
}

interface ServiceRowProps {
  readonly answer: OverviewAnswer;
  /** Which service, and which row of the table. */
  readonly index: number;
  readonly at: number;
  readonly change: VersionChange;
  readonly deploy: Deploy | undefined;
  /** The cores of the largest service. */
  readonly maximum: number;
  readonly formats: ReturnType<typeof rateFormats>;
  readonly trend: Trend | null | undefined;
}

/** How the cores of services and of their pods are written: of pods in millicores. */
export const rateFormats = (answer: OverviewAnswer) =>
  ({ cores: orZero(evenColumn(answer.cores)), pod: orZero(evenColumn(answer.service.map((_, at) => coresPerPod(answer, at)), 1000, 1)) });

export function ServiceRow({ answer, index, at, change, deploy, maximum, formats, trend }: ServiceRowProps) {
  const here = place.value;
  const name = answer.service[index];
  const cores = answer.cores[index];
  const pod = coresPerPod(answer, index);
  const lastSeen = answer.last_seen[index];
  const now = Date.now() / 1000;
  const [allPods, currentPods] = [answer.pods_now[index], answer.current.pods_now[index]];
  return (
    <tr role="row" aria-rowindex={at + 2} data-at={at} data-service={name}>
      <th scope="row" role="rowheader">
        <span class="service-name">
          <Star service={name} />
          <Link to={onPage(here, "service", { service: name })} class="service" title={name}><bdi>{name.slice(0, 200)}</bdi></Link>
          <button type="button" class="flat star" aria-label={strings.captureOf(name.slice(0, 100))} title={strings.captureNowHint} onClick={() => openCapture({ service: name })}>◉</button>
        </span>
      </th>
      <td role="cell" class="finding">{deploy ? <DeployVerdict deploy={deploy} /> : <VersionChangeCell answer={answer} index={index} change={change} now={now} />}</td>
      <BarCell part={(cores ?? 0) / maximum} head={strings.coresUnit}>{formats.cores(cores)}</BarCell>
      <td role="cell" class="number" data-head={strings.perPodUnit}>{formats.pod(pod)}</td>
      <td role="cell" class="trend">{trend ? <Sparkline trend={trend} /> : <span class="quiet">{trend === null ? "–" : "…"}</span>}</td>
      <td role="cell" class="line"><VersionCell answer={answer} index={index} now={now} /></td>
      <td role="cell" class="number" data-head={strings.podsUnit} title={strings.podsInRange(answer.pods[index])}>{currentPods < allPods ? <>{count(currentPods)}/{count(allPods)}<span class="unseen">{" "}{strings.podsHaveCurrentVersion}</span></> : count(allPods)}</td>
      <td role="cell" class="line" title={formatWithZone(lastSeen)}>{formatAgo(lastSeen, now)} {answer.until - lastSeen > STALE_SECONDS && <span class="badge">{strings.stale}</span>}</td>
    </tr>
  );
}

/** Marks a service as a favourite of this browser. */
function Star({ service }: { service: string }) {
  const isOn = favourites.list.value.includes(service);
  return <button type="button" class="flat star" aria-pressed={isOn} aria-label={strings.favourite(service.slice(0, 100))} title={strings.favouriteHint} onClick={() => toggleFavourite(service)}>{isOn ? "★" : "☆"}</button>;
}

function VersionCell({ answer, index, now }: { answer: OverviewAnswer; index: number; now: number }) {
  const version = answer.current.version[index];
  const since = answer.current.first_seen[index] ?? now;
  if (!version) {
    return <span class="quiet">{strings.noVersionLabel(<Link to={onPage(place.value, "service", { service: answer.service[index] })} class="how" title={strings.howToAddVersionHint}>{strings.fix}</Link>)}</span>;
  }
  const isRollback = (answer.previous.first_seen[index] ?? 0) > since;
  const isWholeRange = since - answer.from < STALE_SECONDS && answer.versions[index] === 1;
  return (
    <>
      <bdi class="version" title={version}>{version.slice(0, 200)}</bdi>
      <span class="quiet" title={strings.firstSeenInRange(formatWithZone(since))}> ({isRollback ? strings.rolledBackTo : isWholeRange ? strings.overAge(formatAgo(since, now).replace(" ago", "")) : formatAgo(since, now).replace(" ago", "")})</span>
    </>
  );
}

/** What was found when the current version was compared with the one before. */
function DeployVerdict({ deploy }: { deploy: Deploy }) {
  const { previous, summary, analyses, state } = deploy;
  const rate = analyses[analyses.length - 1]?.rate;
  const direction = state === "not_comparable" || !rate ? "" : rate.direction;
  const { relative, relative_low: low, relative_high: high } = rate ?? { relative: null, relative_low: null, relative_high: null };
  return (
    <Link to={deployPlace(deploy)} class={`drift ${direction}`} title={summary}>
      {direction === "unchanged" ? strings.unchanged : direction === "new" ? strings.increasedFromZero : direction === "removed" ? strings.decreasedToZero : direction === "inconclusive" ? strings.inconclusive
        : relative !== null && (direction === "increased" || direction === "decreased") ? <>{direction === "increased" ? "▲" : "▼"} {relativePercent(relative)}{low !== null && high !== null && <span class="quiet"> {interval(low, high, (part) => (part * 100).toFixed(1))}</span>}</>
        : formatDeployState(deploy)}<span class="unseen">{" "}{strings.againstCompare(previous.slice(0, 100) || strings.noVersionWord)}</span>
    </Link>
  );
}

const relativePercent = (part: number) => `${signed((part * 100).toFixed(1), part)} %`;

/** A change that nobody has looked at: numbers, without saying that it is one. */
function VersionChangeCell({ answer, index, change, now }: { answer: OverviewAnswer; index: number; change: VersionChange; now: number }) {
  const [previous, current] = [answer.previous.version[index], answer.current.version[index]];
  if (change.kind === "none" || previous === null) return <span class="quiet">–</span>;
  const isRecent = now - (answer.current.first_seen[index] ?? now) < 3600;
  const to = onPage(place.value, "compare", { service: answer.service[index], baseline: `version:${previous}`, comparison: `version:${current}` });
  return (
    <Link to={to} class="drift" title={strings.unverifiedHint(current || strings.noVersionLabelled, previous || strings.noVersionLabelled)}>
      <span class="quiet">{change.kind === "no_data" ? strings.noData : change.kind === "few" ? (isRecent ? strings.collecting : strings.tooFewSamples) : change.kind === "new" ? strings.fromZero : strings.unverified(relativePercent(change.relative))}</span><span class="unseen">{" "}{strings.againstCompare(previous.slice(0, 100) || strings.noVersionWord)}</span>
    </Link>
  );
}

/** Trends of the services in view, asked for together once they stand still; null where one cannot be had. */
function useTrends(answer: OverviewAnswer, names: readonly string[]): ReadonlyMap<string, Trend | null> {
  const cache = useRef<{ answer: OverviewAnswer; trends: Map<string, Trend | null> }>({ answer, trends: new Map() });
  const [, rerender] = useState(0);
  if (cache.current.answer !== answer) cache.current = { answer, trends: new Map() };
  const { trends } = cache.current;
  const missing = names.filter((name) => !trends.has(name));
  const { query } = place.value;
  useEffect(() => {
    if (missing.length === 0) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      for (const batch of batchNameMatchers(missing)) void loadTrends(answer, query, batch, abort.signal).then((loaded) => {
        if (abort.signal.aborted) return;
        for (const [name, trend] of loaded) trends.set(name, trend);
        rerender((turn) => turn + 1);
      });
    }, TREND_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [answer, missing.join("\n")]);
  return trends;
}

async function loadTrends(answer: OverviewAnswer, query: string, batch: { names: string[]; matcher: string }, signal: AbortSignal): Promise<Map<string, Trend | null>> {
  const trends = new Map<string, Trend | null>(batch.names.map((name) => [name, null]));
  const step = trendStep(answer.until - answer.from);
  const scope = { query: `{${joinMatchers(batch.matcher, query)}}`, from: rfc3339(answer.from), until: rfc3339(answer.until), type: "cpu", rows: "service", step: String(step), limit: String(batch.names.length) };
  try {
    const heatmap = await requestJson<HeatmapAnswer>(apiUrl("heatmap", scope), signal);
    heatmap.row.forEach((name, at) => {
      const value = heatmap.seconds[at].map((seconds, i) => {
        const podSeconds = heatmap.pod_seconds[at][i];
        return seconds === null || !podSeconds ? null : seconds / podSeconds;
      });
      trends.set(name, { start: heatmap.start, step, value, versions: heatmap.versions[at] });
    });
  } catch {
    // The row says that there is no trend; its numbers stand.
  }
  return trends;
}
