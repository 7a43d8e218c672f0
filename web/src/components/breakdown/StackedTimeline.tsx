import { useRef } from "preact/hooks";
import { axisTicks } from "../../charts/timelineLayout.ts";
import { formatRate, type RateUnit } from "../../lib/quantities.ts";
import { stack, type Group } from "../../charts/stackedGroups.ts";
import { useElementWidth } from "../ui/useElementWidth.ts";
import * as strings from "../../strings/profileStrings.tsx";

const HEIGHT = 96;
const AXIS = 18;

/** The colours of the groups, as the stylesheet has them; the last is that of all others. */
const COLOURS = 8;
export const groupClass = (at: number): string => `group-${Math.min(at, COLOURS)}`;

/** The time of groups on top of each other, the largest at the bottom. The cards below have the numbers. */
export function StackedTimeline({ groups, start, step, label, unit }: { groups: readonly Group[]; start: readonly number[]; step: number; label: string; unit: RateUnit }) {
  const host = useRef<HTMLDivElement>(null);
  const width = useElementWidth(host);
  const bounds = stack(groups);
  const most = Math.max(...(bounds.at(-1) ?? []).map(({ until }) => until), 0);
  const from = start[0] ?? 0;
  const until = (start.at(-1) ?? 0) + step;
  const x = (at: number) => ((at - from) / Math.max(until - from, 1)) * width;
  const y = (value: number) => (most > 0 ? HEIGHT - (value / most) * HEIGHT : HEIGHT);
  const bar = Math.max(x(from + step) * 0.92, 0.5).toFixed(1);
  return (
    <div class="stacked" ref={host}>
      <p class="quiet">{label} · {strings.mostRate(formatRate(most / step, { ...unit, name: unit.name.replace(/\/.*$/, "") }))}</p>
      <svg width={width} height={HEIGHT + AXIS} aria-hidden="true">
        {bounds.map((parts, at) => (
          <path key={groups[at].name} class={groupClass(at)} d={parts.map((part, column) => (part.until > part.from ? `M${x(start[column]).toFixed(1)} ${y(part.from).toFixed(1)}V${y(part.until).toFixed(1)}h${bar}V${y(part.from).toFixed(1)}Z` : "")).join("")} />
        ))}
        {axisTicks(from, until, Math.max(Math.floor(width / 84), 2)).map((tick) => x(tick.at) < width - 30 && (
          <text key={tick.at} x={x(tick.at)} y={HEIGHT + 14} text-anchor="middle">{tick.text}</text>
        ))}
      </svg>
    </div>
  );
}
