import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Choices behind a button. It closes when one is made, with Escape, and by a click elsewhere. */
export function Dropdown({ text, label, children }: { text: string; label?: string; children: ComponentChildren }) {
  const box = useRef<HTMLDetailsElement>(null);
  const close = () => box.current?.removeAttribute("open");
  useEffect(() => {
    const closeOutside = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) close();
    };
    document.addEventListener("click", closeOutside);
    return () => document.removeEventListener("click", closeOutside);
  }, []);
  return (
    <details class="drop" ref={box} onKeyDown={(event) => {
      if (event.key !== "Escape" || !box.current?.open) return;
      event.preventDefault();
      close();
      box.current.querySelector("summary")?.focus();
    }}>
      <summary class="button" aria-label={label} title={label}>{text}</summary>
      <div class="choices" onClick={(event) => {
        if (event.target instanceof Element && event.target.closest("a, button")) close();
      }}>{children}</div>
    </details>
  );
}
