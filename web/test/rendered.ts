import type { ComponentChildren, VNode } from "preact";

/**
 * Renders components without a browser: for those that have no hooks. The address is what `location.ts` reads when
 * it is loaded, so this module comes before all others.
 */
const here = { pathname: "/s/shop/compare", search: "?baseline=version%3Av1&comparison=version%3Av2", origin: "http://collector" };

Object.assign(globalThis, {
  window: {
    location: here,
    history: { pushState: () => undefined, replaceState: () => undefined },
    addEventListener: () => undefined,
  },
  document: { querySelector: () => null, addEventListener: () => undefined, documentElement: { dataset: {} } },
});

export interface RenderedElement {
  readonly tag: string;
  readonly props: Readonly<Record<string, unknown>>;
  readonly children: readonly (RenderedElement | string)[];
}

/** The elements that a component draws. */
export function render(node: ComponentChildren): (RenderedElement | string)[] {
  if (node === null || node === undefined || typeof node === "boolean") return [];
  if (Array.isArray(node)) return node.flatMap(render);
  if (typeof node !== "object") return [String(node)];
  const { type, props } = node as VNode<Record<string, unknown>>;
  if (typeof type === "function") return render((type as (props: unknown) => ComponentChildren)(props));
  const { children, ...rest } = props as { children?: ComponentChildren };
  return [{ tag: type as string, props: rest, children: render(children) }];
}

const INLINE = new Set(["a", "bdi", "b", "button", "code", "i", "mark", "span", "strong"]);

/** What is read of it, with single spaces. */
export const textOf = (nodes: readonly (RenderedElement | string)[]): string => text(nodes).replace(/\s+/g, " ").trim();

const text = (nodes: readonly (RenderedElement | string)[]): string =>
  nodes.map((node) => (typeof node === "string" ? node : INLINE.has(node.tag) ? text(node.children) : ` ${text(node.children)} `)).join("");

/** Its elements with this tag, and with this class if one is given, in their order. */
export const findAll = (nodes: readonly (RenderedElement | string)[], tag: string, className = ""): RenderedElement[] =>
  nodes.flatMap((node) => {
    if (typeof node === "string") return [];
    const fits = node.tag === tag && (className === "" || String(node.props.class ?? "").split(" ").includes(className));
    return [...(fits ? [node] : []), ...findAll(node.children, tag, className)];
  });

/** The words of each element with this tag and class. */
export const textsOf = (nodes: readonly (RenderedElement | string)[], tag: string, className = ""): string[] =>
  findAll(nodes, tag, className).map((node) => textOf([node]));
