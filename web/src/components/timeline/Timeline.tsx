import { Fragment } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TimelineAnswer } from "../../api/answers.ts";
import { afterKey, coarse, flags, gaps, spanOf, stepAt, type Brush, type Flag, type Span } from "../../charts/timelineLayout.ts";
import { place } from "../../lib/location.ts";
import { count, percent, plural, seconds as lasting, short } from "../../lib/numbers.ts";
import { coverage, lost, modes, share } from "../../viewmodels/qualitySummary.ts";
import { clock, instant, zone, zoned, epoch, type Range } from "../../lib/times.ts";
import { Plot } from "./TimelinePlot.tsx";
import { Words } from "../answer/QualityLine.tsx";
import { Earlier, Picked, SideTray, zoomTo } from "./TimelineSelection.tsx";
import { Table } from "../ui/Table.tsx";
import { useWidth } from "../ui/useElementWidth.ts";
import type { ProfileType } from "../../lib/viewOptions.ts";

export const UNIT: Record<ProfileType, string> = {
  cpu: "CPU cores busy per pod",
  wall: "Threads per pod (waiting or working)",
  gil: "Share of a core holding the GIL, per pod",
};

const LEFT = 44;
const DRAG_PIXELS = 4;

/**
 * The rate over time, with a flag where each version was first seen. A range is brushed with the mouse, a finger or
 * the keyboard; it, or a flag, is then zoomed to or made a side of a comparison.
 */
export function Timeline({ timeline, range }: { timeline: TimelineAnswer; range: Range }) {
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const [hovered, hover] = useState<number | null>(null);
  const [brush, choose] = useState<Brush | null>(null);
  const [flag, raise] = useState<Flag | null>(null);
  const pressed = useRef<{ x: number; step: number } | null>(null);
  const { type } = place.value;
  const { start, seconds, pod_seconds, pods, samples, versions, quality, step_seconds: step } = timeline;
  const value = useMemo(() => start.map((_, i) => (pod_seconds[i] > 0 ? seconds[i] / pod_seconds[i] : null)), [timeline]);
  const shown = useMemo<Span>(() => {
    const now = Date.now() / 1000;
    return { from: instant(range.from, now) ?? now - 3600, until: instant(range.until, now) ?? now };
  }, [timeline, range.from, range.until]);
  const empty = useMemo(() => gaps(start, step, pod_seconds, shown, Date.now() / 1000), [timeline, shown]);
  // Another range, or later data: what was brushed lies elsewhere now.
  useLayoutEffect(() => { choose(null); raise(null); hover(null); }, [range.from, range.until]);

  const scale = (at: number) => ((at - shown.from) / Math.max(shown.until - shown.from, 1e-9)) * Math.max(width - LEFT, 1);
  const stepUnder = (event: PointerEvent) => {
    const x = event.clientX - (host.current as HTMLDivElement).getBoundingClientRect().left - LEFT;
    return stepAt(shown.from + (x / Math.max(width - LEFT, 1)) * (shown.until - shown.from), start, step);
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    pressed.current = { x: event.clientX, step: stepUnder(event) };
    raise(null);
    choose({ head: pressed.current.step, anchor: null });
  };
  const move = (event: PointerEvent) => {
    const at = stepUnder(event);
    if (event.pointerType === "mouse") hover(at);
    const from = pressed.current;
    if (!from || (brush?.anchor == null && Math.abs(event.clientX - from.x) < DRAG_PIXELS)) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    choose({ head: at, anchor: from.step });
  };
  // A finger that turns out to scroll the page takes its brush back.
  const cancel = () => { if (pressed.current) choose(null); pressed.current = null; };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = afterKey(brush, event.key, event.shiftKey, start.length);
    if (next) { choose(next); raise(null); }
    else if (event.key === "Enter" && brush) zoomTo(spanOf(brush, start, step, shown), range);
    else if (event.key === "Escape" && (brush || flag)) { choose(null); raise(null); }
    else return;
    event.preventDefault();
  };

  const at = hovered ?? brush?.head ?? null;
  const seen = value.filter((rate) => rate !== null);
  const most = Math.max(...seen, 0);
  const mean = sum(seconds) / Math.max(sum(pod_seconds), 1e-9);
  const pointed = at !== null && at < start.length ? at : null;
  const watched = pointed !== null && value[pointed] !== null;
  const told = (i: number) => `${zoned(start[i])} · ${value[i] === null ? "nothing was watched" : `${short(value[i] ?? 0)} · ${plural(pods[i], "pod")} · ${plural(samples[i], "sample")}`}`;
  const how = [
    ...modes({ modes: timeline.modes, quality: { ...quality, readers: [] } }),
    ...(watched && pointed !== null
      ? [coverage({ coverage: timeline.coverage[pointed] }), { text: `time lost ${orNot(timeline.stopped_share[pointed], part)}`, why: "" }]
      : [coverage(quality), lost(quality)]),
  ];
  const markers = useMemo(() => versions.map(({ version, first_seen, rollouts = [] }) => ({
    at: epoch(first_seen), text: version || "(no version)", rolled: rollouts.map(({ started, ended }) => ({ from: started, until: ended ?? started })),
  })).sort((a, b) => a.at - b.at), [timeline]);
  const placed = width > 0 ? flags(markers, (moment) => LEFT + scale(moment), width) : [];
  const brushed = brush && brush.anchor !== null && start.length > 0 ? spanOf(brush, start, step, shown) : null;
  const rough = coarse(timeline.basis.resolutions ?? [], step, shown);
  const summary = `${UNIT[type]}: mean ${short(mean)}, highest ${short(most)}, over ${plural(seen.length, "step")} of ${lasting(step)}${empty.length > 0 ? `, ${plural(empty.length, "gap")}` : ""}; versions seen: ${versions.map(({ version }) => version || "none").join(", ")}.`;
  return (
    <section class="card timeline" aria-label="Timeline">
      <div class="caption">
        <h2>{UNIT[type]}</h2>
        <span class="quiet">{pointed !== null ? told(pointed) : `mean ${short(mean)} · highest ${short(most)} · drag to choose a range · times in ${zone(start[0] ?? Date.now() / 1000)}`}</span>
      </div>
      <p class="basis">
        {how.map((remark, i) => <Fragment key={remark.text}>{i > 0 && " · "}<Words remark={remark} /></Fragment>)}
        {rough && <> · <strong class="doubt">kept by the {rough.every} until {clock(rough.until)}: a bar is a whole {rough.every}</strong></>}
      </p>
      <div class="timeline-flags" style={{ height: `${Math.max(...placed.map(({ row }) => row + 1), 0) * 26}px` }}>
        {placed.map((one) => {
          const [first, ...others] = one.markers;
          return (
            <button key={first.at} type="button" class="flag" aria-pressed={flag?.markers[0] === first} style={{ left: `${one.x}px`, top: `${one.row * 26}px`, maxWidth: `${one.width}px` }}
              title={one.markers.map((marker) => [`${marker.text}: first seen ${zoned(marker.at)}`, ...marker.rolled.map(({ from, until }) => `rolled out from ${clock(from)}${until > from ? ` to ${clock(until)}` : ""}`)].join(", ")).join("\n")}
              onClick={() => { raise(flag?.markers[0] === first ? null : one); choose(null); }}>
              <span aria-hidden="true">▌</span><bdi>{first.text}</bdi><span class="flag-time">{clock(first.at).slice(...(shown.until - shown.from > 172_800 ? [5, 10] : [11, 16]))}</span>{others.length > 0 && <span class="more-flags"> +{others.length}</span>}
            </button>
          );
        })}
      </div>
      <div class="chart" ref={host} role="slider" tabIndex={0} aria-label={summary} aria-describedby="timeline-keys"
        aria-valuemin={0} aria-valuemax={Math.max(start.length - 1, 0)} aria-valuenow={brush?.head ?? Math.max(start.length - 1, 0)}
        aria-valuetext={brush && start.length > 0 ? told(brush.head) + (brushed ? `; chosen ${clock(brushed.from)} to ${clock(brushed.until)}` : "") : "nothing chosen"}
        onKeyDown={press} onPointerDown={down} onPointerMove={move} onPointerUp={() => { pressed.current = null; }} onPointerCancel={cancel} onPointerLeave={() => hover(null)}>
        {width > 0 && <Plot width={width} left={LEFT} range={shown} start={start} step={step} value={value} markers={markers} gaps={empty} brush={brushed} at={pointed} />}
      </div>
      <span class="unseen" id="timeline-keys">Arrows move, Shift and arrows choose a range, Enter zooms to it, Escape lets go.</span>
      {brushed && <Picked span={brushed} range={range} samples={between(samples, brush as Brush)} clear={() => choose(null)} />}
      {flag && <Picked versions={versions.filter(({ version, first_seen }) => flag.markers.some(({ at: when, text }) => when === epoch(first_seen) && text === (version || "(no version)")))}
        span={shown} range={range} clear={() => raise(null)} />}
      <div class="row"><Earlier range={range} /><SideTray /></div>
      <details class="numbers">
        <summary>Timeline as a table</summary>
        <Table label="Timeline as a table" looks="short" heads={[`from (${zone(start[0] ?? 0)})`, "#rate", "#samples", "#pods", "#coverage", "#time lost"]}>
          {start.map((moment, i) => value[i] !== null && (
            <tr key={moment}>
              <th scope="row">{clock(moment)}</th>
              {[short(value[i] ?? 0), count(samples[i]), count(pods[i]), orNot(timeline.coverage[i], share), orNot(timeline.stopped_share[i], part)].map((text, at) => <td key={at} class="number">{text}</td>)}
            </tr>
          ))}
        </Table>
        {empty.length > 0 && <p class="quiet">Nothing was watched: {empty.map(({ from, until }) => `${clock(from)} – ${clock(until)}`).join("; ")}</p>}
      </details>
    </section>
  );
}

const between = (samples: readonly number[], { head, anchor }: Brush) => sum(samples.slice(Math.min(head, anchor ?? head), Math.max(head, anchor ?? head) + 1));

const part = (value: number) => percent(value, 2);

const orNot = (value: number | null, words: (value: number) => string) => (value === null ? "not told" : words(value));

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
