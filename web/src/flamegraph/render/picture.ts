import type { BoxStyle } from "./draw.ts";
import type { Boxes } from "./layout.ts";
import type { Shape, Tree } from "../tree/tree.ts";
import type { Description } from "../analysis/frameDescription.ts";

/** The content of a flame graph. `total` decides widths; everything is per node of `tree`. */
export interface Picture {
  readonly tree: Tree;
  readonly shape: Shape;
  readonly total: Float64Array;
  readonly style: (node: number) => BoxStyle;
  readonly describe: (node: number) => Description;
  readonly hit: Uint8Array | null;
  /** `marksBefore[i]` frames that must stay visible lie in front of node i. */
  readonly marksBefore: Uint32Array | null;
  readonly focus: number;
  /** The level of the first row, 0 by default: frames above it are named elsewhere. */
  readonly base?: number;
  /** Whether the roots are at the bottom, and callees above their callers. */
  readonly isUpward?: boolean;
  readonly label: string;
  /** The frames that somebody wrote a note on. */
  readonly isNoted?: ((node: number) => boolean) | null;
}

/** The visible part of a graph, from which picture files are made. */
export interface VisibleGraph {
  readonly picture: Picture;
  readonly boxes: Boxes;
  readonly width: number;
  /** The pixels in view, of all rows. */
  readonly top: number;
  readonly height: number;
  /** The row of the frame that is zoomed into. */
  readonly focusRow: number;
}

export interface FlameGraphEvents {
  /** Enter, a click, or a second tap. */
  zoom(node: number): void;
  select(node: number): void;
  hover(node: number): void;
  /** A person scrolled to this many pixels below the top. */
  scroll(top: number): void;
  /** A finger chose a frame: there is no pointer that could show its numbers. */
  tap?(node: number): void;
  /** A right click, a long press or the menu key on a frame; where on the screen. */
  menu?(node: number, x: number, y: number): void;
  /** A key, or a click with Shift, keeps the tooltip of a frame; where on the screen. */
  pin?(node: number, x: number, y: number): void;
}

/** One entry of the draw list, for tests and for reading a picture without eyes. */
export interface DrawnBox {
  readonly name: string;
  /** Below the first frame that is drawn. */
  readonly level: number;
  /** From the top, as it is drawn. */
  readonly row: number;
  readonly x: number;
  readonly width: number;
  readonly fill: string;
  readonly hatch: string;
  readonly hit: boolean;
  /** Only where it is. */
  readonly isNoted?: true;
}
