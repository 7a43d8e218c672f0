/** Draws the same trees by what these pages ship and by Preact itself, step by step, and tells where the two differ. */

import * as preact from "preact";
import * as hooks from "preact/hooks";
import * as own from "../src/dom/index.ts";

// Both sides are called alike, whatever they call their types.
type Any = any;

/** A tree as data: what is drawn of it follows from it alone. */
type Spec = string | number | null | { readonly tag: string; readonly key?: string; readonly props: Record<string, unknown>; readonly children: readonly Spec[] };

const TAGS = ["div", "p", "b", "svg", "input", "select", "fragment", "list", "counter"];

function generator(seed: number): (most: number) => number {
  let state = seed * 2_654_435_761 >>> 0;
  return (most) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 0x1_0000_0000) * most);
  };
}

function grown(luck: (most: number) => number, depth: number): Spec {
  const kind = luck(12);
  if (kind === 0) return null;
  if (kind <= 2 || depth <= 0) return ["text", 7, "", "more", 0][luck(5)];
  const tag = TAGS[luck(TAGS.length)];
  const keyed = tag === "list";
  const some = [...new Array(luck(5)).keys()].map(() => grown(luck, depth - 1));
  const children = tag === "input" || tag === "select" || tag === "svg" ? [] : keyed
    ? some.flatMap((child, at) => (child !== null && typeof child === "object" && child.tag !== "list" ? [{ ...child, key: `k${at}` }] : []))
    : some;
  return { tag, props: { title: [undefined, "a", "b"][luck(3)], hidden: luck(6) === 0, "aria-busy": luck(2) === 0, value: String(luck(3)) }, children };
}

/** Another thing in the place of one; it has a key, or Preact might take another's element for it. */
function other(luck: (most: number) => number, depth: number): Spec {
  const made = grown(luck, depth);
  if (made === null || typeof made !== "object") return made;
  return made.tag === "list" ? null : { ...made, key: `new${luck(1e6)}` };
}

/** Some of it changed as pages change: what has no key stays in its place or goes, what has one moves. */
function changed(luck: (most: number) => number, spec: Spec, depth: number): Spec {
  if (spec === null || typeof spec !== "object" || luck(9) === 0) return luck(3) > 0 ? spec : other(luck, depth);
  let children = spec.children.map((child) => changed(luck, child, depth - 1));
  if (spec.tag === "list") {
    children = children.flatMap((child, at) => (child !== null && typeof child === "object" && child.tag !== "list" ? [{ ...child, key: (spec.children[at] as { key: string }).key }] : []));
    if (luck(2) === 0) children = children.map((child) => [luck(100), child] as const).sort((a, b) => a[0] - b[0]).map(([, child]) => child);
  }
  if (luck(5) === 0) children = spec.tag === "list" ? children.filter(() => luck(3) > 0) : children.map((child) => (luck(3) > 0 ? child : null));
  return { ...spec, props: { ...spec.props, title: luck(3) === 0 ? "c" : spec.props.title, value: String(luck(3)) }, children };
}

/** One of the two: the elements it makes of trees, and what its components told. */
class Side {
  readonly told: string[] = [];
  readonly counters = new Map<string, (by: (now: number) => number) => void>();
  private readonly born = new WeakMap<Node, number>();
  private readonly counter: Any;

  constructor(readonly host: HTMLElement, private readonly kit: Any) {
    this.counter = ({ name, children }: { name: string; children: unknown }) => {
      const [count, set] = kit.useState(() => 0);
      const box = kit.useRef(null);
      const twice = kit.useMemo(() => count * 2, [count]);
      kit.useLayoutEffect(() => {
        this.told.push(`${name} laid out ${count} ${box.current?.isConnected}`);
        return () => this.told.push(`${name} no longer laid out ${count}`);
      }, [count]);
      kit.useEffect(() => {
        this.counters.set(name, set);
        this.told.push(`${name} here`);
        return () => {
          this.counters.delete(name);
          this.told.push(`${name} gone`);
        };
      }, []);
      return kit.h("section", { ref: box, onClick: () => set((now: number) => now + 1) }, `${name} ${count} ${twice}`, children);
    };
  }

  draw(spec: Spec): void {
    this.kit.render(this.made(spec, "r"), this.host);
  }

  private made(spec: Spec, path: string): unknown {
    if (spec === null || typeof spec !== "object") return spec;
    const { h, Fragment } = this.kit;
    const { tag, key, props } = spec;
    const inside = spec.children.map((child, at) => this.made(child, `${path}.${(child as { key?: string })?.key ?? at}`));
    if (tag === "fragment") return h(Fragment, { key }, ...inside);
    if (tag === "list") return inside;
    if (tag === "counter") return h(this.counter, { key, name: path }, ...inside);
    if (tag === "svg") return h("svg", { key, viewBox: "0 0 9 9" }, h("path", { d: "M0 0", class: props.title }));
    if (tag === "select") return h("select", { key, value: props.value, "data-key": key }, ["0", "1", "2"].map((each) => h("option", { key: each, value: each }, each)));
    if (tag === "input") return h("input", { key, value: props.value, title: props.title, "data-key": key });
    return h(tag, { key, title: props.title, hidden: props.hidden, "aria-busy": props["aria-busy"], "data-key": key }, ...inside);
  }

  /** All that a step shows. What has a key must be the element that it was. */
  seen(step: number): Record<string, unknown> {
    const all = [...this.host.querySelectorAll<HTMLInputElement>("*")];
    for (const node of all) if (!this.born.has(node)) this.born.set(node, step);
    return {
      html: written(this.host),
      values: all.map(({ value }) => value ?? ""),
      born: all.filter((node) => node.dataset.key).map((node) => `${node.dataset.key} ${this.born.get(node)}`),
      told: this.told.splice(0).sort(),
      svg: all.filter((node) => node.namespaceURI?.endsWith("svg")).length,
    };
  }
}

/** What an element holds; in which order its attributes were set is nobody's business. */
function written(node: Node): string {
  if (!(node instanceof Element)) return node.textContent ?? "";
  const attributes = [...node.attributes].map(({ name, value }) => ` ${name}=${value}`).sort();
  return `<${node.localName}${attributes.join("")}>${[...node.childNodes].map(written).join("|")}</>`;
}

const settled = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => setTimeout(() => requestAnimationFrame(() => setTimeout(done))))));

declare global {
  interface Window { check: (seed: number, steps: number) => Promise<string[]> }
}

window.check = async (seed, steps) => {
  const hosts = ["own", "theirs"].map((id) => {
    const host = document.createElement("div");
    document.getElementById(id)?.replaceChildren(host);
    return host;
  });
  const luck = generator(seed);
  const sides = [new Side(hosts[0], own), new Side(hosts[1], { ...preact, ...hooks })];
  const differences: string[] = [];
  let most = 0;
  let spec: Spec = { tag: "div", props: {}, children: [...new Array(6).keys()].map(() => grown(luck, 4)) };
  for (let step = 0; step < steps; step++) {
    const names = [...sides[1].counters.keys()].sort();
    const name = names[luck(Math.max(names.length, 1))];
    if (step > 0 && name !== undefined && luck(2) === 0) for (const side of sides) side.counters.get(name)?.((now) => now + 1);
    else {
      spec = step === 0 ? spec : changed(luck, spec, 4);
      for (const side of sides) side.draw(spec);
    }
    await settled();
    most = Math.max(most, hosts[1].querySelectorAll("*").length);
    const [ours, theirs] = sides.map((side) => side.seen(step));
    for (const what of Object.keys(ours)) {
      const [a, b] = [JSON.stringify(ours[what]), JSON.stringify(theirs[what])];
      const same = [...a].findIndex((letter, at) => letter !== b[at]);
      if (a !== b) differences.push(`step ${step}, ${what}: …${a.slice(Math.max(same - 120, 0), same + 60)} instead of …${b.slice(Math.max(same - 120, 0), same + 60)}`);
    }
  }
  return most < 4 ? [...differences, "too little was drawn"] : differences;
};
