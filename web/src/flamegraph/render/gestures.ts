/** The handlers of gestures. Coordinates are pixels of the element; a handler returns false if nothing moved. */
export interface GestureHandlers {
  pan(right: number, down: number): boolean;
  /** Makes what is in view `factor` times as wide, around `x`. */
  zoom(x: number, factor: number): void;
  hover(event: PointerEvent): void;
  leave(): void;
  press(event: MouseEvent, byTouch: boolean): void;
  /** Whether there is a menu for this place. */
  menu(x: number, y: number, event: { clientX: number; clientY: number }): boolean;
}

/** Movements below this many pixels still count as a press. */
const DRAG_THRESHOLD = 5;
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

  constructor(private readonly element: HTMLElement, private readonly handlers: GestureHandlers) {
    const on = <Name extends keyof HTMLElementEventMap>(name: Name, listen: (event: HTMLElementEventMap[Name]) => void) =>
      element.addEventListener(name, listen, { passive: false });
    on("pointerdown", (event) => this.pointerDown(event));
    on("pointermove", (event) => this.pointerMove(event));
    on("pointerup", (event) => this.pointerUp(event));
    on("pointercancel", (event) => this.pointerUp(event));
    on("pointerleave", () => handlers.leave());
    on("touchmove", (event) => {
      if (event.touches.length > 1 && event.cancelable) event.preventDefault();
    });
    on("click", (event) => {
      if (!this.moved) handlers.press(event, this.byTouch);
    });
    on("contextmenu", (event) => {
      this.still();
      // A keyboard's menu key is a key press first, which knows the frame that is selected.
      if ((event.button !== 2 && !this.byTouch) || handlers.menu(event.offsetX, event.offsetY, event)) event.preventDefault();
    });
    on("wheel", (event) => this.wheel(event));
  }

  private pointerDown(event: PointerEvent): void {
    this.byTouch = event.pointerType === "touch";
    this.down.set(event.pointerId, pointOf(event));
    this.still();
    if (this.down.size > 1) {
      this.moved = true;
      return;
    }
    this.start = pointOf(event);
    this.moved = false;
    const { offsetX, offsetY, clientX, clientY } = event;
    if (this.byTouch) {
      this.pressing = window.setTimeout(() => {
        this.moved = this.handlers.menu(offsetX, offsetY, { clientX, clientY });
      }, LONG_PRESS_MS);
    }
  }

  private pointerMove(event: PointerEvent): void {
    const previous = this.down.get(event.pointerId);
    if (!previous || event.buttons === 0) {
      this.down.delete(event.pointerId);
      if (event.pointerType !== "touch") this.handlers.hover(event);
      return;
    }
    const now = pointOf(event);
    if (!this.moved && Math.hypot(now.x - this.start.x, now.y - this.start.y) < DRAG_THRESHOLD) return;
    this.still();
    const others = [...this.down].filter(([id]) => id !== event.pointerId);
    this.down.set(event.pointerId, now);
    if (others.length > 0) this.pinch(others[0][1], previous, now);
    else if (event.buttons === 1 && this.handlers.pan(now.x - previous.x, this.byTouch ? 0 : now.y - previous.y)) {
      this.moved = true;
      if (this.element.isConnected) this.element.setPointerCapture(event.pointerId);
      this.handlers.leave();
    }
  }

  private pinch(other: { x: number; y: number }, previous: { x: number; y: number }, now: { x: number; y: number }): void {
    const distance = (point: { x: number; y: number }) => Math.max(Math.hypot(point.x - other.x, point.y - other.y), 20);
    const left = this.element.getBoundingClientRect().left;
    this.handlers.pan((now.x - previous.x) / 2, 0);
    this.handlers.zoom((now.x + other.x) / 2 - left, distance(previous) / distance(now));
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
      this.handlers.zoom(event.offsetX, Math.exp(Math.abs(by) < 50 ? by / 100 : by / 400));
      return;
    }
    const right = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
    if (Math.abs(right) > Math.abs(event.shiftKey ? 0 : event.deltaY) && this.handlers.pan(-right * unit, 0)) event.preventDefault();
  }

  private still(): void {
    window.clearTimeout(this.pressing);
  }
}

const pointOf = ({ clientX, clientY }: PointerEvent) => ({ x: clientX, y: clientY });
