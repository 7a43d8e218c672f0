import { select } from "d3-selection";
import flamegraph from "d3-flame-graph";
import { FlameChart } from "flame-chart-js";
import { plainLook } from "../../../web/src/flame/pictures.ts";
import { read } from "../../../web/src/flame/reading.ts";
import { treeOf } from "../../../web/src/flame/tree.ts";
import { FlameView } from "../../../web/src/flame/view.ts";
import "../../../web/src/styles/tokens.css";
import "../../../web/src/styles/flame.css";
import { columns, grow, type Node } from "./trees.ts";

const host = document.querySelector("#host") as HTMLElement;

/** Two frames from now: what was asked for has been painted. */
const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

async function timed(work: () => void): Promise<number> {
  const start = performance.now();
  work();
  await painted();
  return performance.now() - start;
}

type Contender = (root: Node) => { paint: () => void; zoom: () => void };

const contenders: Record<string, Contender> = {
  sidelight: (root) => {
    const wire = columns(root);
    const nothing = () => undefined;
    const view = new FlameView(host, { zoom: nothing, select: nothing, hover: nothing });
    const picture = () => {
      const tree = treeOf(wire);
      const reading = read(tree, [1], { invert: false, collapse: false, norm: "rate" });
      const look = plainLook(tree.names);
      return {
        tree, shape: reading.shape, total: reading.total, look: (node: number) => look(tree.name[node]),
        describe: () => ({ title: "", rows: [] }), hit: null, marksBefore: null, focus: 0, label: "",
      };
    };
    let shown = null as ReturnType<typeof picture> | null;
    return { paint: () => view.show((shown = picture())), zoom: () => shown && view.show({ ...shown, focus: 1 }) };
  },
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
  interface Window { bench: (name: string, nodes: number) => Promise<{ paint: number; zoom: number }> }
}

window.bench = async (name, nodes) => {
  host.replaceChildren();
  const contender = contenders[name](grow(nodes));
  return { paint: await timed(contender.paint), zoom: await timed(contender.zoom) };
};
