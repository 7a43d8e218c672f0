import { css, type Rgb } from "./colour.ts";
import { draw, FONT, ROW_PIXELS, type Look, type Scene } from "./draw.ts";
import { boxAt, layout, type Boxes } from "./layout.ts";
import { Tooltip, type Description } from "./tooltip.ts";
import type { Shape, Tree } from "./tree.ts";
import { walk, type Step } from "./walk.ts";

/** What a flame graph shows. `total` decides widths; everything is per node of `tree`. */
export interface Picture {
  readonly tree: Tree;
  readonly shape: Shape;
  readonly total: Float64Array;
  readonly look: (node: number) => Look;
  readonly describe: (node: number) => Description;
  readonly hit: Uint8Array | null;
  /** `marksBefore[i]` frames that must stay visible lie in front of node i. */
  readonly marksBefore: Uint32Array | null;
  readonly focus: number;
  readonly label: string;
}

export interface Answers {
  /** Enter, a click, or Escape (node 0). */
  zoom(node: number): void;
  select(node: number): void;
  hover(node: number): void;
  /** A person scrolled to this many pixels below the top. */
  scroll(top: number): void;
}

/** One entry of the draw list, for tests and for reading a picture without eyes. */
export interface DrawnBox {
  readonly name: string;
  readonly level: number;
  readonly x: number;
  readonly width: number;
  readonly fill: string;
  readonly hatch: string;
  readonly hit: boolean;
}

const ARROWS: Record<string, Step> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };

/** A flame graph in a host element: one canvas the size of what is in view, inside a scrolling box. */
export class FlameView {
  private readonly scroller = element("div", "flame-scroll");
  private readonly spacer = element("div", "flame-spacer");
  private readonly canvas = document.createElement("canvas");
  private readonly tooltip = new Tooltip();
  private readonly context: CanvasRenderingContext2D;
  private readonly watch: ResizeObserver;
  private readonly characterWidth: number;
  private picture: Picture | null = null;
  private placed: Boxes | null = null;
  private selected = 0;
  private hovered = -1;
  private frame = 0;
  private scrolledTo = 0;

  constructor(private readonly host: HTMLElement, private readonly answers: Answers) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "flame graph");
    this.spacer.append(this.canvas);
    this.scroller.append(this.spacer);
    this.host.append(this.scroller, this.tooltip.element);
    this.context = this.canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
    this.context.font = FONT;
    this.characterWidth = this.context.measureText("mmmmmmmmmm").width / 10;
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.canvas.addEventListener("pointermove", (event) => this.pointAt(event));
    this.canvas.addEventListener("pointerleave", () => this.hover(-1));
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.request());
    this.canvas.addEventListener("blur", () => this.request());
    this.watch = new ResizeObserver(() => this.place());
    this.watch.observe(this.scroller);
  }

  show(picture: Picture): void {
    const other = this.picture?.tree !== picture.tree;
    const moved = other || this.picture?.focus !== picture.focus;
    this.picture = picture;
    this.canvas.setAttribute("aria-label", picture.label);
    if (moved) this.selected = picture.focus;
    if (other) this.hovered = -1;
    this.place();
    if (moved) this.reveal(picture.focus);
  }

  /** Selects a frame from outside (search, the other side) and scrolls it into view. */
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

  /** Scrolls as the graph beside it did, as far as this one goes. */
  scrollTo(top: number): void {
    this.scroller.scrollTop = top;
    this.scrolledTo = this.scroller.scrollTop;
  }

  /** Paints again in the host's present colours. */
  repaint(): void {
    this.request();
  }

  boxes(): DrawnBox[] {
    const { picture, placed } = this;
    if (!picture || !placed) return [];
    return Array.from(placed.node, (node, i) => {
      const look = picture.look(node);
      return {
        name: picture.tree.names[picture.tree.name[node]],
        level: placed.level[i],
        x: Math.round(placed.x[i] * 100) / 100,
        width: Math.round(placed.width[i] * 100) / 100,
        fill: css(look.fill),
        hatch: look.hatch,
        hit: picture.hit !== null && picture.hit[node] === 1,
      };
    });
  }

  destroy(): void {
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
    this.host.replaceChildren();
  }

  /** Computes the boxes for the present width. */
  private place(): void {
    const { picture } = this;
    const width = this.scroller.clientWidth;
    if (!picture || width === 0) return;
    this.placed = layout(picture.tree.level, picture.shape, picture.total, picture.focus, width, picture.marksBefore);
    this.spacer.style.height = `${this.placed.rows * ROW_PIXELS}px`;
    const height = this.scroller.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint();
  }

  private request(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const { picture, placed } = this;
    if (!picture || !placed) return;
    const style = getComputedStyle(this.host);
    const focusLevel = picture.tree.level[picture.focus];
    const scene: Scene = { boxes: placed, look: picture.look, hit: picture.hit, focusLevel, selected: this.outlined(), hovered: this.hovered };
    draw(this.context, scene, {
      width: this.scroller.clientWidth,
      height: this.scroller.clientHeight,
      scroll: this.scroller.scrollTop,
      characterWidth: this.characterWidth,
      background: colour(style.getPropertyValue("--panel")),
      outline: colour(style.getPropertyValue("--text")),
    });
    this.canvas.dataset.drawn = String(placed.count);
  }

  private scrolled(): void {
    this.request();
    if (Math.abs(this.scroller.scrollTop - this.scrolledTo) < 1) return;
    this.scrolledTo = this.scroller.scrollTop;
    this.answers.scroll(this.scrolledTo);
  }

  /** The selection, once a person has made one or may be walking with the arrows. */
  private outlined(): number {
    return this.selected !== this.picture?.focus || document.activeElement === this.canvas ? this.selected : -1;
  }

  private nodeAt(event: MouseEvent): number {
    if (!this.placed) return -1;
    const row = Math.floor((event.offsetY + this.scroller.scrollTop) / ROW_PIXELS);
    const box = boxAt(this.placed, event.offsetX, row);
    return box < 0 ? -1 : this.placed.node[box];
  }

  private pointAt(event: PointerEvent): void {
    const node = this.nodeAt(event);
    this.canvas.classList.toggle("pointing", node >= 0);
    this.hover(node);
    if (node >= 0) this.tooltip.placeBy(event);
  }

  private hover(node: number): void {
    if (node !== this.hovered) {
      this.hovered = node;
      this.answers.hover(node);
      this.request();
      if (node >= 0) this.tooltip.say((this.picture as Picture).describe(node));
    }
    if (node < 0) this.tooltip.hide();
  }

  private click(event: MouseEvent): void {
    const node = this.nodeAt(event);
    if (node < 0) return;
    this.choose(node);
    this.answers.zoom(node);
  }

  private key(event: KeyboardEvent): void {
    const { picture } = this;
    if (!picture || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = ARROWS[event.key];
    if (step) this.choose(walk(picture.shape, picture.total, this.selected, step));
    else if (event.key === "Enter") this.answers.zoom(this.selected);
    else if (event.key === "Home") this.choose(picture.focus);
    else return;
    event.preventDefault();
  }

  private choose(node: number): void {
    this.select(node);
    this.answers.select(node);
  }

  private reveal(node: number): void {
    const level = this.picture?.tree.level[node] ?? 0;
    const top = level * ROW_PIXELS;
    const { scrollTop, clientHeight } = this.scroller;
    if (top >= scrollTop && top + ROW_PIXELS <= scrollTop + clientHeight) return;
    this.scroller.scrollTop = Math.max(top - clientHeight / 3, 0);
  }
}

function element(tag: string, className: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  return made;
}

/** Reads #rgb and #rrggbb: a build may shorten one to the other. */
function colour(text: string): Rgb {
  const digits = text.trim().slice(1);
  return Number.parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16) || 0;
}
