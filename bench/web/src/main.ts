import { select } from "d3-selection";
import flamegraph from "d3-flame-graph";
import { createTheme, FieldType, MutableDataFrame } from "@grafana/data";
import { FlameGraph } from "@grafana/flamegraph";
import { FlameChart } from "flame-chart-js";
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { boxStyles } from "../../../web/src/flamegraph/render/colourSchemes.ts";
import { computeMetrics } from "../../../web/src/flamegraph/analysis/treeMetrics.ts";
import { treeOf } from "../../../web/src/flamegraph/tree/tree.ts";
import { FlameGraphView } from "../../../web/src/flamegraph/render/flameGraphView.ts";
import "../../../web/src/styles/tokens.css";
import "../../../web/src/styles/flame.css";
import { columns, grow, rows, sampled, type Node } from "./trees.ts";

const host = document.querySelector("#host") as HTMLElement;

const frame = () => new Promise<number>((done) => requestAnimationFrame(done));

/** Milliseconds from the work until it shows: `shows` holds, and two more frames have passed. */
async function timed(work: () => void, shows: () => boolean = () => true): Promise<number> {
  const start = performance.now();
  work();
  while (!shows()) await frame();
  await frame();
  await frame();
  return performance.now() - start;
}

/** `shows`: whether it has drawn. `wheel`: the element whose wheel zooms. */
interface Bench { paint: () => void; shows?: () => boolean; zoom?: () => void; wheel?: Element }
type Contender = (root: Node) => Bench;

const contenders: Record<string, Contender> = {
  sidelight: (root) => {
    const wire = columns(root);
    const nothing = () => undefined;
    let view = null as FlameGraphView | null;
    const picture = () => {
      const tree = treeOf(wire);
      const metrics = computeMetrics(tree, [1], { invert: false, collapse: false, norm: "rate" });
      return {
        tree, shape: metrics.shape, total: metrics.total, style: boxStyles(metrics, 0, "package"),
        describe: () => ({ title: "", rows: [] }), hit: null, marksBefore: null, focus: 0, label: "",
      };
    };
    let shown = null as ReturnType<typeof picture> | null;
    return {
      paint: () => {
        view = new FlameGraphView(host, { zoom: nothing, select: nothing, hover: nothing, scroll: nothing });
        view.show((shown = picture()));
      },
      shows: () => inked(host.querySelector("canvas")),
      zoom: () => shown && view?.show({ ...shown, focus: 1 }),
      get wheel() { return host.querySelector("canvas") as Element; },
    };
  },
  "@grafana/flamegraph": (root) => grafana(root, { showFlameGraphOnly: true, disableCollapsing: true }),
  // As those who embed it get it: with its header, the table beside the graph, and alike neighbours collapsed.
  "@grafana/flamegraph, whole": (root) => grafana(root, {}),
  "d3-flame-graph": (root) => {
    const chart = flamegraph().width(1200).transitionDuration(0);
    return {
      paint: () => void select(host).datum(root).call(chart),
      zoom: () => (host.querySelectorAll(".d3-flame-graph g")[1] as SVGGElement).dispatchEvent(new MouseEvent("click", { bubbles: true })),
    };
  },
  "flame-chart-js": (root) => {
    const canvas = document.createElement("canvas");
    canvas.width = 1200;
    canvas.height = 700;
    host.append(canvas);
    let chart: FlameChart | null = null;
    return {
      paint: () => void (chart = new FlameChart({ canvas, data: [placed(root)] })),
      zoom: () => chart?.setZoom(0, root.children[0].value),
    };
  },
};

/** Grafana's component, drawn once its graph has ink. */
function grafana(root: Node, props: { showFlameGraphOnly?: boolean; disableCollapsing?: boolean }): Bench {
  const { names, level, name, total, self } = rows(root);
  const field = (key: string, type: FieldType, values: unknown[]) => ({ name: key, type, values });
  const data = new MutableDataFrame({
    fields: [
      field("label", FieldType.string, name.map((at) => names[at])), field("level", FieldType.number, level),
      field("value", FieldType.number, total), field("self", FieldType.number, self),
    ],
  });
  const theme = createTheme({ colors: { mode: "light" } });
  return {
    paint: () => createRoot(host).render(createElement(FlameGraph, { data, getTheme: () => theme, ...props })),
    shows: () => inked(host.querySelector("canvas[data-testid=flameGraph]")),
  };
}

/** Whether something was drawn near the top left: not what a canvas begins as, without colour or black. */
function inked(canvas: HTMLCanvasElement | null): boolean {
  if (!canvas || canvas.width < 100 || canvas.height < 20) return false;
  const [red, green, blue, alpha] = canvas.getContext("2d")?.getImageData(40, 10, 1, 1).data ?? [0, 0, 0, 0];
  return alpha === 255 && red + green + blue > 0;
}

interface Placed { name: string; start: number; duration: number; children: Placed[] }

/** flame-chart-js wants each frame with its start. */
function placed(root: Node): Placed {
  const whole: Placed = { name: root.name, start: 0, duration: root.value, children: [] };
  const pending: [Node, Placed][] = [[root, whole]];
  for (let top = pending.pop(); top; top = pending.pop()) {
    const [node, box] = top;
    let start = box.start;
    for (const child of node.children) {
      const inner = { name: child.name, start, duration: child.value, children: [] };
      box.children.push(inner);
      pending.push([child, inner]);
      start += child.value;
    }
  }
  return whole;
}

interface Measured { paint: number; zoom: number | null; wheel: number | null }

declare global {
  interface Window {
    prepare: (name: string, nodes: number) => void;
    bench: () => Promise<Measured>;
    speedscopeFile: (nodes: number) => string;
    held: Bench;
  }
}

const WHEEL_STEPS = 60;

/** The median time between frames while the wheel zooms in, and out again, at one place. */
async function wheeled(canvas: Element): Promise<number> {
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width * 0.37, clientY: box.top + 60, bubbles: true, cancelable: true, ctrlKey: true };
  const gaps: number[] = [];
  let before = await frame();
  for (let step = 0; step < WHEEL_STEPS; step++) {
    canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: step < WHEEL_STEPS / 2 ? -60 : 60 }));
    const now = await frame();
    gaps.push(now - before);
    before = now;
  }
  return gaps.sort((a, b) => a - b)[WHEEL_STEPS / 2];
}

window.prepare = (name, nodes) => void (window.held = contenders[name](grow(nodes)));

window.bench = async () => {
  const contender = window.held;
  const paint = await timed(contender.paint, contender.shows);
  const zoom = contender.zoom ? await timed(contender.zoom) : null;
  return { paint, zoom, wheel: contender.wheel ? await wheeled(contender.wheel) : null };
};

window.speedscopeFile = (nodes) => JSON.stringify(sampled(grow(nodes)));
