import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Camera } from "../../flamegraph/render/camera.ts";
import { FlameGraphView, type Answers, type DrawnBox, type Picture } from "../../flamegraph/render/flameGraphView.ts";
import { theme } from "../../lib/theme.ts";
import { Hint } from "../ui/Hint.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The host element of a graph; `boxes()` gives its draw list to tests. */
export interface FlameGraphHost extends HTMLDivElement {
  boxes?: () => DrawnBox[];
}

/**
 * One flame graph. `selected` and `hovered` are node numbers, `isLinked` the frames that a table points at, `top` the scrolled pixels, shared by graphs of one tree,
 * as the `camera` is; `onCreated` receives the view, to make picture files of it.
 */
export function FlameGraph({ picture, selected, hovered, isLinked = null, top, camera, onCreated, ...handlers }: Answers & {
  picture: Picture; selected: number; hovered: number; isLinked?: ((node: number) => boolean) | null; top: number; camera?: Camera; onCreated?: (view: FlameGraphView) => void;
}) {
  const host = useRef<FlameGraphHost>(null);
  const view = useRef<FlameGraphView | null>(null);
  const events = useRef<Answers>(handlers);
  events.current = handlers;
  useLayoutEffect(() => {
    const shown = new FlameGraphView(host.current as FlameGraphHost, {
      zoom: (node) => events.current.zoom(node),
      select: (node) => events.current.select(node),
      hover: (node) => events.current.hover(node),
      scroll: (to) => events.current.scroll(to),
      tap: (node) => (events.current.tap ?? events.current.zoom)(node),
      ...(handlers.pin && { pin: (node: number, x: number, y: number) => events.current.pin?.(node, x, y) }),
      ...(handlers.menu && { menu: (node: number, x: number, y: number) => events.current.menu?.(node, x, y) }),
    }, camera);
    view.current = shown;
    onCreated?.(shown);
    (host.current as FlameGraphHost).boxes = () => shown.boxes();
    return () => shown.destroy();
  }, []);
  const shown = theme.value;
  // Before the next key press, or an older selection would undo a newer one.
  useLayoutEffect(() => view.current?.show(picture), [picture]);
  useLayoutEffect(() => view.current?.select(selected), [selected, picture]);
  useLayoutEffect(() => view.current?.highlight(hovered), [hovered]);
  useLayoutEffect(() => view.current?.link(isLinked), [isLinked]);
  useLayoutEffect(() => view.current?.scrollTo(top), [top]);
  // After the header has put the theme's colours in force.
  useEffect(() => view.current?.repaint(), [shown]);
  return <div class="flame-graph"><div class="flame" ref={host} /><Hint id="zoom" text={strings.zoomHint} touchText={strings.zoomTouchHint} /></div>;
}
