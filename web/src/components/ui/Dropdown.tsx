import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Choices behind a button, or with `isText` anything to be read. It closes when a choice is made, with Escape, and by a click elsewhere. */
export function Dropdown({ text, label, title = label, isText = false, class: className = "", onOpen, children }: {
  text: ComponentChildren; label?: string; title?: string; isText?: boolean; class?: string; onOpen?: () => void; children: ComponentChildren;
}) {
  const box = useRef<HTMLDetailsElement>(null);
  const panel = useRef<HTMLDivElement>(null);
  const close = () => box.current?.removeAttribute("open");
  useEffect(() => {
    const closeOutside = (event: Event) => {
      if (event.target instanceof Node && event.target.isConnected && !box.current?.contains(event.target)) close();
    };
    document.addEventListener("click", closeOutside);
    return () => document.removeEventListener("click", closeOutside);
  }, []);
  // It opens, or an answer that is wider arrives.
  useEffect(() => {
    const observer = new ResizeObserver(([{ target }]) => { if (target instanceof HTMLElement) keepInView(target); });
    if (panel.current) observer.observe(panel.current);
    return () => observer.disconnect();
  }, []);
  return (
    <details class={`drop ${className}`} ref={box} onToggle={() => { if (box.current?.open) onOpen?.(); }} onKeyDown={(event) => {
      if (event.key !== "Escape" || !box.current?.open) return;
      event.preventDefault();
      close();
      box.current.querySelector("summary")?.focus();
    }}>
      <summary class="button" aria-label={label} title={title}>{text}</summary>
      <div ref={panel} class={isText ? "choices text" : "choices"} onClick={(event) => {
        if (!isText && event.target instanceof Element && event.target.closest("a, button")) close();
      }}>{children}</div>
    </details>
  );
}

const MARGIN_PIXELS = 8;

/** Moves a panel sideways so that its left end, and if possible its right end, are in the window. */
function keepInView(panel: HTMLElement): void {
  panel.style.translate = "";
  const { left, right } = panel.getBoundingClientRect();
  const fromRight = Math.min(0, window.innerWidth - MARGIN_PIXELS - right);
  const shift = Math.max(fromRight, MARGIN_PIXELS - left);
  if (shift !== 0) panel.style.translate = `${shift}px`;
}
