import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { largestDifferences } from "../../flamegraph/analysis/groupTrees.ts";
import { computeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { fromCss } from "../../flamegraph/render/colour.ts";
import { changeStyles } from "../../flamegraph/render/colourSchemes.ts";
import { draw, FillColours, FONT, Raster, ROW_PIXELS } from "../../flamegraph/render/draw.ts";
import { Layout } from "../../flamegraph/render/layout.ts";
import { firstLevel } from "../../flamegraph/tree/focus.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import type { Tree } from "../../flamegraph/tree/tree.ts";
import { signed } from "../../lib/numbers.ts";
import { theme } from "../../lib/theme.ts";
import { useElementWidth } from "../ui/useElementWidth.ts";
import * as strings from "../../strings/profileStrings.tsx";

const ROWS = 7;

/** A group's graph in the colours of its difference to all of the profile, which is side A of the tree; and that difference in words. */
export function SmallGraph({ tree, name }: { tree: Tree; name: string }) {
  const host = useRef<HTMLDivElement>(null);
  const width = useElementWidth(host);
  const canvas = useRef<HTMLCanvasElement>(null);
  const metrics = useMemo(() => computeMetrics(tree, [0, 0], { invert: false, collapse: false, norm: "share" }), [tree]);
  const differences = useMemo(() => largestDifferences(metrics, 3), [metrics]);
  const shown = theme.value;
  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d", { alpha: false });
    if (!element || !context || width < 10) return;
    const ratio = window.devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(ROWS * ROW_PIXELS * ratio);
    context.font = FONT;
    const characterWidth = context.measureText("mmmmmmmmmm").width / 10;
    const total = metrics.us[1];
    const base = firstLevel(tree, metrics.shape, total, 0);
    const boxes = new Layout(tree.level, metrics.shape, total).place({ from: 0, span: total[0] }, width, null, 0, base);
    const raster = new Raster(context, element.width, element.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(element);
    draw(context, { boxes, style: changeStyles(metrics), hit: null, focusLevel: 0, selected: -1, hovered: -1 }, {
      width, height: ROWS * ROW_PIXELS, scroll: 0, characterWidth, ratio, outline: fromCss(style.getPropertyValue("--text")),
      colours: new FillColours(fromCss(style.getPropertyValue("--panel"))), raster,
    });
  }, [metrics, width, shown]);
  const points = (delta: number) => signed((delta * 100).toFixed(1), delta);
  const text = differences.length === 0 ? strings.likeTheMean : differences.map(({ name: fn, delta }) => strings.differs(points(delta), frameParts(fn).function.slice(0, 60))).join(", ");
  return (
    <div class="small-graph" ref={host}>
      <canvas ref={canvas} role="img" aria-label={strings.smallGraphOf(name.slice(0, 100), text)} style={{ width: "100%", height: `${ROWS * ROW_PIXELS}px` }} />
      <p class="quiet">{strings.comparedWithMean(text)}</p>
    </div>
  );
}
