import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { epoch, type TimelineAnswer } from "../api/answers.ts";
import { drawTimeline } from "../charts/timeline.ts";
import { change, place } from "../location.ts";
import { count, percent, plural, short } from "../numbers.ts";
import { coverage, lost, modes, share } from "../quality.ts";
import { clock, instant, rfc3339, zone, zoned, type Range } from "../times.ts";
import { theme } from "../theme.ts";
import type { ProfileType } from "../url.ts";
import { Words } from "./quality.tsx";

export const UNIT: Record<ProfileType, string> = {
  cpu: "CPU cores busy per pod",
  wall: "Threads per pod (waiting or working)",
  gil: "Share of a core holding the GIL, per pod",
};

/** The rate over time, with a marker where each version was first seen; brushing sets the range. */
export function Timeline({ timeline, range }: { timeline: TimelineAnswer; range: Range }) {
  const host = useRef<HTMLDivElement>(null);
  const [at, point] = useState<number | null>(null);
  const { type } = place.value;
  const shown = theme.value;
  const { start, seconds, pod_seconds, pods, samples, versions, quality } = timeline;
  const value = useMemo(() => start.map((_, i) => (pod_seconds[i] > 0 ? seconds[i] / pod_seconds[i] : null)), [timeline]);
  useEffect(() => {
    if (!host.current) return undefined;
    const markers = versions.map(({ version, first_seen }) => ({ at: epoch(first_seen), text: version || "(no version)" })).sort((a, b) => a.at - b.at);
    const now = Date.now() / 1000;
    const [from, until] = [instant(range.from, now) ?? now - 3600, instant(range.until, now) ?? now];
    return drawTimeline(host.current, { start, value, markers, from, until }, {
      brushed: (a, b) => change({ from: rfc3339(Math.floor(a)), until: rfc3339(Math.ceil(b)) }),
      pointed: point,
    });
  }, [timeline, shown]);
  const seen = value.filter((rate) => rate !== null);
  const most = Math.max(...seen, 0);
  const mean = sum(seconds) / Math.max(sum(pod_seconds), 1e-9);
  const summary = `${UNIT[type]}: mean ${short(mean)}, highest ${short(most)}, over ${plural(seen.length, "step")} of ${plural(timeline.step_seconds, "second")}; versions seen: ${versions.map(({ version }) => version || "none").join(", ")}.`;
  const pointed = at !== null && at < start.length && value[at] !== null;
  const said = pointed
    ? `${zoned(start[at])} · ${short(value[at] ?? 0)} · ${plural(pods[at], "pod")} · ${plural(samples[at], "sample")}`
    : `mean ${short(mean)} · highest ${short(most)} · drag to choose a range · times in ${zone(start[0] ?? Date.now() / 1000)}`;
  const how = [
    ...modes({ modes: timeline.modes, quality: { ...quality, readers: [] } }),
    ...(pointed
      ? [coverage({ coverage: timeline.coverage[at] }), { text: `time lost ${told(timeline.stopped_share[at], part)}`, why: "" }]
      : [coverage(quality), lost(quality)]),
  ];
  return (
    <section class="card timeline" aria-label="Timeline">
      <div class="caption"><h2>{UNIT[type]}</h2><span class="quiet">{said}</span></div>
      <p class="basis">{how.map((remark, i) => <Fragment key={remark.text}>{i > 0 && " · "}<Words remark={remark} /></Fragment>)}</p>
      <div ref={host} class="chart" role="img" aria-label={summary} />
      <details class="numbers">
        <summary>Timeline as a table</summary>
        <div class="wide short" tabIndex={0} role="region" aria-label="Timeline as a table">
          <table>
            <thead><tr><th scope="col">from ({zone(start[0] ?? 0)})</th><th scope="col" class="number">rate</th><th scope="col" class="number">samples</th><th scope="col" class="number">pods</th><th scope="col" class="number">coverage</th><th scope="col" class="number">time lost</th></tr></thead>
            <tbody>
              {start.map((moment, i) => value[i] !== null && (
                <tr key={moment}>
                  <th scope="row">{clock(moment)}</th><td class="number">{short(value[i] ?? 0)}</td>
                  <td class="number">{count(samples[i])}</td><td class="number">{count(pods[i])}</td>
                  <td class="number">{told(timeline.coverage[i], share)}</td><td class="number">{told(timeline.stopped_share[i], part)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

const part = (value: number) => percent(value, 2);

const told = (value: number | null, words: (value: number) => string) => (value === null ? "not told" : words(value));

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);
