import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { FlameView, type DrawnBox, type Picture } from "../flame/view.ts";
import { theme } from "../theme.ts";

/** The host element of a graph; `boxes()` gives its draw list to tests. */
export interface FlameHost extends HTMLDivElement {
  boxes?: () => DrawnBox[];
}

/** One flame graph. `selected` and `hovered` are node numbers, `top` the scrolled pixels, shared by graphs of one tree. */
export function Graph({ picture, selected, hovered, zoom, select, hover, scroll, top }: {
  picture: Picture; selected: number; hovered: number;
  zoom: (node: number) => void; select: (node: number) => void; hover: (node: number) => void;
  scroll: (top: number) => void; top: number;
}) {
  const host = useRef<FlameHost>(null);
  const view = useRef<FlameView | null>(null);
  const answers = useRef({ zoom, select, hover, scroll });
  answers.current = { zoom, select, hover, scroll };
  useLayoutEffect(() => {
    const made = new FlameView(host.current as FlameHost, {
      zoom: (node) => answers.current.zoom(node),
      select: (node) => answers.current.select(node),
      hover: (node) => answers.current.hover(node),
      scroll: (to) => answers.current.scroll(to),
    });
    view.current = made;
    (host.current as FlameHost).boxes = () => made.boxes();
    return () => made.destroy();
  }, []);
  const shown = theme.value;
  // Before the next key press, or an older selection would undo a newer one.
  useLayoutEffect(() => view.current?.show(picture), [picture]);
  useLayoutEffect(() => view.current?.select(selected), [selected, picture]);
  useLayoutEffect(() => view.current?.highlight(hovered), [hovered]);
  useLayoutEffect(() => view.current?.scrollTo(top), [top]);
  // After the header has put the theme's colours in force.
  useEffect(() => view.current?.repaint(), [shown]);
  return <div class="flame" ref={host} />;
}
