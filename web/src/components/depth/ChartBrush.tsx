import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { formatDepthRange, dragDepthRange, stepDepthRange, type DepthRange } from "../../lib/depthRange.ts";
import { axisPosition } from "../../charts/DepthCharts.tsx";
import * as strings from "../../strings/depthStrings.tsx";

/**
 * A chart of depths on which a range is dragged with a mouse or a finger, or moved with the arrow keys. `onDraft`
 * is called during a drag, `onSelect` at its end.
 */
export function ChartBrush({ name, bins, width, deepest, range, onDraft, onSelect, children }: {
  name: string; bins: number; width: number; deepest: number; range: DepthRange | null;
  onDraft: (next: DepthRange | null) => void; onSelect: (next: DepthRange | null, how?: "replace") => void; children: ComponentChildren;
}) {
  const from = useRef<number | null>(null);
  const positionOf = (event: PointerEvent) => {
    const { left, width: pixels } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return axisPosition(event.clientX - left, pixels);
  };
  const draggedRange = (event: PointerEvent) => dragDepthRange(from.current ?? 0, positionOf(event), bins, width);
  const end = (next: DepthRange | null) => {
    from.current = null;
    onDraft(null);
    if (next) onSelect(next);
  };
  return (
    <div class="brush" role="group" tabIndex={0}
      aria-label={strings.brushInstructions(name, range ? `Selected: ${formatDepthRange(range)}.` : strings.nothingSelected)}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = positionOf(event);
        onDraft(draggedRange(event));
      }}
      onPointerMove={(event) => { if (from.current !== null) onDraft(draggedRange(event)); }}
      onPointerUp={(event) => { if (from.current !== null) end(draggedRange(event)); }}
      onPointerCancel={() => end(null)}
      onKeyDown={(event) => {
        const isClear = event.key === "Escape" && range !== null;
        const moved = stepDepthRange(range, event.key, event.shiftKey, width, deepest);
        if (!isClear && !moved) return;
        event.preventDefault();
        onSelect(isClear ? null : moved, "replace");
      }}>
      {children}
    </div>
  );
}
