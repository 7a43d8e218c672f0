/** Values that pages depend on, besides the state of components: a change renders the pages again. */

let render: () => void = () => {};
let isScheduled = false;

/** Calls `renderAll` now, and once after the work in which any signal changed. */
export function startRendering(renderAll: () => void): void {
  render = renderAll;
  render();
}

export class Signal<Value> {
  constructor(private current: Value) {}

  get value(): Value {
    return this.current;
  }

  set value(next: Value) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    if (isScheduled) return;
    isScheduled = true;
    queueMicrotask(() => {
      isScheduled = false;
      render();
    });
  }

  /** The value, for code that does not render it. */
  peek(): Value {
    return this.current;
  }
}

export const signal = <Value>(initial: Value): Signal<Value> => new Signal(initial);

/** A value derived from another: computed again when `from` returns a different value. */
export function computed<From, Value>(from: () => From, derive: (from: From) => Value): { readonly value: Value; peek(): Value } {
  let last: { readonly from: From; readonly value: Value } | null = null;
  const peek = () => {
    const now = from();
    if (!last || !Object.is(last.from, now)) last = { from: now, value: derive(now) };
    return last.value;
  };
  return { get value() { return peek(); }, peek };
}
