import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Camera } from "../../flamegraph/render/camera.ts";
import { FlameView, type Answers, type DrawnBox, type Picture } from "../../flamegraph/render/flameGraphView.ts";
import { theme } from "../../lib/theme.ts";

/** The host element of a graph; `boxes()` gives its draw list to tests. */
export interface FlameHost extends HTMLDivElement {
  boxes?: () => DrawnBox[];
}

/**
 * One flame graph. `selected` and `hovered` are node numbers, `top` the scrolled pixels, shared by graphs of one tree,
 * as the `camera` is; `made` is told the view, for pictures of it.
 */
export function Graph({ picture, selected, hovered, top, camera, made, ...given }: Answers & {
  picture: Picture; selected: number; hovered: number; top: number; camera?: Camera; made?: (view: FlameView) => void;
}) {
  const host = useRef<FlameHost>(null);
  const view = useRef<FlameView | null>(null);
  const answers = useRef<Answers>(given);
  answers.current = given;
  useLayoutEffect(() => {
    const shown = new FlameView(host.current as FlameHost, {
      zoom: (node) => answers.current.zoom(node),
      select: (node) => answers.current.select(node),
      hover: (node) => answers.current.hover(node),
      scroll: (to) => answers.current.scroll(to),
      tap: (node) => (answers.current.tap ?? answers.current.zoom)(node),
      ...(given.menu && { menu: (node: number, x: number, y: number) => answers.current.menu?.(node, x, y) }),
    }, camera);
    view.current = shown;
    made?.(shown);
    (host.current as FlameHost).boxes = () => shown.boxes();
    return () => shown.destroy();
  }, []);
  const shown = theme.value;
  // Before the next key press, or an older selection would undo a newer one.
  useLayoutEffect(() => view.current?.show(picture), [picture]);
  useLayoutEffect(() => view.current?.select(selected), [selected, picture]);
  useLayoutEffect(() => view.current?.highlight(hovered), [hovered]);
  useLayoutEffect(() => view.current?.scrollTo(top), [top]);
  // After the header has put the theme's colours in force.
  useEffect(() => view.current?.repaint(), [shown]);
  return <div class="flame-graph"><div class="flame" ref={host} /></div>;
}
