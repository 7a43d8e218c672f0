import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { bandName, dragged, stepped, type Band } from "../../lib/depthRange.ts";
import { partAt } from "../../charts/DepthCharts.tsx";

/**
 * A chart of depths on which a band is dragged with a mouse or a finger, or moved with the arrow keys. `draft`
 * hears of a drag under way, `pick` of a band chosen.
 */
export function Brush({ name, bins, width, deepest, band, draft, pick, children }: {
  name: string; bins: number; width: number; deepest: number; band: Band | null;
  draft: (band: Band | null) => void; pick: (band: Band | null, how?: "replace") => void; children: ComponentChildren;
}) {
  const from = useRef<number | null>(null);
  const at = (event: PointerEvent) => {
    const { left, width: pixels } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return partAt(event.clientX - left, pixels);
  };
  const over = (event: PointerEvent) => dragged(from.current ?? 0, at(event), bins, width);
  const end = (band: Band | null) => {
    from.current = null;
    draft(null);
    if (band) pick(band);
  };
  return (
    <div class="brush" role="group" tabIndex={0}
      aria-label={`${name}. ${band ? `Chosen: ${bandName(band)}.` : "Nothing chosen."} Drag, or press the arrow keys, to choose depths; with Shift they widen; Escape clears.`}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = at(event);
        draft(over(event));
      }}
      onPointerMove={(event) => { if (from.current !== null) draft(over(event)); }}
      onPointerUp={(event) => { if (from.current !== null) end(over(event)); }}
      onPointerCancel={() => end(null)}
      onKeyDown={(event) => {
        const clears = event.key === "Escape" && band !== null;
        const moved = stepped(band, event.key, event.shiftKey, width, deepest);
        if (!clears && !moved) return;
        event.preventDefault();
        pick(clears ? null : moved, "replace");
      }}>
      {children}
    </div>
  );
}
