import { microseconds, percent } from "../../lib/numbers.ts";
import { changeColour, css, frameColour, heatColour, HEAT, NEUTRAL, stateColour, STATE_COLOURS, type Owner, type Rgb } from "./colour.ts";
import type { Look } from "./draw.ts";
import { groupOf, type Group } from "../tree/groups.ts";
import { packageOf } from "../tree/packages.ts";
import { colourText } from "../tree/merge.ts";
import { changeAt, type Reading } from "../analysis/treeMetrics.ts";
import { sum, type Tree } from "../tree/tree.ts";
import type { ColourBy } from "../../lib/viewOptions.ts";

/** How the nodes of one side look; without states in the reading, its packages. */
export function lookOf(reading: Reading, side: number, by: ColourBy): (node: number) => Look {
  if (by === "self") return filled(reading, selfFill(reading, side));
  const states = reading.states?.[side];
  if (by === "state" && states) return filled(reading, (node) => stateColour(states.idle[node], states.running[node], states.gil[node]));
  const byName = namedLook(reading.tree);
  return (node) => byName(reading.tree.name[node]);
}

/** Colours by package, one shade a function, whatever the names are; each name is looked at once. */
function namedLook(tree: Tree): (name: number) => Look {
  const known: (Look | undefined)[] = new Array(tree.names.length);
  const owners = new Map<string, Owner>();
  return (name) => (known[name] ??= { fill: frameColour(colourText(tree.names[name], tree.by), owners), label: tree.names[name], hatch: "" });
}

/** The looks of some fills, each made once. */
function filled({ tree }: Reading, fill: (node: number) => Rgb): (node: number) => Look {
  const known = new Map<number, Look>();
  return (node) => {
    let look = known.get(node);
    if (!look) known.set(node, (look = { fill: fill(node), label: tree.names[tree.name[node]], hatch: "" }));
    return look;
  };
}

function selfFill({ tree }: Reading, side: number): (node: number) => Rgb {
  const self = tree.self[side];
  const most = self[hottest(self)];
  return (node) => heatColour(most > 0 ? self[node] / most : 0);
}

function hottest(self: Float64Array): number {
  let at = 0;
  for (let i = 1; i < self.length; i++) if (self[i] > self[at]) at = i;
  return at;
}

/** Colours by change. With `quiet` what is within noise has no name, so that the changes stand out. */
export function changeLook(reading: Reading, quiet = false): (node: number) => Look {
  const known = new Map<number, Look>();
  return (node) => {
    let look = known.get(node);
    if (!look) {
      const change = changeAt(reading, node);
      const text = reading.tree.names[reading.tree.name[node]];
      const silent = quiet && node > 0 && change.direction === "same";
      const sign = change.direction === "more" ? "▲ " : change.direction === "less" ? "▼ " : "";
      const hatch = change.direction === "new" || change.direction === "gone" ? change.direction : "";
      known.set(node, (look = { fill: changeColour(change), label: silent ? "" : sign + text, hatch }));
    }
    return look;
  };
}

/** One side's colours, grey where the sides differ by no more than noise. */
export const unlessSame = (reading: Reading, look: (node: number) => Look) => (node: number): Look =>
  (node > 0 && changeAt(reading, node).direction === "same" ? { ...look(node), fill: NEUTRAL } : look(node));

/** One colour of a legend: what it stands for, and how much of the time is in it. */
export interface LegendEntry {
  readonly name: string;
  readonly colour: string;
  readonly said: string;
  readonly group: Group | "";
}

const GROUPS: readonly Group[] = ["application", "third party", "standard library", "no file"];

/** The packages in which most of a subtree's time was spent, the widest `most` of each group, group by group. */
export function packageLegend(reading: Reading, top: number, most: number): LegendEntry[] {
  const { tree, shape } = reading;
  const own = new Float64Array(tree.names.length);
  const found: number[] = [];
  for (const self of tree.self) {
    for (let i = top; i < shape.end[top]; i++) {
      if (self[i] > 0 && own[tree.name[i]] === 0) found.push(tree.name[i]);
      own[tree.name[i]] += self[i];
    }
  }
  const byName = namedLook(tree);
  const spent = new Map<string, { name: string; us: number; fill: Rgb; group: Group }>();
  for (const at of found) {
    const text = colourText(tree.names[at], tree.by);
    const { name } = packageOf(text);
    const entry = spent.get(name);
    if (entry) entry.us += own[at];
    else spent.set(name, { name, us: own[at], fill: byName(at).fill, group: groupOf(text) });
  }
  const whole = sum(own);
  const widest = [...spent.values()].sort((a, b) => b.us - a.us);
  return GROUPS.flatMap((group) => widest.filter((entry) => entry.group === group).slice(0, most).map(({ name, us, fill }) => (
    { name: name === "" ? "(other), frames without a file" : name, colour: css(fill), said: percent(us / whole), group }
  )));
}

/** The states with what each has of a subtree's time. */
export function stateLegend({ states, us }: Reading, side: number, top: number): LegendEntry[] {
  const columns = states?.[side];
  const names = { idle: "idle (waiting)", running: "running without the GIL", gil: "holding the GIL" };
  const whole = us[side][top];
  return (["gil", "running", "idle"] as const).map((state) => ({
    name: names[state], colour: css(STATE_COLOURS[state]), group: "", said: columns && whole > 0 ? percent(columns[state][top] / whole) : "",
  }));
}

/** The heats from nothing to the frame with the most own time. */
export function selfLegend({ tree, us }: Reading, side: number): LegendEntry[] {
  const self = tree.self[side];
  const most = hottest(self);
  const share = (part: number) => `${microseconds(self[most] * part)}, ${percent(us[side][0] > 0 ? (self[most] * part) / us[side][0] : 0)}`;
  return [0, 0.04, 0.25, 1].map((part, at) => ({
    name: part === 0 ? "no own time" : part === 1 ? `most: ${tree.names[tree.name[most]].slice(0, 80)}` : "",
    colour: css(HEAT[[0, 6, 16, 32][at]]), said: part === 0 ? "" : share(part), group: "",
  }));
}
