import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

/** The width inside an element in pixels, as it changes; 0 before it is known. `key` changes when the element is another one. */
export function useElementWidth(of: RefObject<HTMLElement | null>, key?: unknown): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = of.current as HTMLElement;
    const measure = () => setWidth(element.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, [key]);
  return width;
}
