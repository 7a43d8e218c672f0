import { css, fromCss, type Rgb } from "./colour.ts";
import { Camera, zoomed } from "./camera.ts";
import { draw, FONT, FillColours, Raster, ROW_PIXELS, type Scene } from "./draw.ts";
import { Gestures } from "./gestures.ts";
import { boxAt, boxOf, Layout, turnUpward, type Boxes, type Range } from "./layout.ts";
import { Minimap } from "./minimap.ts";
import type { FlameGraphEvents, DrawnBox, VisibleGraph, Picture } from "./picture.ts";
import { Tooltip } from "./tooltip.ts";
import { nextFrame, type ArrowStep } from "./walk.ts";
import * as strings from "../../strings/frameStrings.ts";

export type { FlameGraphEvents as Answers, DrawnBox, VisibleGraph as InView, Picture } from "./picture.ts";

const ARROWS: Record<string, ArrowStep> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const UPWARD_ARROWS: Record<string, ArrowStep> = { ...ARROWS, ArrowUp: "down", ArrowDown: "up" };

/** How long a zoom moves, where motion is welcome. */
const MOTION_MS = 160;

/** A flame graph in a host element: one canvas the size of what is in view, inside a scrolling box, under a minimap. */
export class FlameGraphView {
  private readonly scroller = createElement("div", "flame-scroll");
  private readonly spacer = createElement("div", "flame-spacer");
  private readonly canvas = document.createElement("canvas");
  private readonly tooltip: Tooltip;
  private readonly minimap: Minimap;
  private readonly context: CanvasRenderingContext2D;
  private readonly observer: ResizeObserver;
  private readonly unsubscribe: () => void;
  private readonly characterWidth: number;
  private picture: Picture | null = null;
  private layout: Layout | null = null;
  private placed: Boxes | null = null;
  private theme: { readonly fills: FillColours; readonly outline: Rgb } | null = null;
  private raster: Raster | null = null;
  private size = { width: 0, height: 0, ratio: 0 };
  private selected = 0;
  private hovered = -1;
  private isLinked: ((node: number) => boolean) | null = null;
  private frame = 0;
  private scrolledTo = 0;
  /** What is on the canvas, and the zoom it moves in. */
  private range: Range = { from: 0, span: 0 };
  private motion: { readonly from: Range; start: number } | null = null;
  private stale = false;
  private rows = 0;
  private pendingPointer: PointerEvent | null = null;
  /** Whether the selection was made by a finger: a second tap on it zooms. */
  private isTouchSelection = false;

  constructor(private readonly host: HTMLElement, private readonly answers: FlameGraphEvents, private readonly camera = new Camera()) {
    this.tooltip = new Tooltip(answers.pin !== undefined);
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", strings.roleDescription);
    this.minimap = new Minimap(
      (range) => this.moveTo(range),
      (part) => (this.scroller.scrollTop = part * (this.scroller.scrollHeight + this.base * ROW_PIXELS) - (this.picture?.isUpward ? 0 : this.base * ROW_PIXELS)),
    );
    this.spacer.append(this.canvas);
    this.scroller.append(this.spacer);
    // Beside the host: the graph itself stays one canvas.
    this.host.before(this.minimap.element);
    this.host.append(this.scroller, this.tooltip.element);
    this.context = this.canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
    this.context.font = FONT;
    this.characterWidth = this.context.measureText("mmmmmmmmmm").width / 10;
    this.scroller.addEventListener("scroll", () => this.scrolled());
    new Gestures(this.canvas, {
      pan: (right, down) => this.pan(right, down),
      zoom: (x, factor) => this.moveTo(zoomed(this.target(), x / this.size.width, factor)),
      hover: (event) => this.pointAt(event),
      leave: () => this.hover(-1),
      press: (event, byTouch) => this.press(event, byTouch),
      menu: (x, y, event) => this.menu(this.nodeAt(x, y), event.clientX, event.clientY),
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.request());
    this.canvas.addEventListener("blur", () => this.request());
    this.unsubscribe = camera.listen((smooth) => this.moveToTarget(smooth));
    // It also tells the size that there was to begin with.
    this.observer = new ResizeObserver(() => {
      const { width, height, ratio } = this.size;
      if (width !== this.scroller.clientWidth || height !== this.scroller.clientHeight || ratio !== (window.devicePixelRatio || 1)) this.resize();
    });
    this.observer.observe(this.scroller);
  }

  show(picture: Picture): void {
    const before = this.picture;
    const isOtherTree = before?.tree !== picture.tree;
    const moved = isOtherTree || before?.focus !== picture.focus || before.base !== picture.base || before.isUpward !== picture.isUpward;
    this.picture = picture;
    this.canvas.setAttribute("aria-label", picture.label);
    if (isOtherTree || before.total !== picture.total) this.layout = new Layout(picture.tree.level, picture.shape, picture.total);
    if (moved) this.selected = picture.focus;
    if (moved) {
      // What the pointer is over lies elsewhere now, and its numbers are others.
      this.hovered = -1;
      this.tooltip.hide();
    }
    if (moved && !isOtherTree && this.placed) this.moveToTarget(true);
    this.resize();
    // To read how far it has scrolled would lay the page out once more.
    if (moved && (before || picture.focus > 0 || picture.isUpward)) this.reveal(picture.focus);
  }

  /** Selects a frame from outside (search, the other side) and brings it into view. */
  select(node: number): void {
    if (node === this.selected) return;
    this.selected = node;
    this.reveal(node);
    this.request();
  }

  highlight(node: number): void {
    if (node === this.hovered) return;
    this.hovered = node;
    this.request();
  }

  /** Marks the frames that something beside the graph points at. */
  link(isLinked: ((node: number) => boolean) | null): void {
    if (isLinked === this.isLinked) return;
    this.isLinked = isLinked;
    this.request();
  }

  /** Scrolls as the graph beside it did, as far as this one goes. */
  scrollTo(top: number): void {
    this.scroller.scrollTop = top;
    this.scrolledTo = this.scroller.scrollTop;
  }

  /** Paints again in the host's present colours. */
  repaint(): void {
    this.theme = null;
    this.request();
  }

  /** Keeps the tooltip of the frame under the pointer, or else of the selected one, where it is. */
  pin(): void {
    const place = this.tooltip.place();
    if (place) this.pinAt(this.hovered, place.x, place.y);
    else this.pinAt(this.selected, ...this.below(this.selected));
  }

  get isPointedAt(): boolean {
    return this.tooltip.place() !== null;
  }

  focus(): void {
    this.canvas.focus({ preventScroll: true });
  }

  boxes(): DrawnBox[] {
    const { picture } = this;
    this.settle();
    const placed = this.placed;
    if (!picture || !placed) return [];
    return Array.from(placed.node, (node, i) => {
      const style = picture.style(node);
      return {
        name: picture.tree.names[picture.tree.name[node]],
        level: picture.isUpward ? this.rows - 1 - placed.level[i] : placed.level[i],
        row: placed.level[i],
        x: Math.round(placed.x[i] * 100) / 100,
        width: Math.round(placed.width[i] * 100) / 100,
        fill: css(style.fill),
        hatch: style.hatch,
        hit: picture.hit !== null && picture.hit[node] === 1,
        ...(picture.isNoted?.(node) && { isNoted: true }),
      };
    });
  }

  /** What a picture file is made of: the boxes in view, where they lie and what they are called. */
  visible(): VisibleGraph | null {
    this.settle();
    const { picture, placed, scroller, size } = this;
    return picture && placed && { picture, boxes: placed, width: size.width, top: scroller.scrollTop, height: size.height, focusRow: this.rowOf(picture.focus) };
  }

  destroy(): void {
    this.unsubscribe();
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.minimap.element.remove();
    this.host.replaceChildren();
  }

  private get base(): number {
    return this.picture?.base ?? 0;
  }

  /** The row of a node, drawn or not. */
  private rowOf(node: number): number {
    const level = Math.max((this.picture?.tree.level[node] ?? 0) - this.base, 0);
    return this.picture?.isUpward ? Math.max(this.rows - 1 - level, 0) : level;
  }

  /** What is to be in view once nothing moves any more. */
  private target(): Range {
    const { picture, layout, camera } = this;
    if (!picture || !layout) return this.range;
    return camera.range(layout.rangeOf(picture.focus), picture.total[0]);
  }

  private moveTo(range: Range): void {
    const { picture, layout, camera } = this;
    if (picture && layout && this.size.width > 0) camera.show(range, layout.rangeOf(picture.focus), picture.total[0]);
  }

  /** Goes to the target: in a motion, or with the next frame. */
  private moveToTarget(smooth: boolean): void {
    const isInstant = !smooth || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.motion = isInstant || this.range.span <= 0 || this.target().span <= 0 ? null : { from: this.range, start: 0 };
    this.stale = true;
    this.request();
  }

  /** Ends a motion where it leads: what is asked for is where things will lie. */
  private settle(): void {
    if (!this.stale) return;
    this.motion = null;
    this.computeBoxes(this.target());
    this.request();
  }

  private resize(): void {
    const { picture, scroller, canvas, context } = this;
    const width = scroller.clientWidth;
    if (!picture || width === 0) return;
    if (!this.motion) this.computeBoxes(this.target(), width);
    const height = scroller.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    const { size } = this;
    if (width !== size.width || height !== size.height || ratio !== size.ratio) {
      this.size = { width, height, ratio };
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      this.raster = new Raster(context, canvas.width, canvas.height);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.paint();
  }

  /** Computes the boxes of a range. */
  private computeBoxes(range: Range, width = this.size.width): void {
    const { picture, layout, spacer } = this;
    if (!picture || !layout || width === 0) return;
    this.placed = layout.place(range, width, picture.marksBefore, picture.focus, this.base);
    this.range = range;
    this.stale = this.motion !== null;
    // While it moves the graph only grows: a box that shrinks under a pointer would scroll.
    this.rows = this.stale || this.camera.moved ? Math.max(this.rows, this.placed.rows) : this.placed.rows;
    const { scroller } = this;
    const isUpward = picture.isUpward === true;
    if (isUpward) {
      this.rows = Math.max(this.rows, Math.floor(scroller.clientHeight / ROW_PIXELS));
      this.placed = turnUpward(this.placed, this.rows);
    }
    const tall = `${this.rows * ROW_PIXELS}px`;
    if (spacer.style.height === tall) return;
    // Rows are counted from the bottom: what is in view keeps its place there.
    const below = isUpward ? scroller.scrollHeight - scroller.scrollTop : 0;
    spacer.style.height = tall;
    if (isUpward) scroller.scrollTop = scroller.scrollHeight - below;
  }

  private request(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((now) => this.paint(now));
  }

  private paint(now = performance.now()): void {
    const { picture, layout, size, scroller } = this;
    if (!picture || !layout || size.width === 0) return;
    if (this.motion) this.move(this.motion, now);
    else if (this.stale) this.computeBoxes(this.target());
    const { placed, raster } = this;
    if (!placed || !raster) return;
    this.theme ??= readTheme(this.host);
    const { fills, outline } = this.theme;
    const scene: Scene = {
      boxes: placed, style: picture.style, hit: picture.hit, focusLevel: this.rowOf(picture.focus), isUpward: picture.isUpward,
      isLinked: this.isLinked, isNoted: picture.isNoted, selected: this.outlinedNode(), hovered: this.hovered,
    };
    const top = scroller.scrollTop;
    draw(this.context, scene, { width: size.width, height: size.height, scroll: top, characterWidth: this.characterWidth, ratio: size.ratio, outline, colours: fills, raster });
    this.canvas.dataset.drawn = String(placed.count);
    this.showMinimap(picture);
  }

  /** The minimap, where the whole is not in view. Its picture of another tree comes after that of the graph. */
  private showMinimap(picture: Picture): void {
    const { size, minimap, scroller, theme } = this;
    const range = this.target();
    const total = picture.total[0];
    const tall = this.rows * ROW_PIXELS;
    const whole = range.span <= 0 || range.span >= total;
    if (!theme || (whole && tall <= size.height)) {
      minimap.show(null);
      return;
    }
    const paint = minimap.painter(picture, size.width, size.ratio, theme.fills.background);
    if (paint) {
      requestAnimationFrame(() => requestIdle(() => {
        paint();
        if (this.picture) this.showMinimap(this.picture);
      }));
    }
    // Zoomed in, frames show that are too narrow for the strip and may lie deeper.
    const bottom = picture.isUpward ? Math.max(tall - scroller.scrollTop - size.height, 0) + this.base * ROW_PIXELS : 0;
    const above = scroller.scrollTop + this.base * ROW_PIXELS;
    const rows = Math.max(minimap.rows * ROW_PIXELS, (picture.isUpward ? bottom : above) + size.height);
    const top = picture.isUpward ? rows - bottom - size.height : above;
    minimap.show({ range: range.span > 0 ? range : { from: 0, span: total }, total, top: top / rows, height: size.height / rows });
  }

  private move(motion: { readonly from: Range; start: number }, now: number): void {
    motion.start ||= now;
    const part = Math.min(Math.max((now - motion.start) / MOTION_MS, 0), 1);
    const to = this.target();
    if (part === 1) {
      this.motion = null;
      this.computeBoxes(to);
      if (this.pendingPointer) this.pointAt(this.pendingPointer);
      return;
    }
    const eased = 1 - (1 - part) ** 3;
    const { from } = motion;
    this.computeBoxes({ from: from.from + (to.from - from.from) * eased, span: from.span + (to.span - from.span) * eased });
    this.request();
  }

  private scrolled(): void {
    this.request();
    if (Math.abs(this.scroller.scrollTop - this.scrolledTo) < 1) return;
    this.scrolledTo = this.scroller.scrollTop;
    this.answers.scroll(this.scrolledTo);
  }

  /** The selection, once a person has made one or may be walking with the arrows. */
  private outlinedNode(): number {
    return this.selected !== this.picture?.focus || document.activeElement === this.canvas ? this.selected : -1;
  }

  private nodeAt(x: number, y: number): number {
    this.settle();
    if (!this.placed) return -1;
    const box = boxAt(this.placed, x, Math.floor((y + this.scroller.scrollTop) / ROW_PIXELS));
    return box < 0 ? -1 : this.placed.node[box];
  }

  private pointAt(event: PointerEvent): void {
    // Where things will lie is not what a pointer is over while they move.
    this.pendingPointer = this.motion ? event : null;
    if (this.motion) return;
    const node = this.nodeAt(event.offsetX, event.offsetY);
    this.canvas.classList.toggle("pointing", node >= 0);
    this.hover(node);
    if (node >= 0) this.tooltip.placeBy(event);
  }

  private hover(node: number): void {
    if (node < 0) this.pendingPointer = null;
    if (node !== this.hovered) {
      this.hovered = node;
      this.answers.hover(node);
      this.request();
      if (node >= 0) this.tooltip.show((this.picture as Picture).describe(node));
    }
    if (node < 0) this.tooltip.hide();
  }

  private press(event: MouseEvent, byTouch: boolean): void {
    const node = this.nodeAt(event.offsetX, event.offsetY);
    if (node < 0) return;
    if (event.shiftKey && this.answers.pin) return this.pinAt(node, event.clientX, event.clientY);
    const again = node === this.selected && this.isTouchSelection;
    this.isTouchSelection = byTouch;
    this.choose(node);
    if (byTouch && !again) this.answers.tap?.(node);
    else this.answers.zoom(node);
  }

  private pan(right: number, down: number): boolean {
    const { scroller, size } = this;
    const before = this.target();
    this.moveTo({ from: before.from - (right / size.width) * before.span, span: before.span });
    const top = scroller.scrollTop;
    scroller.scrollTop = top - down;
    return Math.abs(this.target().from - before.from) > before.span * 1e-9 || scroller.scrollTop !== top;
  }

  private menu(node: number, x: number, y: number): boolean {
    if (node < 0 || !this.answers.menu) return false;
    this.hover(-1);
    this.choose(node);
    this.answers.menu(node, x, y);
    return true;
  }

  private key(event: KeyboardEvent): void {
    const { picture } = this;
    if (!picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (picture.isUpward ? UPWARD_ARROWS : ARROWS)[event.key];
    const side = step === "left" ? 1 : step === "right" ? -1 : 0;
    if (event.shiftKey && side !== 0) this.pan((side * this.size.width) / 10, 0);
    else if (step) this.choose(nextFrame(picture.shape, picture.total, this.selected, step));
    else if (event.key === "Enter") this.answers.zoom(this.selected);
    else if (event.key === "Home") this.choose(picture.focus);
    else if (event.key === "+" || event.key === "=") this.zoomBy(0.8);
    else if (event.key === "-") this.zoomBy(1.25);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) this.menu(this.selected, ...this.below(this.selected));
    else return;
    event.preventDefault();
  }

  /** Zooms around the selected frame. */
  private zoomBy(factor: number): void {
    const range = this.target();
    const at = this.layout?.rangeOf(this.selected) ?? range;
    const middle = (Math.max(at.from, range.from) + Math.min(at.from + at.span, range.from + range.span)) / 2;
    this.moveTo(zoomed(range, Math.min(Math.max((middle - range.from) / range.span, 0), 1), factor));
  }

  /** Where on the screen a frame's box ends below. */
  private below(node: number): [x: number, y: number] {
    this.settle();
    const box = this.placed ? boxOf(this.placed, node) : -1;
    const { left, top } = this.canvas.getBoundingClientRect();
    const x = box < 0 || !this.placed ? 0 : this.placed.x[box] + Math.min(this.placed.width[box] / 2, 40);
    const y = box < 0 || !this.placed ? 0 : (this.placed.level[box] + 1) * ROW_PIXELS - this.scroller.scrollTop;
    return [left + x, top + y];
  }

  private pinAt(node: number, x: number, y: number): void {
    if (node < 0 || !this.answers.pin) return;
    this.hover(-1);
    this.choose(node);
    this.answers.pin(node, x, y);
  }

  private choose(node: number): void {
    this.selected = node;
    this.reveal(node, true);
    this.request();
    this.answers.select(node);
  }

  private reveal(node: number, across = this.camera.moved): void {
    const { layout, scroller } = this;
    const at = layout?.rangeOf(node);
    const visible = this.target();
    if (at && across && at.span > 0 && (at.from >= visible.from + visible.span || at.from + at.span <= visible.from)) {
      this.moveTo({ from: at.from + (at.span - visible.span) / 2, span: visible.span });
    }
    const top = this.rowOf(node) * ROW_PIXELS;
    const { scrollTop, clientHeight } = scroller;
    if (top >= scrollTop && top + ROW_PIXELS <= scrollTop + clientHeight) return;
    scroller.scrollTop = Math.max(top - (this.picture?.isUpward ? (clientHeight * 2) / 3 : clientHeight / 3), 0);
  }
}

/** Between two frames; not every browser tells when nothing else is to be done. */
const requestIdle: (work: () => void) => unknown = window.requestIdleCallback ?? setTimeout;

function createElement(tag: string, className: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  return element;
}

function readTheme(host: HTMLElement): { fills: FillColours; outline: Rgb } {
  const style = getComputedStyle(host);
  return { fills: new FillColours(fromCss(style.getPropertyValue("--panel"))), outline: fromCss(style.getPropertyValue("--text")) };
}
