import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { HeatmapAnswer } from "../../api/grids.ts";
import { sumCells, hourSpan, matchSide, podMatchers, complementSide, type ComparedSide, type CellSelection, type Span } from "../../charts/cellSelection.ts";
import type { Grid, Mark } from "../../charts/heatmapDrawing.ts";
import { change, place, visit } from "../../lib/location.ts";
import { dataQualityNotices } from "../../viewmodels/dataQualityNotices.ts";
import { short } from "../../lib/numbers.ts";
import { evenColumn, formatRate, orZero, rateUnit } from "../../lib/quantities.ts";
import { joinMatchers, selectorOf } from "../../lib/selectors.ts";
import { formatClock, parseTime, rfc3339, timelineStepSeconds, timeZoneName, formatUtcOffset, type Range } from "../../lib/times.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { openCapture } from "../controls/dialogs.ts";
import { Link, SegmentedControl } from "../ui/Controls.tsx";
import { EmptyState } from "../answer/EmptyState.tsx";
import { HeatmapGrid } from "./HeatmapGrid.tsx";
import { Table } from "../ui/Table.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { BasisLine, Notices } from "../answer/Notices.tsx";
import * as strings from "../../strings/heatmapStrings.tsx";

const UNIT: Record<ProfileType, string> = { cpu: strings.cpuPerPod, wall: strings.threadsPerPod, gil: strings.gilPerPod, gil_wait: strings.gilWaitPerPod, off_cpu: strings.offCpuPerPod, tasks: strings.tasksPerPod };
const rateText = (rate: number, type: ProfileType) => (type === "cpu" ? formatRate(rate, rateUnit(type)) : `${short(rate)} ${UNIT[type]}`);
const MAX_MATCHER_CHARACTERS = 3600;

interface HeatmapProps {
  readonly range: Range;
  readonly refreshCount: number;
}

/** What the API is asked for besides what, when and which type. */
export const podRowParameters = (range: Range) => ({ rows: "pod", step: String(timelineStepSeconds(range, Date.now() / 1000)) });
export const hourRowParameters = () => ({ rows: "hour", zone: timeZoneName() });

/** Pods by time. */
export function PodRows({ range, refreshCount }: HeatmapProps) {
  const { sort } = place.value;
  const byName = sort === "+name";
  return (
    <HeatmapAnswerView range={range} refreshCount={refreshCount} parameters={podRowParameters(range)}
      tools={<SegmentedControl label={strings.orderOfPods} value={byName ? "+name" : "-cost"} onSelect={(next) => change({ sort: next }, "replace")} options={[["-cost", strings.byCost], ["+name", strings.byName]]} />}>
      {(answer) => <PodHeatmap answer={answer} byName={byName} />}
    </HeatmapAnswerView>
  );
}

/** Hours of the day by days, of this browser's clocks. */
export function HourRows({ range, refreshCount }: HeatmapProps) {
  const more = hourRowParameters();
  const now = Date.now() / 1000;
  const days = ((parseTime(range.until, now) ?? now) - (parseTime(range.from, now) ?? now)) / 86_400;
  return (
    <HeatmapAnswerView range={range} refreshCount={refreshCount} parameters={more}
      tools={<><span class="quiet">{strings.hoursOf(more.zone)}</span>{days < 2 && <button type="button" onClick={() => change({ from: "-7d", until: "now", cells: "" })}>{strings.showSevenDays}</button>}</>}>
      {(answer) => <HourHeatmap answer={answer} />}
    </HeatmapAnswerView>
  );
}

function HeatmapAnswerView({ range, refreshCount, parameters, tools, children }: HeatmapProps & { parameters: Record<string, string>; tools: ComponentChildren; children: (answer: HeatmapAnswer) => ComponentChildren }) {
  const here = place.value;
  const request = useAnswer<HeatmapAnswer>(apiUrl("heatmap", { query: selectorOf(here.service, here.query), ...range, type: here.type, ...parameters }));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  return (
    <AnswerView request={request} what={strings.theHeatmap}>
      {(answer) => answer.basis.windows === 0 ? <EmptyState /> : (
        <>
          <Notices notices={dataQualityNotices([], [], answer.basis)} />
          <div class="viewbar">{tools}<span class="gap" /><BasisLine basis={answer.basis} /></div>
          {children(answer)}
        </>
      )}
    </AnswerView>
  );
}

const cellRates = (answer: HeatmapAnswer, row: number) =>
  answer.seconds[row].map((seconds, i) => {
    const podSeconds = answer.pod_seconds[row][i];
    return seconds === null || !podSeconds ? null : seconds / podSeconds;
  });

/** When a column begins and ends; what was asked for may begin and end within it. */
function columnSpan(answer: HeatmapAnswer, at: number): Span {
  const end = answer.start[at + 1] ?? (answer.step_seconds === null ? answer.until : answer.start[at] + answer.step_seconds);
  return { from: Math.max(answer.start[at], answer.from), until: Math.min(end, answer.until) };
}

const formatSpan = (span: Span) => `${formatClock(span.from).slice(0, -3)} – ${formatClock(span.until).slice(formatClock(span.from).slice(0, 10) === formatClock(span.until).slice(0, 10) ? 11 : 0, -3)}`;

function describeCell(rate: number | null, samples: number | null, type: ProfileType): string {
  return rate === null ? strings.noDataWord : strings.sample(rateText(rate, type), samples ?? 0);
}

function PodHeatmap({ answer, byName }: { answer: HeatmapAnswer; byName: boolean }) {
  const { type } = place.value;
  const hasNamespaces = new Set(answer.namespace).size > 1;
  const order = useMemo(() => {
    const all = [...answer.row.keys()];
    const name = (row: number) => `${answer.row[row]} ${answer.namespace[row]}`;
    return byName ? all.sort((a, b) => (name(a) < name(b) ? -1 : 1)) : all;
  }, [answer, byName]);
  const grid = useMemo<Grid>(() => {
    const hasSeveralVersions = new Set(answer.versions.flat().map(({ version }) => version)).size > 1;
    const length = answer.start.length > 1 ? answer.start[1] - answer.start[0] : 1;
    const marks = (row: number): Mark[] => answer.versions[row].flatMap(({ version, first_seen }, i) =>
      version === "" || (i === 0 && !hasSeveralVersions) ? [] : [{ column: Math.max(Math.floor((first_seen - answer.start[0]) / length), 0), text: version.slice(0, 24) }]);
    const name = (row: number) => (hasNamespaces ? `${answer.namespace[row] || strings.noNamespace}/` : "") + (answer.row[row] || strings.noPod);
    const value = order.map((row) => cellRates(answer, row));
    const long = answer.until - answer.from > 172_800;
    return {
      title: strings.byPodAndTime(UNIT[type]),
      rows: order.map((row) => ({ key: `${answer.namespace[row]}/${answer.row[row]}`, name: name(row), marks: marks(row) })),
      columns: answer.start.map((start) => ({ start, text: formatClock(start).slice(long ? 5 : 11, -3) })),
      step: answer.step_seconds ?? undefined,
      value,
      scale: rateUnit(type).scale,
      unit: type === "cpu" ? rateUnit(type).name : UNIT[type],
      describe: ({ row, column }) => {
        const began = answer.versions[order[row]].filter(({ first_seen }) => first_seen < columnSpan(answer, column).until).at(-1)?.version;
        return `${name(order[row])} · ${formatSpan(columnSpan(answer, column))} · ${describeCell(value[row][column], answer.samples[order[row]][column], type)}${began ? strings.version(began.slice(0, 60)) : ""}`;
      },
    };
  }, [answer, order, type, hasNamespaces]);
  const describeSelection = (selected: CellSelection) => {
    const span = { from: columnSpan(answer, selected.first).from, until: columnSpan(answer, selected.last).until };
    const pods = selected.rows.map((row) => ({ namespace: answer.namespace[order[row]], name: answer.row[order[row]] }));
    const all = pods.length === answer.row.length && answer.others.rows === 0;
    return { span, pods, all, match: all ? "" : podMatchers(pods).selected, against: complementSide(pods, all, span, { from: answer.from, until: answer.until }) };
  };
  const toAnswerRows = (selected: CellSelection) => ({ ...selected, rows: selected.rows.map((row) => order[row]) });
  return (
    <>
      <HeatmapGrid grid={grid} onOpen={(selected) => {
        const { span, match } = describeSelection(selected);
        visit(profilePlace(match, span));
      }} actions={(selected) => {
        const { span, pods, match, against } = describeSelection(selected);
        const sum = sumCells(toAnswerRows(selected), answer.seconds, answer.pod_seconds, answer.samples);
        const hasNameCollision = pods.some(({ name, namespace }) => answer.row.some((other, i) => other === name && answer.namespace[i] !== namespace));
        return (
          <>
            <span class="heat-sum">{strings.podCount(pods.length)} · {formatSpan(span)} · {sum.podSeconds > 0 ? strings.sample(rateText(sum.seconds / sum.podSeconds, type), sum.samples) : strings.noDataWord}</span>
            <SelectionActions match={match} span={span} other={against} />
            <button type="button" onClick={() => openCapture({ service: place.value.service, pods: pods.map(({ name }) => name).filter((name) => name !== "").slice(0, 100) })}>{strings.capturePods}</button>
            {hasNameCollision && match !== "" && <span class="quiet">{strings.sameNameNotice}</span>}
          </>
        );
      }} />
      {answer.others.rows > 0 && <p class="quiet">{strings.hiddenPods(answer.others.rows)}</p>}
      <CellTable grid={grid} rowLabel={strings.pod} />
    </>
  );
}

function HourHeatmap({ answer }: { answer: HeatmapAnswer }) {
  const { type } = place.value;
  const grid = useMemo<Grid>(() => {
    const value = answer.row.map((_, row) => cellRates(answer, row));
    const long = answer.start.length > 14;
    const day = (start: number) => new Date(start * 1000).toLocaleDateString("en-GB", { timeZone: timeZoneName(), weekday: long ? undefined : "short", day: "numeric", month: "short" });
    return {
      title: strings.byHourAndDay(UNIT[type]),
      rows: answer.row.map((hour) => ({ key: hour, name: `${hour}:00`, marks: [] })),
      columns: answer.start.map((start) => ({ start, text: day(start) })),
      value,
      scale: rateUnit(type).scale,
      unit: type === "cpu" ? rateUnit(type).name : UNIT[type],
      describe: ({ row, column }) => `${day(answer.start[column])}, ${answer.row[row]}:00 · ${describeCell(value[row][column], answer.samples[row][column], type)}`,
    };
  }, [answer, type]);
  const dayOf = (column: number): Span => ({ from: answer.start[column], until: answer.start[column + 1] ?? answer.start[column] + 90_000 });
  const hours = (selected: CellSelection, column: number): Span | null => {
    if (selected.rows.length === 24) return columnSpan(answer, column);
    const { from, until } = dayOf(column);
    const spans = selected.rows.flatMap((row) => hourSpan(from, until, row) ?? []).filter((span) => span.until > answer.from && span.from < answer.until);
    return spans.length === 0 ? null : { from: Math.max(spans[0].from, answer.from), until: Math.min(spans[spans.length - 1].until, answer.until) };
  };
  /** The time of a block, if it is one: hours of one day, or whole days. */
  const spanOf = (selected: CellSelection): Span | null => {
    if (selected.first === selected.last) return hours(selected, selected.first);
    return selected.rows.length === 24 ? { from: columnSpan(answer, selected.first).from, until: columnSpan(answer, selected.last).until } : null;
  };
  const against = (selected: CellSelection, span: Span) => {
    const previousDay = selected.rows.length < 24 && selected.first > 0 ? hours(selected, selected.first - 1) : null;
    return previousDay ? { side: { match: "", ...previousDay }, name: strings.sameHoursOfDay } : complementSide([], true, span, { from: answer.from, until: answer.until });
  };
  return (
    <>
      <HeatmapGrid grid={grid} onOpen={(selected) => {
        const span = spanOf(selected);
        if (span) visit(profilePlace("", span));
      }} actions={(selected) => {
        const span = spanOf(selected);
        const sum = sumCells(selected, answer.seconds, answer.pod_seconds, answer.samples);
        return (
          <>
            <span class="heat-sum">{span ? formatSpan(span) : strings.hourOfDay(selected.rows.length, selected.last - selected.first + 1)} · {sum.podSeconds > 0 ? strings.sample(rateText(sum.seconds / sum.podSeconds, type), sum.samples) : strings.noDataWord}</span>
            {span ? <SelectionActions match="" span={span} other={against(selected, span)} /> : (
              <span class="quiet">{strings.oneRangeOnly}{" "}<button type="button" onClick={() => change({ cells: wholeDays(answer, selected) })}>{strings.theseDaysWhole}</button></span>
            )}
          </>
        );
      }} />
      <CellTable grid={grid} rowLabel={strings.hour} />
    </>
  );
}

const wholeDays = (answer: HeatmapAnswer, { first, last }: CellSelection) => `${answer.start[first]}~${answer.start[last]}~*`;

const spanToRange = (span: Span) => ({ from: rfc3339(span.from), until: rfc3339(span.until) });

function profilePlace(match: string, span: Span): Place {
  return onPage(place.value, "service", { query: joinMatchers(place.value.query, match), ...spanToRange(span) });
}

function SelectionActions({ match, span, other }: { match: string; span: Span; other: { side: ComparedSide; name: string } | null }) {
  if (match.length > MAX_MATCHER_CHARACTERS) return <span class="quiet">{strings.tooManyPods}</span>;
  const baseline = other && { ...spanToRange(other.side) };
  const selected = spanToRange(span);
  const isSameTime = baseline?.from === selected.from && baseline.until === selected.until;
  const times = !baseline ? {} : isSameTime ? { ...selected, baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "" } : { ...selected, baseline_from: baseline.from, baseline_until: baseline.until, comparison_from: selected.from, comparison_until: selected.until };
  return (
    <>
      <Link class="button primary" to={profilePlace(match, span)} title={strings.enter}>{strings.openFlameGraph}</Link>
      {other
        ? <Link class="button" to={onPage(place.value, "compare", { baseline: matchSide(other.side.match), comparison: matchSide(match), ...times })} title={strings.compareSelectionHint(other.name)}>{strings.compareWith(other.name)}</Link>
        : <span class="quiet">{strings.nothingLeft}</span>}
    </>
  );
}

/** Every cell as text, made when it is opened. */
function CellTable({ grid, rowLabel }: { grid: Grid; rowLabel: string }) {
  const [open, setOpen] = useState(false);
  const write = useMemo(() => orZero(evenColumn(grid.value.flat(), grid.scale, grid.scale === 1 ? 3 : 1)), [grid]);
  return (
    <details class="numbers card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{strings.cellsAsTable(grid.rows.length, grid.columns.length)}</summary>
      {open && (
        <>
          <p class="quiet">{strings.tableNote(grid.unit, formatUtcOffset(grid.columns[0]?.start ?? 0))}</p>
          <Table label={strings.cellsAsATable} className="short" heads={[rowLabel, ...grid.columns.map(({ text }) => `#${text}`)]}>
            {grid.rows.map(({ key, name }, row) => (
              <tr key={key}><th scope="row"><bdi>{name}</bdi></th>{grid.value[row].map((value, column) => <td key={grid.columns[column].start} class="number">{write(value)}</td>)}</tr>
            ))}
          </Table>
        </>
      )}
    </details>
  );
}
