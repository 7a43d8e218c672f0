import { microseconds, percent } from "../../lib/numbers.ts";
import { changeColour, css, frameColour, heatColour, HEAT, NEUTRAL, NOT_JUDGED, stateColour, STATE_COLOURS, type PackageStyle, type Rgb } from "./colour.ts";
import type { BoxStyle } from "./draw.ts";
import { groupOf, type Group } from "../tree/groups.ts";
import { packageOf } from "../tree/packages.ts";
import { colourText } from "../tree/merge.ts";
import { changeAt, type TreeMetrics } from "../analysis/treeMetrics.ts";
import { TASK_STATES, THREAD_STATES_BY_WORK, sum, type Tree } from "../tree/tree.ts";
import type { ColourBy } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/frameStrings.ts";

/** How the nodes of one side look; without states in the reading, its packages. */
export function boxStyles(metrics: TreeMetrics, side: number, by: ColourBy): (node: number) => BoxStyle {
  if (by === "self") return stylesByFill(metrics, selfFill(metrics, side));
  const states = metrics.states?.[side];
  if (by === "state" && states) return stylesByFill(metrics, (node) => stateColour((state) => states[state][node]));
  const byName = stylesByName(metrics.tree);
  return (node) => byName(metrics.tree.name[node]);
}

/** Colours by package, one shade a function, whatever the names are; each name is looked at once. */
function stylesByName(tree: Tree): (name: number) => BoxStyle {
  const styles: (BoxStyle | undefined)[] = new Array(tree.names.length);
  const packageStyles = new Map<string, PackageStyle>();
  return (name) => (styles[name] ??= { fill: frameColour(colourText(tree.names[name], tree.by), packageStyles), label: tree.names[name], hatch: "" });
}

/** The looks of some fills, each made once. */
function stylesByFill({ tree }: TreeMetrics, fill: (node: number) => Rgb): (node: number) => BoxStyle {
  const styles = new Map<number, BoxStyle>();
  return (node) => {
    let style = styles.get(node);
    if (!style) styles.set(node, (style = { fill: fill(node), label: tree.names[tree.name[node]], hatch: "" }));
    return style;
  };
}

function selfFill({ tree }: TreeMetrics, side: number): (node: number) => Rgb {
  const self = tree.self[side];
  const maximum = self[indexOfMax(self)];
  return (node) => heatColour(maximum > 0 ? self[node] / maximum : 0);
}

function indexOfMax(self: Float64Array): number {
  let at = 0;
  for (let i = 1; i < self.length; i++) if (self[i] > self[at]) at = i;
  return at;
}

/** Colours by change. With `quiet` what is within noise has no name, so that the changes stand out. */
export function changeStyles(metrics: TreeMetrics, quiet = false): (node: number) => BoxStyle {
  const styles = new Map<number, BoxStyle>();
  return (node) => {
    let style = styles.get(node);
    if (!style) {
      const change = changeAt(metrics, node);
      const text = metrics.tree.names[metrics.tree.name[node]];
      const isUnnamed = quiet && node > 0 && (change.direction === "unchanged" || change.direction === "not_judged");
      const sign = change.direction === "increased" ? "▲ " : change.direction === "decreased" ? "▼ " : "";
      const hatch = change.direction === "new" || change.direction === "removed" ? change.direction : "";
      styles.set(node, (style = { fill: changeColour(change), label: isUnnamed ? "" : sign + text, hatch }));
    }
    return style;
  };
}

/** One side's colours, grey where the sides differ by no more than noise or were not judged. */
export const greyUnchanged = (metrics: TreeMetrics, style: (node: number) => BoxStyle) => (node: number): BoxStyle => {
  const { direction } = changeAt(metrics, node);
  return node > 0 && (direction === "unchanged" || direction === "not_judged") ? { ...style(node), fill: direction === "unchanged" ? NEUTRAL : NOT_JUDGED } : style(node);
};

/** One colour of a legend: what it stands for, and how much of the time is in it. */
export interface LegendEntry {
  readonly name: string;
  readonly colour: string;
  readonly value: string;
  readonly group: Group | "";
}

const GROUPS: readonly Group[] = ["application", "third party", "standard library", "no file"];

/** The packages in which most of a subtree's time was spent, the widest `most` of each group, group by group. */
export function packageLegend(metrics: TreeMetrics, top: number, limit: number): LegendEntry[] {
  // Upside down, self time lies at the outermost callers: the whole is read from the upright tree.
  if (metrics.upright && top === 0) return packageLegend(metrics.upright, 0, limit);
  const { tree, shape } = metrics;
  const selfTime = new Float64Array(tree.names.length);
  const nameIndices: number[] = [];
  for (const self of tree.self) {
    for (let i = top; i < shape.end[top]; i++) {
      if (self[i] > 0 && selfTime[tree.name[i]] === 0) nameIndices.push(tree.name[i]);
      selfTime[tree.name[i]] += self[i];
    }
  }
  const byName = stylesByName(tree);
  const packages = new Map<string, { name: string; us: number; fill: Rgb; group: Group }>();
  for (const at of nameIndices) {
    const text = colourText(tree.names[at], tree.by);
    const { name } = packageOf(text);
    const entry = packages.get(name);
    if (entry) entry.us += selfTime[at];
    else packages.set(name, { name, us: selfTime[at], fill: byName(at).fill, group: groupOf(text) });
  }
  const total = sum(selfTime);
  const sorted = [...packages.values()].sort((a, b) => b.us - a.us);
  return GROUPS.flatMap((group) => sorted.filter((entry) => entry.group === group).slice(0, limit).map(({ name, us, fill }) => (
    { name: name === "" ? strings.otherFramesWithoutFile : name, colour: css(fill), value: percent(us / total), group }
  )));
}

/** The states that a graph has, with what each has of a subtree's time. */
export function stateLegend({ states, us }: TreeMetrics, side: number, top: number): LegendEntry[] {
  const columns = states?.[side];
  const total = us[side][top];
  if (!columns) return [];
  return [...THREAD_STATES_BY_WORK, ...TASK_STATES].filter((state) => columns[state][0] > 0).map((state) => ({
    name: strings.stateNames[state], colour: css(STATE_COLOURS[state]), group: "", value: total > 0 ? percent(columns[state][top] / total) : "",
  }));
}

/** The heats from nothing to the frame with the most own time. */
export function selfLegend({ tree, us }: TreeMetrics, side: number): LegendEntry[] {
  const self = tree.self[side];
  const hottest = indexOfMax(self);
  const share = (part: number) => `${microseconds(self[hottest] * part)}, ${percent(us[side][0] > 0 ? (self[hottest] * part) / us[side][0] : 0)}`;
  return [0, 0.04, 0.25, 1].map((part, at) => ({
    name: part === 0 ? strings.noSelfTime : part === 1 ? strings.most(tree.names[tree.name[hottest]].slice(0, 80)) : "",
    colour: css(HEAT[[0, 6, 16, 32][at]]), value: part === 0 ? "" : share(part), group: "",
  }));
}
