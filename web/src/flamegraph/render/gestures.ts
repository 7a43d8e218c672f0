/** What hands do to a graph. Pixels are those of the element; what moved nothing gives back false. */
export interface Moves {
  pan(right: number, down: number): boolean;
  /** Makes what is in view `factor` times as wide, around `x`. */
  zoom(x: number, factor: number): void;
  hover(event: PointerEvent): void;
  leave(): void;
  press(event: MouseEvent, byTouch: boolean): void;
  /** Whether there is a menu for this place. */
  menu(x: number, y: number, event: { clientX: number; clientY: number }): boolean;
}

/** Below this many pixels a press is one even if the hand was not still. */
const STILL = 5;
const LONG_PRESS_MS = 500;

/**
 * Mouse, pen, fingers and wheel on one element, told as moves.
 *
 * A wheel without Ctrl, and one finger up or down, scroll the page as everywhere (the element's `touch-action` is
 * `pan-y`). Ctrl and wheel, which is also what a pinch on a touchpad sends, and two fingers zoom.
 */
export class Gestures {
  private readonly down = new Map<number, { x: number; y: number }>();
  private start = { x: 0, y: 0 };
  private moved = false;
  private byTouch = false;
  private pressing = 0;

  constructor(private readonly element: HTMLElement, private readonly moves: Moves) {
    const on = <Name extends keyof HTMLElementEventMap>(name: Name, listen: (event: HTMLElementEventMap[Name]) => void) =>
      element.addEventListener(name, listen, { passive: false });
    on("pointerdown", (event) => this.pointerDown(event));
    on("pointermove", (event) => this.pointerMove(event));
    on("pointerup", (event) => this.pointerUp(event));
    on("pointercancel", (event) => this.pointerUp(event));
    on("pointerleave", () => moves.leave());
    on("touchmove", (event) => {
      if (event.touches.length > 1 && event.cancelable) event.preventDefault();
    });
    on("click", (event) => {
      if (!this.moved) moves.press(event, this.byTouch);
    });
    on("contextmenu", (event) => {
      this.still();
      // A keyboard's menu key is a key press first, which knows the frame that is selected.
      if ((event.button !== 2 && !this.byTouch) || moves.menu(event.offsetX, event.offsetY, event)) event.preventDefault();
    });
    on("wheel", (event) => this.wheel(event));
  }

  private pointerDown(event: PointerEvent): void {
    this.byTouch = event.pointerType === "touch";
    this.down.set(event.pointerId, at(event));
    this.still();
    if (this.down.size > 1) {
      this.moved = true;
      return;
    }
    this.start = at(event);
    this.moved = false;
    const { offsetX, offsetY, clientX, clientY } = event;
    if (this.byTouch) {
      this.pressing = window.setTimeout(() => {
        this.moved = this.moves.menu(offsetX, offsetY, { clientX, clientY });
      }, LONG_PRESS_MS);
    }
  }

  private pointerMove(event: PointerEvent): void {
    const before = this.down.get(event.pointerId);
    if (!before || event.buttons === 0) {
      this.down.delete(event.pointerId);
      if (event.pointerType !== "touch") this.moves.hover(event);
      return;
    }
    const now = at(event);
    if (!this.moved && Math.hypot(now.x - this.start.x, now.y - this.start.y) < STILL) return;
    this.still();
    const others = [...this.down].filter(([id]) => id !== event.pointerId);
    this.down.set(event.pointerId, now);
    if (others.length > 0) this.pinch(others[0][1], before, now);
    else if (event.buttons === 1 && this.moves.pan(now.x - before.x, this.byTouch ? 0 : now.y - before.y)) {
      this.moved = true;
      if (this.element.isConnected) this.element.setPointerCapture(event.pointerId);
      this.moves.leave();
    }
  }

  private pinch(other: { x: number; y: number }, before: { x: number; y: number }, now: { x: number; y: number }): void {
    const apart = (point: { x: number; y: number }) => Math.max(Math.hypot(point.x - other.x, point.y - other.y), 20);
    const left = this.element.getBoundingClientRect().left;
    this.moves.pan((now.x - before.x) / 2, 0);
    this.moves.zoom((now.x + other.x) / 2 - left, apart(before) / apart(now));
  }

  private pointerUp(event: PointerEvent): void {
    this.down.delete(event.pointerId);
    this.still();
  }

  private wheel(event: WheelEvent): void {
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : event.deltaMode === WheelEvent.DOM_DELTA_PAGE ? 400 : 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const by = event.deltaY * unit;
      // A touchpad tells a pinch in small steps, a wheel in notches of a hundred or more.
      this.moves.zoom(event.offsetX, Math.exp(Math.abs(by) < 50 ? by / 100 : by / 400));
      return;
    }
    const right = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (Math.abs(right) > Math.abs(event.shiftKey ? 0 : event.deltaY) && this.moves.pan(-right * unit, 0)) event.preventDefault();
  }

  private still(): void {
    window.clearTimeout(this.pressing);
  }
}

const at = ({ clientX, clientY }: PointerEvent) => ({ x: clientX, y: clientY });
