import { Fragment } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TimelineAnswer } from "../../api/answers.ts";
import { moveBrush, coarseResolution, layoutFlags, findGaps, brushSpan, stepAt, type BrushSelection, type Flag, type Span } from "../../charts/timelineLayout.ts";
import { place } from "../../lib/location.ts";
import { evenColumn, formatRate, orZero, rateUnit, shareOrZero } from "../../lib/quantities.ts";
import { signal } from "../../lib/signals.ts";
import { microseconds, percent, seconds as lasting, short } from "../../lib/numbers.ts";
import { count } from "../../strings/counts.ts";
import { coverageRemark, stopRemark, modeRemarks } from "../../viewmodels/qualitySummary.ts";
import { formatClock, parseTime, formatUtcOffset, formatWithZone, toEpochSeconds, type Range } from "../../lib/times.ts";
import { noteMarks, overlaps } from "../notes/noteText.ts";
import { serviceNotes } from "../notes/serviceNotes.ts";
import { CHART_PIXELS, TimelinePlot } from "./TimelinePlot.tsx";
import { RemarkText } from "../answer/QualityLine.tsx";
import { ZoomBack, TimelineSelection, PendingSides, zoomTo } from "./TimelineSelection.tsx";
import { Table } from "../ui/Table.tsx";
import { useElementWidth } from "../ui/useElementWidth.ts";
import type { ProfileType } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/timelineStrings.tsx";

export const UNIT: Record<ProfileType, string> = {
  cpu: strings.cpuPerPod,
  wall: strings.threadsPerPodWaiting,
  gil: strings.shareOfCoreHolding,
  gil_wait: strings.threadsPerPodForGil,
  off_cpu: strings.threadsPerPodOffCpu,
  tasks: strings.tasksPerPod,
};

/** The room of the axis, where the timeline is unfolded. */
const AXIS_PIXELS = 44;
const STRIP_PIXELS = 30;
const DRAG_PIXELS = 4;

/** Whether the timeline shows its axes, flags and numbers; kept from page to page. */
export const isTimelineUnfolded = signal(false);

/**
 * The rate over time: a strip, or unfolded with axes, numbers and a flag where each version was first seen. A range is brushed with the mouse, a finger or
 * the keyboard; it, or a flag, is then zoomed to or made a side of a comparison.
 */
export function Timeline({ timeline, range }: { timeline: TimelineAnswer; range: Range }) {
  const isUnfolded = isTimelineUnfolded.value;
  const left = isUnfolded ? AXIS_PIXELS : 0;
  const host = useRef<HTMLDivElement>(null);
  const width = useElementWidth(host, isUnfolded);
  const [hovered, setHovered] = useState<number | null>(null);
  const [brush, setBrush] = useState<BrushSelection | null>(null);
  const [flag, setFlag] = useState<Flag | null>(null);
  const pressed = useRef<{ x: number; step: number } | null>(null);
  const { type } = place.value;
  const { start, seconds, pod_seconds, pods, samples, versions, quality, step_seconds: step } = timeline;
  const value = useMemo(() => start.map((_, i) => (pod_seconds[i] > 0 ? seconds[i] / pod_seconds[i] : null)), [timeline]);
  const visible = useMemo<Span>(() => {
    const now = Date.now() / 1000;
    return { from: parseTime(range.from, now) ?? now - 3600, until: parseTime(range.until, now) ?? now };
  }, [timeline, range.from, range.until]);
  const emptySpans = useMemo(() => findGaps(start, step, pod_seconds, visible, Date.now() / 1000), [timeline, visible]);
  // Another range, or later data: what was brushed lies elsewhere now.
  useLayoutEffect(() => { setBrush(null); setFlag(null); setHovered(null); }, [range.from, range.until]);

  const scale = (at: number) => ((at - visible.from) / Math.max(visible.until - visible.from, 1e-9)) * Math.max(width - left, 1);
  const stepUnder = (event: PointerEvent) => {
    const x = event.clientX - (host.current as HTMLDivElement).getBoundingClientRect().left - left;
    return stepAt(visible.from + (x / Math.max(width - left, 1)) * (visible.until - visible.from), start, step);
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    pressed.current = { x: event.clientX, step: stepUnder(event) };
    setFlag(null);
    setBrush({ head: pressed.current.step, anchor: null });
  };
  const move = (event: PointerEvent) => {
    const at = stepUnder(event);
    if (event.pointerType === "mouse") setHovered(at);
    const from = pressed.current;
    if (!from || (brush?.anchor == null && Math.abs(event.clientX - from.x) < DRAG_PIXELS)) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    setBrush({ head: at, anchor: from.step });
  };
  // A finger that turns out to scroll the page takes its brush back.
  const cancel = () => { if (pressed.current) setBrush(null); pressed.current = null; };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = moveBrush(brush, event.key, event.shiftKey, start.length);
    if (next) { setBrush(next); setFlag(null); }
    else if (event.key === "Enter" && brush) zoomTo(brushSpan(brush, start, step, visible), range);
    else if (event.key === "Escape" && (brush || flag)) { setBrush(null); setFlag(null); }
    else return;
    event.preventDefault();
  };

  const at = hovered ?? brush?.head ?? null;
  const rates = value.filter((rate) => rate !== null);
  const maximum = Math.max(...rates, 0);
  const mean = sum(seconds) / Math.max(sum(pod_seconds), 1e-9);
  const pointed = at !== null && at < start.length ? at : null;
  const hasSamples = pointed !== null && value[pointed] !== null;
  const notes = noteMarks(serviceNotes.value ?? [], visible);
  const boosts = timeline.boosts.map(({ trigger, pods, started, ended }) => ({ from: started, until: ended, text: strings.boostAt(trigger, pods) }));
  const describeStep = (i: number) => [
    formatWithZone(start[i]), value[i] === null ? strings.noData : strings.stepData(formatRate(value[i] ?? 0, rateUnit(type)), pods[i], samples[i]),
    ...(type === "tasks" ? [lagOf(timeline, i)] : []),
    ...notes.filter((note) => overlaps(note, { from: start[i], until: start[i] + step })).map(({ text }) => strings.noteAt(text)),
    ...boosts.filter(({ from, until }) => from < start[i] + step && until > start[i]).map(({ text }) => text),
  ].join(" · ");
  const lag = type === "tasks" ? timeline.longest_ready_seconds : [];
  const longest = Math.max(...lag.map((wait) => wait ?? 0), 0);
  const longestLag = longest > 0 ? strings.longestLag(microseconds(longest * 1e6)) : "";
  const remarks = [
    ...modeRemarks({ modes: timeline.modes, quality: { ...quality, readers: [] } }),
    ...(hasSamples && pointed !== null
      ? [coverageRemark({ coverage: timeline.coverage[pointed] }), { text: strings.overheadPaused(formatOrUnknown(timeline.stopped_share[pointed], part)), why: "" }]
      : [coverageRemark(quality), stopRemark(quality)]),
  ];
  const markers = useMemo(() => versions.map(({ version, first_seen, rollouts = [] }) => ({
    at: toEpochSeconds(first_seen), isEarlier: toEpochSeconds(first_seen) < visible.from + step, text: version || strings.noVersionLabelled, rollouts: rollouts.map(({ started, ended }) => ({ from: started, until: ended ?? started })),
  })).sort((a, b) => a.at - b.at), [timeline, visible.from, step]);
  const flags = width > 0 ? layoutFlags(markers, (moment) => left + scale(moment), width) : [];
  const brushed = brush && brush.anchor !== null && start.length > 0 ? brushSpan(brush, start, step, visible) : null;
  const rough = coarseResolution(timeline.basis.resolutions ?? [], step, visible);
  const unit = rateUnit(type);
  const rate = formatRate(mean, unit);
  const writeRate = orZero(evenColumn(value, unit.scale, unit.scale === 1 ? 3 : 1));
  const summary = strings.timelineDescription(UNIT[type], rate, formatRate(maximum, unit), rates.length, lasting(step), emptySpans.length > 0 ? strings.gap(emptySpans.length) : "", versions.map(({ version }) => version || strings.noVersionWord).join(", "));
  const chart = (
    <div class="chart" ref={host} key="chart" role="slider" tabIndex={0} aria-label={summary} aria-describedby="timeline-keys"
      aria-valuemin={0} aria-valuemax={Math.max(start.length - 1, 0)} aria-valuenow={brush?.head ?? Math.max(start.length - 1, 0)}
      aria-valuetext={brush && start.length > 0 ? describeStep(brush.head) + (brushed ? strings.selectedSpan(formatClock(brushed.from), formatClock(brushed.until)) : "") : strings.nothingSelected}
      onKeyDown={press} onPointerDown={down} onPointerMove={move} onPointerUp={() => { pressed.current = null; }} onPointerCancel={cancel} onPointerLeave={() => setHovered(null)}>
      {width > 0 && <TimelinePlot isStrip={!isUnfolded} height={isUnfolded ? CHART_PIXELS : STRIP_PIXELS} width={width} left={left} range={visible} start={start} step={step} value={value} scale={unit.scale} lag={lag} markers={markers} notes={notes} boosts={boosts} gaps={emptySpans} brush={brushed} cursor={pointed} />}
      {!isUnfolded && pointed !== null && <span class="chart-tip">{describeStep(pointed)}</span>}
    </div>
  );
  return (
    <section class={isUnfolded ? "timeline" : "timeline folded-timeline"} aria-label={strings.timeline}>
      <div class="timeline-head">
        <button type="button" class="square" aria-expanded={isUnfolded} aria-label={isUnfolded ? strings.foldTimeline : strings.unfoldTimeline}
          onClick={() => { isTimelineUnfolded.value = !isUnfolded; }}>{isUnfolded ? "▾" : "▸"}</button>
        <span class="line" title={UNIT[type]}><strong>{rate}</strong> <span class="quiet">{strings.podCount(timeline.basis.pods)}</span></span>
        {!isUnfolded && chart}
      </div>
      {isUnfolded && (
        <>
          <div class="caption">
            <h2>{UNIT[type]}</h2>
            <span class="quiet">{pointed !== null ? describeStep(pointed) : strings.timelineCaption(rate, formatRate(maximum, unit), formatUtcOffset(start[0] ?? Date.now() / 1000)) + longestLag}</span>
          </div>
          <p class="basis">
            {remarks.map((remark, i) => <Fragment key={remark.text}>{i > 0 && " · "}<RemarkText remark={remark} /></Fragment>)}
            {rough && <> · <strong class="doubt">{strings.storedCoarsely(rough.every, formatClock(rough.until))}</strong></>}
          </p>
          <div class="timeline-flags" style={{ height: `${Math.max(...flags.map(({ row }) => row + 1), 0) * 26}px` }}>
            {flags.map((one) => {
              const [first, ...others] = one.markers;
              return (
                <button key={first.at} type="button" class={one.isBefore ? "flag before" : "flag"} aria-pressed={flag?.markers[0] === first}
                  style={{ [one.isBefore ? "right" : "left"]: `${one.isBefore ? width - one.x - one.width : one.x}px`, top: `${one.row * 26}px`, maxWidth: `${one.width}px` }}
                  title={one.markers.map((marker) => [marker.isEarlier ? strings.ranBefore(marker.text) : strings.firstSeen(marker.text, formatWithZone(marker.at)), ...marker.rollouts.map(({ from, until }) => strings.rolledOutFrom(formatClock(from), until > from ? formatClock(until) : null))].join(", ")).join("\n")}
                  onClick={() => { setFlag(flag?.markers[0] === first ? null : one); setBrush(null); }}>
                  <span class="pole" aria-hidden="true">{first.isEarlier ? "◂" : "▌"}</span><bdi>{first.text}</bdi>{!first.isEarlier && <span class="flag-time">{formatClock(first.at).slice(...(visible.until - visible.from > 172_800 ? [5, 10] : [11, 16]))}</span>}{others.length > 0 && <span class="more-flags"> +{others.length}</span>}
                </button>
              );
            })}
          </div>
          {chart}
        </>
      )}
      <span class="unseen" id="timeline-keys">{strings.timelineKeys}</span>
      {brushed && <TimelineSelection span={brushed} range={range} samples={samplesBetween(samples, brush as BrushSelection)} onClear={() => setBrush(null)} />}
      {flag && <TimelineSelection versions={versions.filter(({ version, first_seen }) => flag.markers.some(({ at: when, text }) => when === toEpochSeconds(first_seen) && text === (version || strings.noVersionLabelled)))}
        span={visible} range={range} onClear={() => setFlag(null)} />}
      <div class="row"><ZoomBack range={range} /><PendingSides /></div>
      {isUnfolded && <details class="numbers">
        <summary>{strings.timelineAsTable}</summary>
        <Table label={strings.timelineAsTable} className="short" heads={[strings.fromZone(formatUtcOffset(start[0] ?? 0)), ...strings.timelineColumns(unit.name)]}>
          {start.map((moment, i) => value[i] !== null && (
            <tr key={moment}>
              <th scope="row">{formatClock(moment)}</th>
              {[writeRate(value[i]), count(samples[i]), count(pods[i]), formatOrUnknown(timeline.coverage[i], shareOrZero), formatOrUnknown(timeline.stopped_share[i], shareOrZero)].map((text, at) => <td key={at} class="number">{text}</td>)}
            </tr>
          ))}
        </Table>
        {emptySpans.length > 0 && <p class="quiet">{strings.noDataHeading}{" "}{emptySpans.map(({ from, until }) => `${formatClock(from)} – ${formatClock(until)}`).join("; ")}</p>}
      </details>}
    </section>
  );
}

/** The ready tasks of a step, and how long one of them waited for its event loop. */
function lagOf({ ready_task_seconds, longest_ready_seconds, pod_seconds }: TimelineAnswer, at: number): string {
  const longest = longest_ready_seconds[at];
  return longest === null ? strings.noTasksRead : strings.readyTasks(short(ready_task_seconds[at] / Math.max(pod_seconds[at], 1e-9)), microseconds(longest * 1e6));
}

const samplesBetween = (samples: readonly number[], { head, anchor }: BrushSelection) => sum(samples.slice(Math.min(head, anchor ?? head), Math.max(head, anchor ?? head) + 1));

const part = (value: number) => percent(value, 2);

const formatOrUnknown = (value: number | null, words: (value: number) => string) => (value === null ? "unknown" : words(value));

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
