import type { ComponentChildren, VNode } from "preact";

/**
 * Renders components without a browser: for those that have no hooks. The address is what `location.ts` reads when
 * it is loaded, so this module comes before all others.
 */
const here = { pathname: "/s/shop/compare", search: "?a=version%3Av1&b=version%3Av2", origin: "http://collector" };

Object.assign(globalThis, {
  window: {
    location: here,
    history: { pushState: () => undefined, replaceState: () => undefined },
    addEventListener: () => undefined,
  },
  document: { querySelector: () => null, addEventListener: () => undefined, documentElement: { dataset: {} } },
});

export interface Drawn {
  readonly tag: string;
  readonly props: Readonly<Record<string, unknown>>;
  readonly children: readonly (Drawn | string)[];
}

/** The elements that a component draws. */
export function render(node: ComponentChildren): (Drawn | string)[] {
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
export const words = (drawn: readonly (Drawn | string)[]): string => text(drawn).replace(/\s+/g, " ").trim();

const text = (drawn: readonly (Drawn | string)[]): string =>
  drawn.map((each) => (typeof each === "string" ? each : INLINE.has(each.tag) ? text(each.children) : ` ${text(each.children)} `)).join("");

/** Its elements with this tag, and with this class if one is given, in their order. */
export const all = (drawn: readonly (Drawn | string)[], tag: string, looks = ""): Drawn[] =>
  drawn.flatMap((each) => {
    if (typeof each === "string") return [];
    const fits = each.tag === tag && (looks === "" || String(each.props.class ?? "").split(" ").includes(looks));
    return [...(fits ? [each] : []), ...all(each.children, tag, looks)];
  });

/** The words of each element with this tag and class. */
export const wordsOf = (drawn: readonly (Drawn | string)[], tag: string, looks = ""): string[] =>
  all(drawn, tag, looks).map((each) => words([each]));
