import { boxStyles } from "../../../web/src/flamegraph/render/colourSchemes.ts";
import { computeMetrics } from "../../../web/src/flamegraph/analysis/treeMetrics.ts";
import { treeOf } from "../../../web/src/flamegraph/tree/tree.ts";
import { FlameGraphView } from "../../../web/src/flamegraph/render/flameGraphView.ts";
import "../../../web/src/styles/tokens.css";
import "../../../web/src/styles/flame.css";
import { columns, grow } from "./trees.ts";

const host = document.querySelector("#host") as HTMLElement;
const nothing = () => undefined;
const FRAMES = 60;

/** Milliseconds; `…: work` is what the main thread does for a frame, `…: frame` from one frame to the next. */
export type Costs = Record<string, number>;

/** What one graph of so many nodes costs the main thread, from the answer's text on. */
window.costs = async (nodes) => {
  const text = JSON.stringify(columns(grow(nodes)));
  const costs: Costs = {};
  const timed = <Made>(what: string, work: () => Made): Made => {
    const start = performance.now();
    const made = work();
    costs[what] = performance.now() - start;
    return made;
  };
  const wire = timed("parse", () => JSON.parse(text) as ReturnType<typeof columns>);
  const tree = timed("tree", () => treeOf(wire));
  const metrics = timed("read", () => computeMetrics(tree, [1], { invert: false, collapse: false, norm: "rate" }));
  timed("invert", () => computeMetrics(tree, [1], { invert: true, collapse: false, norm: "rate" }));
  const picture = {
    tree, shape: metrics.shape, total: metrics.total, style: boxStyles(metrics, 0, "package"),
    describe: () => ({ title: "", rows: [] }), hit: null, marksBefore: null, focus: 0, label: "",
  };
  const view = new FlameGraphView(host, { zoom: nothing, select: nothing, hover: nothing, scroll: nothing });
  timed("show", () => view.show(picture));
  await frame();
  timed("click", () => view.show({ ...picture, focus: 1 }));
  await frame();
  view.show(picture);
  await frame();

  const canvas = host.querySelector("canvas") as HTMLCanvasElement;
  const { left, top, width } = canvas.getBoundingClientRect();
  const wheel = (options: WheelEventInit) =>
    canvas.dispatchEvent(new WheelEvent("wheel", { clientX: left + width * 0.4, clientY: top + 90, cancelable: true, ...options }));
  await moving("zoom in", costs, () => wheel({ ctrlKey: true, deltaY: -8 }));
  await moving("pan", costs, (turn) => wheel({ deltaX: turn % 20 < 10 ? 40 : -40 }));
  await moving("zoom out", costs, () => wheel({ ctrlKey: true, deltaY: 8 }));
  return costs;
};

const frame = () => new Promise<number>((done) => requestAnimationFrame(done));

async function moving(what: string, costs: Costs, step: (turn: number) => void): Promise<void> {
  const work: number[] = [];
  const between: number[] = [];
  let last = await frame();
  for (let turn = 0; turn < FRAMES; turn++) {
    step(turn);
    // The graph's own frame callback was asked for before this one, so it has run when this one does.
    const start = performance.now();
    const now = await frame();
    const painted = performance.now();
    work.push(painted - Math.max(now, start));
    between.push(now - last);
    last = now;
  }
  costs[`${what}: work`] = median(work);
  costs[`${what}: frame`] = median(between);
}

const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1];

declare global {
  interface Window { costs: (nodes: number) => Promise<Costs> }
}
