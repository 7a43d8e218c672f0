import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { HeatmapAnswer } from "../../api/grids.ts";
import { added, hourOf, matchSide, podMatchers, rest, type OneSide, type Selected, type Span } from "../../charts/cellSelection.ts";
import type { Grid, Mark } from "../../charts/heatmapDrawing.ts";
import { change, place, visit } from "../../lib/location.ts";
import { notices } from "../../viewmodels/dataQualityNotices.ts";
import { count, plural, short } from "../../lib/numbers.ts";
import { joined, selectorOf } from "../../lib/selectors.ts";
import { clock, instant, rfc3339, stepSeconds, zone, type Range } from "../../lib/times.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { Link, Segments } from "../ui/Controls.tsx";
import { Nothing } from "../answer/EmptyState.tsx";
import { HeatGrid } from "./HeatmapGrid.tsx";
import { Table } from "../ui/Table.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";
import { Show } from "../answer/AnswerView.tsx";
import { BasisLine, Notices } from "../answer/Notices.tsx";

const UNIT: Record<ProfileType, string> = { cpu: "CPU cores per pod", wall: "threads per pod", gil: "of a core holding the GIL, per pod" };
const MOST_CHARACTERS = 3600;

interface Asking {
  readonly range: Range;
  readonly turn: number;
}

/** What the API is asked for besides what, when and which type. */
export const podsAsked = (range: Range) => ({ rows: "pod", step: String(stepSeconds(range, Date.now() / 1000)) });
export const hoursAsked = () => ({ rows: "hour", zone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC" });

/** Pods by time. */
export function PodRows({ range, turn }: Asking) {
  const { sort } = place.value;
  const byName = sort === "+name";
  return (
    <Heat range={range} turn={turn} more={podsAsked(range)}
      tools={<Segments label="Order of pods" value={byName ? "+name" : "-cost"} choose={(next) => change({ sort: next }, "replace")} options={[["-cost", "By cost"], ["+name", "By name"]]} />}>
      {(answer) => <Pods answer={answer} byName={byName} />}
    </Heat>
  );
}

/** Hours of the day by days, of this browser's clocks. */
export function HourRows({ range, turn }: Asking) {
  const more = hoursAsked();
  const now = Date.now() / 1000;
  const days = ((instant(range.until, now) ?? now) - (instant(range.from, now) ?? now)) / 86_400;
  return (
    <Heat range={range} turn={turn} more={more}
      tools={<><span class="quiet">hours of {more.zone}</span>{days < 2 && <button type="button" onClick={() => change({ from: "-7d", until: "now", cells: "" })}>Show 7 days</button>}</>}>
      {(answer) => <Hours answer={answer} />}
    </Heat>
  );
}

function Heat({ range, turn, more, tools, children }: Asking & { more: Record<string, string>; tools: ComponentChildren; children: (answer: HeatmapAnswer) => ComponentChildren }) {
  const here = place.value;
  const asked = useAnswer<HeatmapAnswer>(apiUrl("heatmap", { query: selectorOf(here.service, here.query), ...range, type: here.type, ...more }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  return (
    <Show asked={asked} what="the heatmap">
      {(answer) => answer.basis.windows === 0 ? <Nothing /> : (
        <>
          <Notices said={notices([], [], answer.basis)} />
          <div class="viewbar">{tools}<span class="gap" /><BasisLine basis={answer.basis} /></div>
          {children(answer)}
        </>
      )}
    </Show>
  );
}

const rates = (answer: HeatmapAnswer, row: number) =>
  answer.seconds[row].map((seconds, i) => {
    const watched = answer.pod_seconds[row][i];
    return seconds === null || !watched ? null : seconds / watched;
  });

/** When a column begins and ends; what was asked for may begin and end within it. */
function columnOf(answer: HeatmapAnswer, at: number): Span {
  const end = answer.start[at + 1] ?? (answer.step_seconds === null ? answer.until : answer.start[at] + answer.step_seconds);
  return { from: Math.max(answer.start[at], answer.from), until: Math.min(end, answer.until) };
}

const told = (span: Span) => `${clock(span.from).slice(0, -3)} – ${clock(span.until).slice(clock(span.from).slice(0, 10) === clock(span.until).slice(0, 10) ? 11 : 0, -3)}`;

function numbers(rate: number | null, samples: number | null, type: ProfileType): string {
  return rate === null ? "not watched" : `${short(rate)} ${UNIT[type]} · ${plural(samples ?? 0, "sample")}`;
}

function Pods({ answer, byName }: { answer: HeatmapAnswer; byName: boolean }) {
  const { type } = place.value;
  const spaces = new Set(answer.namespace).size > 1;
  const order = useMemo(() => {
    const all = [...answer.row.keys()];
    const name = (row: number) => `${answer.row[row]} ${answer.namespace[row]}`;
    return byName ? all.sort((a, b) => (name(a) < name(b) ? -1 : 1)) : all;
  }, [answer, byName]);
  const grid = useMemo<Grid>(() => {
    const several = new Set(answer.versions.flat().map(({ version }) => version)).size > 1;
    const length = answer.start.length > 1 ? answer.start[1] - answer.start[0] : 1;
    const marks = (row: number): Mark[] => answer.versions[row].flatMap(({ version, first_seen }, i) =>
      version === "" || (i === 0 && !several) ? [] : [{ column: Math.max(Math.floor((first_seen - answer.start[0]) / length), 0), text: version.slice(0, 24) }]);
    const name = (row: number) => (spaces ? `${answer.namespace[row] || "(no namespace)"}/` : "") + (answer.row[row] || "(no pod)");
    const value = order.map((row) => rates(answer, row));
    const long = answer.until - answer.from > 172_800;
    return {
      title: `${UNIT[type]}, by pod and time`,
      rows: order.map((row) => ({ key: `${answer.namespace[row]}/${answer.row[row]}`, name: name(row), marks: marks(row) })),
      columns: answer.start.map((start) => ({ start, text: clock(start).slice(long ? 5 : 11, -3) })),
      value,
      unit: UNIT[type],
      describe: ({ row, column }) => {
        const began = answer.versions[order[row]].filter(({ first_seen }) => first_seen < columnOf(answer, column).until).at(-1)?.version;
        return `${name(order[row])} · ${told(columnOf(answer, column))} · ${numbers(value[row][column], answer.samples[order[row]][column], type)}${began ? ` · version ${began.slice(0, 60)}` : ""}`;
      },
    };
  }, [answer, order, type, spaces]);
  const chosen = (selected: Selected) => {
    const span = { from: columnOf(answer, selected.first).from, until: columnOf(answer, selected.last).until };
    const pods = selected.rows.map((row) => ({ namespace: answer.namespace[order[row]], name: answer.row[order[row]] }));
    const all = pods.length === answer.row.length && answer.others.rows === 0;
    return { span, pods, all, match: all ? "" : podMatchers(pods).these, against: rest(pods, all, span, { from: answer.from, until: answer.until }) };
  };
  const rows = (selected: Selected) => ({ ...selected, rows: selected.rows.map((row) => order[row]) });
  return (
    <>
      <HeatGrid grid={grid} open={(selected) => {
        const { span, match } = chosen(selected);
        visit(flameOf(match, span));
      }} actions={(selected) => {
        const { span, pods, match, against } = chosen(selected);
        const sum = added(rows(selected), answer.seconds, answer.pod_seconds, answer.samples);
        const same = pods.some(({ name, namespace }) => answer.row.some((other, i) => other === name && answer.namespace[i] !== namespace));
        return (
          <>
            <span class="heat-sum">{plural(pods.length, "pod")} · {told(span)} · {sum.watched > 0 ? `${short(sum.seconds / sum.watched)} ${UNIT[type]} · ${plural(sum.samples, "sample")}` : "not watched"}</span>
            <Actions match={match} span={span} against={against} />
            {same && match !== "" && <span class="quiet">Pods of the same name in other namespaces count with these: filter by namespace.</span>}
          </>
        );
      }} />
      {answer.others.rows > 0 && <p class="quiet">{plural(answer.others.rows, "pod")} more that took less {answer.others.rows === 1 ? "is" : "are"} not drawn. Filter by labels to see others; a comparison with the rest has them.</p>}
      <Numbers grid={grid} first="pod" />
    </>
  );
}

function Hours({ answer }: { answer: HeatmapAnswer }) {
  const { type } = place.value;
  const grid = useMemo<Grid>(() => {
    const value = answer.row.map((_, row) => rates(answer, row));
    const long = answer.start.length > 14;
    const day = (start: number) => new Date(start * 1000).toLocaleDateString("en-GB", { weekday: long ? undefined : "short", day: "numeric", month: "short" });
    return {
      title: `${UNIT[type]}, by hour and day`,
      rows: answer.row.map((hour) => ({ key: hour, name: `${hour}:00`, marks: [] })),
      columns: answer.start.map((start) => ({ start, text: day(start) })),
      value,
      unit: UNIT[type],
      describe: ({ row, column }) => `${day(answer.start[column])}, ${answer.row[row]}:00 · ${numbers(value[row][column], answer.samples[row][column], type)}`,
    };
  }, [answer, type]);
  const dayOf = (column: number): Span => ({ from: answer.start[column], until: answer.start[column + 1] ?? answer.start[column] + 90_000 });
  const hours = (selected: Selected, column: number): Span | null => {
    if (selected.rows.length === 24) return columnOf(answer, column);
    const { from, until } = dayOf(column);
    const spans = selected.rows.flatMap((row) => hourOf(from, until, row) ?? []).filter((span) => span.until > answer.from && span.from < answer.until);
    return spans.length === 0 ? null : { from: Math.max(spans[0].from, answer.from), until: Math.min(spans[spans.length - 1].until, answer.until) };
  };
  /** The time of a block, if it is one: hours of one day, or whole days. */
  const spanOf = (selected: Selected): Span | null => {
    if (selected.first === selected.last) return hours(selected, selected.first);
    return selected.rows.length === 24 ? { from: columnOf(answer, selected.first).from, until: columnOf(answer, selected.last).until } : null;
  };
  const against = (selected: Selected, span: Span) => {
    const before = selected.rows.length < 24 && selected.first > 0 ? hours(selected, selected.first - 1) : null;
    return before ? { side: { match: "", ...before }, name: "the same hours of the day before" } : rest([], true, span, { from: answer.from, until: answer.until });
  };
  return (
    <>
      <HeatGrid grid={grid} open={(selected) => {
        const span = spanOf(selected);
        if (span) visit(flameOf("", span));
      }} actions={(selected) => {
        const span = spanOf(selected);
        const sum = added(selected, answer.seconds, answer.pod_seconds, answer.samples);
        return (
          <>
            <span class="heat-sum">{span ? told(span) : `${plural(selected.rows.length, "hour")} of ${plural(selected.last - selected.first + 1, "day")}`} · {sum.watched > 0 ? `${short(sum.seconds / sum.watched)} ${UNIT[type]} · ${plural(sum.samples, "sample")}` : "not watched"}</span>
            {span ? <Actions match="" span={span} against={against(selected, span)} /> : (
              <span class="quiet">A profile is of one range of time: select hours of one day, or <button type="button" onClick={() => change({ cells: wholeDays(answer, selected) })}>these days whole</button></span>
            )}
          </>
        );
      }} />
      <Numbers grid={grid} first="hour" />
    </>
  );
}

const wholeDays = (answer: HeatmapAnswer, { first, last }: Selected) => `${answer.start[first]}~${answer.start[last]}~*`;

const exactly = (span: Span) => ({ from: rfc3339(span.from), until: rfc3339(span.until) });

function flameOf(match: string, span: Span): Place {
  return onPage(place.value, "service", { query: joined(place.value.query, match), ...exactly(span) });
}

function Actions({ match, span, against }: { match: string; span: Span; against: { side: OneSide; name: string } | null }) {
  if (match.length > MOST_CHARACTERS) return <span class="quiet">Too many pods for one address: select fewer, or all of them.</span>;
  const a = against && { ...exactly(against.side) };
  const b = exactly(span);
  const same = a?.from === b.from && a.until === b.until;
  const times = !a ? {} : same ? { ...b, a_from: "", a_until: "", b_from: "", b_until: "" } : { ...b, a_from: a.from, a_until: a.until, b_from: b.from, b_until: b.until };
  return (
    <>
      <Link class="button primary" to={flameOf(match, span)} title="Enter">Flame of selection</Link>
      {against
        ? <Link class="button" to={onPage(place.value, "compare", { a: matchSide(against.side.match), b: matchSide(match), ...times })} title={`A: ${against.name}; B: the selection`}>Compare with {against.name}</Link>
        : <span class="quiet">All is selected: there is no rest to compare with.</span>}
    </>
  );
}

/** Every cell as text, made when it is opened. */
function Numbers({ grid, first }: { grid: Grid; first: string }) {
  const [open, show] = useState(false);
  return (
    <details class="numbers card" onToggle={(event) => show(event.currentTarget.open)}>
      <summary>Cells as a table ({count(grid.rows.length)} × {count(grid.columns.length)})</summary>
      {open && (
        <>
          <p class="quiet">{grid.unit}; times in {zone(grid.columns[0]?.start ?? 0)}; – where nothing was watched</p>
          <Table label="Cells as a table" looks="short" heads={[first, ...grid.columns.map(({ text }) => `#${text}`)]}>
            {grid.rows.map(({ key, name }, row) => (
              <tr key={key}><th scope="row"><bdi>{name}</bdi></th>{grid.value[row].map((value, column) => <td key={grid.columns[column].start} class="number">{value === null ? "–" : short(value)}</td>)}</tr>
            ))}
          </Table>
        </>
      )}
    </details>
  );
}
