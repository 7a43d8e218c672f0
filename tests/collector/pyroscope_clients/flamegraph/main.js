// Draws the answer of SelectMergeStacktraces with Grafana's component: `draw(flamegraph)`.
import { createTheme, FieldType, MutableDataFrame } from "@grafana/data";
import { FlameGraph } from "@grafana/flamegraph";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

/** Bars with their absolute place, by level, as Grafana's datasource reads them. */
function readBars({ names, levels }) {
  return levels.map(({ values }) => {
    const bars = [];
    let end = 0;
    for (let at = 0; at < values.length; at += 4) {
      const [gap, total, self, name] = values.slice(at, at + 4).map(Number);
      bars.push({ start: end + gap, end: end + gap + total, total, self, name: names[name] });
      end += gap + total;
    }
    return bars;
  });
}

/** The nested sets of the bars: each bar, then the bars that lie inside it. */
function nest(levels) {
  const rows = [];
  const next = levels.map(() => 0);
  const visit = (level, bar) => {
    rows.push({ level, ...bar });
    for (const below = levels[level + 1] ?? []; next[level + 1] < below.length; ) {
      const child = below[next[level + 1]];
      if (child.start < bar.start || child.end > bar.end) break;
      next[level + 1]++;
      visit(level + 1, child);
    }
  };
  visit(0, levels[0][0]);
  return rows;
}

window.draw = (flamegraph) => {
  const rows = nest(readBars(flamegraph));
  const field = (name, type, values, config = {}) => ({ name, type, values, config });
  const data = new MutableDataFrame({
    fields: [
      field("level", FieldType.number, rows.map((row) => row.level)),
      field("value", FieldType.number, rows.map((row) => row.total), { unit: "ns" }),
      field("self", FieldType.number, rows.map((row) => row.self), { unit: "ns" }),
      field("label", FieldType.string, rows.map((row) => row.name)),
    ],
  });
  const theme = createTheme({ colors: { mode: "light" } });
  createRoot(document.querySelector("#host")).render(createElement(FlameGraph, { data, getTheme: () => theme }));
  return rows.length;
};
