/** What pages are a function of, besides their components' own state: a change draws them anew. */

let draw: () => void = () => {};
let awaited = false;

/** Calls `drawAll` now, and once after the work in which any signal changed. */
export function drawn(drawAll: () => void): void {
  draw = drawAll;
  draw();
}

export class Signal<Value> {
  constructor(private held: Value) {}

  get value(): Value {
    return this.held;
  }

  set value(next: Value) {
    if (Object.is(next, this.held)) return;
    this.held = next;
    if (awaited) return;
    awaited = true;
    queueMicrotask(() => {
      awaited = false;
      draw();
    });
  }

  /** The value, where nothing is drawn of it. */
  peek(): Value {
    return this.held;
  }
}

export const signal = <Value>(held: Value): Signal<Value> => new Signal(held);

/** What follows from something else: made anew when `from` gives another value. */
export function computed<From, Value>(from: () => From, make: (from: From) => Value): { readonly value: Value; peek(): Value } {
  let last: { readonly from: From; readonly made: Value } | null = null;
  const peek = () => {
    const now = from();
    if (!last || !Object.is(last.from, now)) last = { from: now, made: make(now) };
    return last.made;
  };
  return { get value() { return peek(); }, peek };
}
