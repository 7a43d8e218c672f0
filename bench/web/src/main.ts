import { select } from "d3-selection";
import flamegraph from "d3-flame-graph";
import { createTheme, FieldType, MutableDataFrame } from "@grafana/data";
import { FlameGraph } from "@grafana/flamegraph";
import { FlameChart } from "flame-chart-js";
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { describeFrame } from "../../../web/src/flamegraph/analysis/frameDescription.ts";
import { search } from "../../../web/src/flamegraph/analysis/search.ts";
import { boxStyles } from "../../../web/src/flamegraph/render/colourSchemes.ts";
import { computeMetrics, countBefore } from "../../../web/src/flamegraph/analysis/treeMetrics.ts";
import { treeOf } from "../../../web/src/flamegraph/tree/tree.ts";
import { FlameGraphView } from "../../../web/src/flamegraph/render/flameGraphView.ts";
import "../../../web/src/styles/tokens.css";
import "../../../web/src/styles/flame.css";
import { columns, grow, rows, sampled, type Node } from "./trees.ts";

const host = document.querySelector("#host") as HTMLElement;

const frame = () => new Promise<number>((done) => requestAnimationFrame(done));

const LIMIT_MS = 60_000;

/** Milliseconds from the work until it shows: `shows` holds, and two more frames have passed. */
async function timed({ work, shows = () => true }: Action): Promise<number> {
  const start = performance.now();
  await work();
  while (!shows()) {
    if (performance.now() - start > LIMIT_MS) throw new Error("nothing was drawn");
    await frame();
  }
  await frame();
  await frame();
  return performance.now() - start;
}

/** `work` begins it; `shows`: whether it has drawn. Hover is done `MOVES` times. */
interface Action { work: () => void | Promise<void>; shows?: () => boolean }
/** `wheel`: the element whose wheel zooms. */
interface Bench { paint: Action; hover?: Action; zoom?: Action; search?: Action; invert?: Action; wheel?: Element }
type Contender = (root: Node) => Bench;

const SEARCH = "function_12";

const contenders: Record<string, Contender> = {
  sidelight: (root) => {
    const wire = columns(root);
    const nothing = () => undefined;
    let view = null as FlameGraphView | null;
    let tree = null as ReturnType<typeof treeOf> | null;
    const picture = (invert: boolean, focus = 0, query = "") => {
      tree ??= treeOf(wire);
      // As the pages do: callees by name, callers by weight.
      const metrics = computeMetrics(tree, [1], { invert, isByWeight: invert, collapse: false, norm: "rate" });
      const hit = search(metrics.tree, query)?.hit ?? null;
      return {
        tree: metrics.tree, shape: metrics.shape, total: metrics.total, style: boxStyles(metrics, 0, "package"),
        describe: (node: number) => describeFrame(metrics, node, focus), hit, marksBefore: countBefore(hit), focus, label: "",
      };
    };
    let shown = null as ReturnType<typeof picture> | null;
    const canvas = () => host.querySelector("canvas") as HTMLCanvasElement;
    return {
      paint: {
        work: () => {
          view = new FlameGraphView(host, { zoom: nothing, select: nothing, hover: nothing, scroll: nothing });
          view.show((shown = picture(false)));
        },
        shows: () => inked(canvas()),
      },
      hover: { work: () => hovered(canvas()) },
      zoom: { work: () => shown && view?.show({ ...shown, focus: 1 }) },
      search: {
        work: () => {
          if (!shown) return;
          const hit = search(shown.tree, SEARCH)?.hit ?? null;
          view?.show((shown = { ...shown, hit, marksBefore: countBefore(hit) }));
        },
      },
      invert: { work: () => view?.show(picture(true, 0, SEARCH)) },
      get wheel() { return canvas(); },
    };
  },
  "@grafana/flamegraph": (root) => grafana(root, { showFlameGraphOnly: true, disableCollapsing: true }),
  // As those who embed it get it: with its header, the table beside the graph, and alike neighbours collapsed.
  "@grafana/flamegraph, whole": (root) => grafana(root, {}),
  "d3-flame-graph": (root) => {
    const chart = flamegraph().width(1200).transitionDuration(0);
    return {
      paint: { work: () => void select(host).datum(root).call(chart) },
      zoom: { work: () => void (host.querySelectorAll(".d3-flame-graph g")[1] as SVGGElement).dispatchEvent(new MouseEvent("click", { bubbles: true })) },
    };
  },
  "flame-chart-js": (root) => {
    const canvas = document.createElement("canvas");
    canvas.width = 1200;
    canvas.height = 700;
    host.append(canvas);
    let chart: FlameChart | null = null;
    return {
      paint: { work: () => void (chart = new FlameChart({ canvas, data: [placed(root)] })) },
      zoom: { work: () => chart?.setZoom(0, root.children[0].value) },
    };
  },
};

const MOVES = 20;

/** Moves the pointer over twenty places of a graph's fifth row, a frame each. */
async function hovered(canvas: HTMLCanvasElement): Promise<void> {
  const { left, top, width } = canvas.getBoundingClientRect();
  for (let move = 0; move < MOVES; move++) {
    const at = { clientX: left + (width * (move + 0.5)) / MOVES, clientY: top + 90, bubbles: true };
    canvas.dispatchEvent(new PointerEvent("pointermove", at));
    canvas.dispatchEvent(new MouseEvent("mousemove", at));
    await frame();
  }
}

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
  const graph = () => host.querySelector("canvas[data-testid=flameGraph]") as HTMLCanvasElement;
  const button = (label: string) => document.querySelector<HTMLElement>(`[aria-label="${label}"]`);
  const item = (label: string) => [...document.querySelectorAll<HTMLElement>("[role=menuitem]")].find((one) => one.textContent?.includes(label));
  const paint = {
    work: () => createRoot(host).render(createElement(FlameGraph, { data, getTheme: () => theme, ...props })),
    shows: () => inked(graph()),
  };
  const hover = { work: () => hovered(graph()) };
  if (props.showFlameGraphOnly) return { paint, hover };
  let before = "";
  return {
    paint,
    hover,
    // The graph is drawn again, with the callers of the focused frame paler.
    zoom: {
      work: async () => {
        const { left, top, width } = graph().getBoundingClientRect();
        graph().dispatchEvent(new MouseEvent("click", { clientX: left + width * 0.2, clientY: top + 30, bubbles: true }));
        for (let waited = 0; waited < 100 && !item("Focus block"); waited++) await frame();
        before = pixels(graph());
        item("Focus block")?.click();
      },
      shows: () => pixels(graph()) !== before,
    },
    search: {
      work: () => {
        const input = host.querySelector<HTMLInputElement>("input[placeholder^=Search]") as HTMLInputElement;
        before = pixels(graph());
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(input, SEARCH);
        input.dispatchEvent(new Event("input", { bubbles: true }));
      },
      shows: () => pixels(graph()) !== before,
    },
    // It has no inverted graph. Its nearest view shows the callers and callees of one function.
    invert: {
      work: () => button("Show in sandwich view")?.click(),
      shows: () => host.querySelectorAll("canvas[data-testid=flameGraph]").length === 2,
    },
  };
}

/** A few of the canvas's pixels, to notice that it was drawn again. */
const pixels = (canvas: HTMLCanvasElement | null) => String(canvas?.getContext("2d")?.getImageData(0, 10, 200, 1).data ?? "");

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

declare global {
  interface Window {
    prepare: (name: string, nodes: number) => void;
    act: (name: keyof Bench) => Promise<number | null>;
    wheel: () => Promise<number | null>;
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

/** Milliseconds of an action, of one move for hover; null if the contender has none. */
window.act = async (name) => {
  const action = window.held[name as Exclude<keyof Bench, "wheel">];
  if (!action) return null;
  const ms = await timed(action);
  return name === "hover" ? ms / MOVES : ms;
};

window.wheel = async () => (window.held.wheel ? wheeled(window.held.wheel) : null);

window.speedscopeFile = (nodes) => JSON.stringify(sampled(grow(nodes)));
