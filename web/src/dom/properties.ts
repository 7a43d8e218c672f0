/** Properties, attributes, styles and listeners of elements, as JSX names them. */

export type Props = Record<string, unknown>;

interface Listener {
  call: unknown;
  /** Events that began before this are not heard: the one that led to this listener goes on to bubble. */
  readonly since: number;
}

export interface Target extends HTMLElement {
  listeners?: Record<string, Listener>;
  [name: string]: unknown;
}

/** These are no properties, or read-only ones, or cannot be taken back. */
const ATTRIBUTES = new Set(["width", "height", "href", "list", "form", "tabIndex", "download", "role", "popover"]);

/** Sets what has changed; null and undefined take it back. */
export function setProperty(node: Target, name: string, value: unknown, before: unknown): void {
  if (value === before) return;
  if (name === "style") Object.assign(node.style, value);
  else if (name.startsWith("on")) listen(node, name, value);
  else if (node instanceof HTMLElement && name in node && !ATTRIBUTES.has(name)) node[name] = value ?? "";
  else if (value === null || value === undefined || (value === false && !name.includes("-"))) node.removeAttribute(name);
  else node.setAttribute(name, String(value));
}

let turn = 0;

function listen(node: Target, name: string, call: unknown): void {
  const all = (node.listeners ??= {});
  if (all[name]) {
    all[name] = { call, since: all[name].call ? all[name].since : turn };
    return;
  }
  all[name] = { call, since: turn };
  const event = name.slice(2).toLowerCase();
  node.addEventListener(event.replace("capture", ""), (heard: Event & { turn?: number }) => {
    heard.turn ??= turn++;
    const { call: now, since } = all[name];
    if (typeof now === "function" && heard.turn >= since) now(heard);
  }, event.endsWith("capture"));
}
