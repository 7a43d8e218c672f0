/**
 * What these pages need of Preact, under its names: the build puts this file in its place. They are written against
 * Preact's types and would run with it as well; `docs/decisions/20261122-preact-without-its-code.md` says what is left out.
 *
 * Every element of a tree has an instance, which is patched from one drawing to the next: a child is the same as before if it
 * has the same type and key, or, where it has no key, the same type and place. Instances of components and fragments have
 * no node of their own; those of elements put the nodes of all below them in order, and touch no node that others put
 * beside them.
 */

import { setProperty, type Props, type Target } from "./properties.ts";

export type Component = (props: Props) => Child;
export type Child = Element | string | number | bigint | boolean | null | undefined | (() => void) | readonly Child[];

/** What a tree is made of: a tag, a component, or, with null as its type, children alone. */
interface Element {
  readonly type: string | Component | null;
  readonly props: Props;
  readonly key: unknown;
}

interface Hook {
  /** State, or what a memo made of its inputs. */
  value?: unknown;
  set?: (next: unknown) => void;
  inputs?: readonly unknown[];
  /** An effect to be run, and what to call before it is run again. */
  effect?: (() => unknown) | null;
  undo?: unknown;
  layout?: boolean;
}

interface Instance {
  of: Element | string;
  readonly above: Instance | null;
  readonly depth: number;
  readonly node: Target | Text | null;
  children: (Instance | null)[];
  /** What an element has put into itself. */
  placed: Node[];
  readonly hooks: Hook[];
  dirty: boolean;
  gone: boolean;
}

const SVG = "http://www.w3.org/2000/svg";

export const Fragment = null;

export function h(type: string | Component | null, given: Props | null, ...children: Child[]): Element {
  const { key, ...props } = given ?? {};
  if (children.length > 0) props.children = children.length > 1 ? children : children[0];
  return { type, props, key };
}

/** Set last: what an input holds may depend on its other properties, and what is selected on the options below. */
const LAST = ["value", "checked"];
const NOT_NOW = ["children", "ref", ...LAST];

/** Components that were drawn and have effects to run, in the order in which their elements were done. */
let drawn: Instance[] = [];
/** The component being drawn, and its next hook. */
let current: Instance;
let at = 0;

const roots = new WeakMap<globalThis.Element, Instance>();

export function render(child: Child, host: globalThis.Element): void {
  let root = roots.get(host);
  if (!root) {
    host.textContent = "";
    root = instance({ type: "", props: {}, key: null }, null, host as Target);
    roots.set(host, root);
  }
  inOnePass(root, () => draw(root, [child]));
}

const instance = (of: Element | string, above: Instance | null, node: Instance["node"]): Instance =>
  ({ of, above, node, depth: above ? above.depth + 1 : 0, children: [], placed: [], hooks: [], dirty: false, gone: false });

/** Draws, and runs the effects of all that was drawn. */
function inOnePass(whose: Instance, work: () => void): void {
  work();
  place(whose);
  const all = drawn;
  drawn = [];
  for (const one of all) run(one, true);
  if (all.length > 0) painted(() => all.forEach((one) => run(one, false)));
}

/** Once what was drawn has been painted, or, where nothing is painted, after a moment. */
function painted(work: () => void): void {
  const done = () => {
    clearTimeout(timer);
    cancelAnimationFrame(frame);
    setTimeout(work);
  };
  const timer = setTimeout(done, 100);
  const frame = requestAnimationFrame(done);
}

/** Undoes the effects of a component that are to be run again, and runs them. */
function run(one: Instance, layout: boolean): void {
  const mine = one.hooks.filter((hook) => hook.effect && hook.layout === layout && !one.gone);
  mine.forEach(undo);
  for (const hook of mine) {
    const effect = hook.effect as () => unknown;
    hook.effect = null;
    hook.undo = guarded(effect);
  }
}

function undo(hook: Hook): void {
  const { undo: back } = hook;
  hook.undo = null;
  if (typeof back === "function") guarded(back as () => unknown);
}

/** One that fails keeps no other from its work. */
function guarded(work: () => unknown): unknown {
  try {
    return work();
  } catch (problem) {
    reportError(problem);
    return null;
  }
}

function draw(into: Instance, children: readonly Child[]): void {
  const before = into.children;
  const left = new Set(before);
  into.children = children.map((child, i) => {
    const of = elementOf(child);
    if (of === null) return null;
    const same = (one: Instance | null | undefined) => one && left.has(one) && typeOf(one.of) === typeOf(of) && keyOf(one.of) == keyOf(of);
    const old = (same(before[i]) ? before[i] : keyOf(of) != null && before.find(same)) || null;
    left.delete(old);
    return patch(old, of, into);
  });
  for (const old of left) if (old) remove(old, true);
}

const typeOf = (of: Element | string) => (typeof of === "string" ? "" : of.type);
const keyOf = (of: Element | string) => (typeof of === "string" ? undefined : of.key);

function elementOf(child: Child): Element | string | null {
  if (child === null || child === undefined || typeof child === "boolean" || typeof child === "function") return null;
  if (typeof child !== "object") return String(child);
  return Array.isArray(child) ? { type: null, props: { children: child as Child }, key: undefined } : child as Element;
}

const childrenOf = ({ children }: Props): readonly Child[] => (Array.isArray(children) ? children : [children as Child]);

function patch(old: Instance | null, of: Element | string, above: Instance): Instance {
  if (old && old.of === of && !old.dirty) return old;
  if (typeof of === "string") {
    if (!old) return instance(of, above, document.createTextNode(of));
    if (old.of !== of) (old.node as Text).data = of;
    old.of = of;
    return old;
  }
  const { type, props } = of;
  const here = old ?? instance(of, above, typeof type === "string" ? created(type, above) : null);
  const last = old ? (old.of as Element).props : {};
  here.of = of;
  if (typeof type === "function") drawComponent(here);
  else if (type === null) draw(here, childrenOf(props));
  else {
    const node = here.node as Target;
    for (const name in { ...last, ...props }) if (!NOT_NOW.includes(name)) setProperty(node, name, props[name], last[name]);
    draw(here, childrenOf(props));
    place(here);
    for (const name of LAST) if (props[name] !== undefined) setProperty(node, name, props[name], node[name]);
    if (last.ref !== props.ref) {
      point(last.ref, null);
      point(props.ref, node);
    }
  }
  return here;
}

function created(tag: string, above: Instance): Target {
  let at: Instance | null = above;
  while (at && !at.node) at = at.above;
  const inside = at?.node as Target;
  return (tag === "svg" || inside.namespaceURI === SVG ? document.createElementNS(SVG, tag) : document.createElement(tag)) as unknown as Target;
}

function point(ref: unknown, node: Target | null): void {
  if (typeof ref === "function") ref(node);
  else if (ref) (ref as { current: unknown }).current = node;
}

function drawComponent(here: Instance): void {
  // Effects of the drawing before come first, if they still wait.
  run(here, false);
  const [outer, outerAt] = [current, at];
  [current, at] = [here, 0];
  here.dirty = false;
  const { type, props } = here.of as Element;
  try {
    const child = (type as Component)(props);
    [current, at] = [outer, outerAt];
    draw(here, [child]);
  } finally {
    [current, at] = [outer, outerAt];
  }
  if (here.hooks.some(({ effect }) => effect)) drawn.push(here);
}

function remove(old: Instance, fromPage: boolean): void {
  old.gone = true;
  old.hooks.forEach(undo);
  if (typeof old.of !== "string") point(old.of.props.ref, null);
  for (const child of old.children) if (child) remove(child, fromPage && !old.node);
  if (old.node && fromPage) old.node.remove();
}

/** The nodes of an instance, those of elements without what is in them. */
function nodesOf(one: Instance, into: Node[] = []): Node[] {
  if (one.node) into.push(one.node);
  else for (const child of one.children) if (child) nodesOf(child, into);
  return into;
}

/** Puts the nodes below the next element into order, where they are in another than before. */
function place(whose: Instance): void {
  let host = whose;
  while (!host.node) host = host.above as Instance;
  const nodes = host.children.flatMap((child) => (child ? nodesOf(child) : []));
  const { placed } = host;
  if (nodes.length === placed.length && nodes.every((node, i) => node === placed[i])) return;
  host.placed = nodes;
  const parent = host.node as Target;
  nodes.reduceRight<Node | null>((next, node) => {
    if (node.parentNode !== parent || (next && node.nextSibling !== next)) move(parent, node, next);
    return node;
  }, null);
}

/** Moves a node with its focus and what it has scrolled to, where the browser can. */
function move(parent: Target & { moveBefore?: (node: Node, before: Node | null) => void }, node: Node, before: Node | null): void {
  if (node.isConnected && parent.isConnected && parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

const waiting: Instance[] = [];

function drawWaiting(): void {
  // Those above first: they may draw those below them.
  while (waiting.length > 0) {
    waiting.sort((a, b) => a.depth - b.depth);
    const next = waiting.shift() as Instance;
    if (next.dirty && !next.gone) guarded(() => inOnePass(next, () => drawComponent(next)));
  }
}

function hook(): Hook {
  return (current.hooks[at++] ??= {});
}

const changed = (before: readonly unknown[] | undefined, now: readonly unknown[] | undefined): boolean =>
  !before || !now || now.some((one, i) => !Object.is(one, before[i]));

export function useState<Value>(first: Value | (() => Value)): [Value, (next: Value | ((now: Value) => Value)) => void] {
  const own = hook();
  const whose = current;
  own.set ??= (own.value = typeof first === "function" ? (first as () => Value)() : first, (given) => {
    const next = typeof given === "function" ? given(own.value) : given;
    if (Object.is(next, own.value)) return;
    own.value = next;
    if (whose.dirty) return;
    whose.dirty = true;
    if (waiting.push(whose) === 1) queueMicrotask(drawWaiting);
  });
  return [own.value as Value, own.set];
}

export function useMemo<Value>(make: () => Value, inputs: readonly unknown[]): Value {
  const own = hook();
  if (changed(own.inputs, inputs)) {
    own.value = make();
    own.inputs = inputs;
  }
  return own.value as Value;
}

export const useRef = <Value>(first: Value): { current: Value } => useMemo(() => ({ current: first }), []);

function effect(work: () => unknown, inputs: readonly unknown[] | undefined, layout: boolean): void {
  const own = hook();
  if (!changed(own.inputs, inputs)) return;
  Object.assign(own, { inputs, effect: work, layout });
}

/** Runs when what was drawn is in the page, before it is painted. */
export const useLayoutEffect = (work: () => unknown, inputs?: readonly unknown[]): void => effect(work, inputs, true);

/** Runs when what was drawn has been painted. */
export const useEffect = (work: () => unknown, inputs?: readonly unknown[]): void => effect(work, inputs, false);
