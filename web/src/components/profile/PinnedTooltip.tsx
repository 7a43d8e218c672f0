import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Description } from "../../flamegraph/analysis/frameDescription.ts";
import { DefinitionList } from "../ui/Controls.tsx";
import { useFloating } from "../ui/useFloating.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** The tooltip of a frame that stays, so that its links can be reached. It takes the focus and gives it back; Esc or a press elsewhere closes it. */
export function PinnedTooltip({ description: { title, rows }, x, y, close, children }: { description: Description; x: number; y: number; close: () => void; children: ComponentChildren }) {
  const card = useRef<HTMLDivElement>(null);
  useFloating(card, x, y, close, "a, button");
  return (
    <div ref={card} class="flame-tooltip pinned" popover="manual" role="dialog" aria-label={title.slice(0, 200)} onKeyDown={(event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    }}>
      <strong>{title}</strong>
      <DefinitionList entries={rows} />
      <p class="row">{children}<button type="button" onClick={close}>{strings.closeTooltip}</button></p>
    </div>
  );
}
