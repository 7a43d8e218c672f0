import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

/** The width inside an element in pixels, as it changes; 0 before it is known. */
export function useWidth(of: RefObject<HTMLElement | null>): number {
  const [width, measure] = useState(0);
  useLayoutEffect(() => {
    const at = of.current as HTMLElement;
    const look = () => measure(at.clientWidth);
    const watch = new ResizeObserver(look);
    watch.observe(at);
    look();
    return () => watch.disconnect();
  }, []);
  return width;
}
