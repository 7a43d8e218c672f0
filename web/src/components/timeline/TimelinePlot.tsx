import { axisTicks, type Marker, type Span } from "../../charts/timelineLayout.ts";
import { short } from "../../lib/numbers.ts";
import * as strings from "../../strings/timelineStrings.tsx";

/** The height of the bars of an unfolded timeline. */
export const CHART_PIXELS = 112;
const AXIS = 20;
/** Half the width of the triangle at the start of a note. */
const NOTE_PIXELS = 5;

/**
 * Draws a timeline: bars, gaps, deployments and the selection; a strip has no axes and no labels. Events are those of its host.
 * `scale` makes a value a number of the axis. The lag of the event loop, in seconds, is a line on a scale of its own.
 */
export function TimelinePlot({ width, height, left, isStrip = false, range, start, step, value, scale, lag = [], markers, notes = [], boosts = [], gaps, brush, cursor }: {
  width: number; height: number; left: number; isStrip?: boolean; range: Span; start: readonly number[]; step: number; value: readonly (number | null)[]; scale: number; lag?: readonly (number | null)[];
  markers: readonly Marker[]; notes?: readonly Span[]; boosts?: readonly Span[]; gaps: readonly Span[]; brush: Span | null; cursor: number | null;
}) {
  const maximum = Math.max(...value.map((rate) => rate ?? 0), 0);
  const top = maximum > 0 ? rounded(maximum * 1.05) : 1;
  const clamp = (moment: number) => Math.min(Math.max(moment, range.from), range.until);
  const x = (moment: number) => left + ((clamp(moment) - range.from) / Math.max(range.until - range.from, 1e-9)) * (width - left);
  const y = (rate: number) => height - (rate / top) * height;
  const bars = value.map((rate, i) => {
    if (rate === null) return "";
    const [from, to] = [x(start[i]), x(start[i] + step)];
    const barWidth = Math.max((to - from) * 0.92, 0.5);
    return `M${from.toFixed(1)} ${height}V${y(rate).toFixed(1)}h${barWidth.toFixed(1)}V${height}Z`;
  }).join("");
  const longest = Math.max(...lag.map((seconds) => seconds ?? 0), 0);
  const lagLine = lag.map((seconds, i) => (seconds === null ? "" : `M${x(start[i]).toFixed(1)} ${(height * (1 - seconds / longest)).toFixed(1)}H${x(start[i] + step).toFixed(1)}`)).join("");
  const spanRectangle = (span: Span, className: string) => <rect class={className} x={x(span.from)} y={0} width={Math.max(x(span.until) - x(span.from), 1)} height={height} />;
  const newest = markers.length > 1 && !markers[markers.length - 1].isEarlier ? markers[markers.length - 1] : null;
  return (
    <svg class="plot" width={width} height={isStrip ? height : height + AXIS} aria-hidden="true">
      <defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="gap-hatch" x1="0" y1="0" x2="0" y2="6" /></pattern></defs>
      {!isStrip && [0, 0.5, 1].map((share) => (
        <g key={share}>
          <line x1={left} x2={width} y1={y(top * share)} y2={y(top * share)} />
          <text x={left - 6} y={Math.min(Math.max(y(top * share) + 4, 9), height)} text-anchor="end">{short(top * share * scale)}</text>
        </g>
      ))}
      {gaps.map((gap) => <g key={gap.from}>{spanRectangle(gap, "gap-band")}{!isStrip && x(gap.until) - x(gap.from) > 90 && <text x={(x(gap.from) + x(gap.until)) / 2} y={height / 2} text-anchor="middle">{strings.noData}</text>}</g>)}
      <path class="bars" d={bars} />
      {longest > 0 && <path class="lag" d={lagLine} />}
      {markers.flatMap(({ rollouts = [] }) => rollouts.map((span) => span.until >= range.from && span.from < range.until && spanRectangle(span, "rollout")))}
      {markers.map((marker, i) => !marker.isEarlier && <line key={marker.at} class={i === 0 ? "marker first" : "marker"} x1={x(marker.at)} x2={x(marker.at)} y1={0} y2={height} />)}
      {isStrip && newest && <text class="newest" x={Math.min(x(newest.at) + 4, width - 90)} y={11}>{newest.text.slice(0, 14)}</text>}
      {boosts.map((boost) => <rect key={boost.from} class="boost-mark" x={x(boost.from)} y={height - 3} width={Math.max(x(boost.until) - x(boost.from), 2)} height={3} />)}
      {notes.map((note, at) => <path key={at} class="note-mark" d={`M${(x(note.from) - NOTE_PIXELS).toFixed(1)} 0H${Math.max(x(note.until), x(note.from) + NOTE_PIXELS).toFixed(1)}v3H${(x(note.from) + NOTE_PIXELS / 2).toFixed(1)}L${x(note.from).toFixed(1)} ${NOTE_PIXELS * 2}z`} />)}
      {brush && spanRectangle(brush, "brush")}
      {cursor !== null && cursor < start.length && <line class="cursor" x1={x(start[cursor] + step / 2)} x2={x(start[cursor] + step / 2)} y1={0} y2={height} />}
      {!isStrip && axisTicks(range.from, range.until, Math.max(Math.floor((width - left) / 84), 2)).map((tick) => x(tick.at) < width - 30 && (
        <g key={tick.at}><line x1={x(tick.at)} x2={x(tick.at)} y1={height} y2={height + 4} /><text x={x(tick.at)} y={height + 15} text-anchor="middle">{tick.text}</text></g>
      ))}
    </svg>
  );
}

/** The next of 1, 2, 4, 5, 8 and 10 times a power of ten. */
function rounded(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 8].find((leading) => value <= leading * power) ?? 10) * power;
}
