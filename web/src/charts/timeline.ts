import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { clock } from "../times.ts";

export interface Marker {
  readonly at: number;
  readonly text: string;
}

export interface Series {
  /** Epoch seconds, and the value of each step; null where nothing was watched. */
  readonly start: readonly number[];
  readonly value: readonly (number | null)[];
  readonly markers: readonly Marker[];
  readonly from: number;
  readonly until: number;
}

export interface Hears {
  /** A brushed range, epoch seconds. */
  brushed(from: number, until: number): void;
  /** The step under the pointer, or null. */
  pointed(index: number | null): void;
}

/** Draws a time series with deployment markers into `host`; gives back what takes it down again. */
export function drawTimeline(host: HTMLElement, series: Series, hears: Hears): () => void {
  const style = getComputedStyle(host);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const font = "11px system-ui, sans-serif";
  const axis: uPlot.Axis = {
    stroke: colour("--quiet"), font, labelFont: font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false },
  };
  const options: uPlot.Options = {
    width: host.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    padding: [16, 18, 0, 0],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, y: false },
    scales: { x: { time: true, range: () => [series.from, series.until] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.15 : 1] } },
    axes: [
      { ...axis, size: 30, values: (_, splits) => splits.map((at) => clock(at).slice(series.until - series.from > 172_800 ? 5 : 11, -3)) },
      { ...axis, size: 48 },
    ],
    series: [{}, { fill: colour("--accent-bar"), width: 0, points: { show: false }, paths: uPlot.paths.bars?.({ align: 1, size: [0.92, 200, 1] }) }],
    hooks: {
      setSelect: [(plot) => {
        if (plot.select.width < 4) return;
        hears.brushed(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
      }],
      setCursor: [(plot) => hears.pointed(plot.cursor.idx ?? null)],
      draw: [(plot) => drawMarkers(plot, series.markers, colour("--text"))],
    },
  };
  const plot = new uPlot(options, [[...series.start], [...series.value]], host);
  const watch = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: HEIGHT }));
  watch.observe(host);
  return () => {
    watch.disconnect();
    plot.destroy();
  };
}

const HEIGHT = 150;

function drawMarkers(plot: uPlot, markers: readonly Marker[], ink: string): void {
  const { ctx, bbox } = plot;
  const ratio = window.devicePixelRatio || 1;
  ctx.save();
  ctx.fillStyle = ink;
  ctx.strokeStyle = ink;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  const right = bbox.left + bbox.width;
  const labels: { x: number; text: string; hidden: number; until: number }[] = [];
  for (const { at, text } of markers) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < bbox.left || x > right) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const last = labels.at(-1);
    const shown = text.length > 24 ? `${text.slice(0, 23)}…` : text;
    if (last && x < last.until) last.hidden++;
    else labels.push({ x, text: shown, hidden: 0, until: x + ctx.measureText(`${shown} +9`).width + 10 * ratio });
  }
  for (const { x, text, hidden, until } of labels) {
    ctx.fillText(hidden > 0 ? `${text} +${hidden}` : text, Math.min(x, right - (until - x)) + 3 * ratio, bbox.top - 4 * ratio);
  }
  ctx.restore();
}
