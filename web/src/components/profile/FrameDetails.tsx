import type { ComponentChildren } from "preact";
import { signal } from "../../lib/signals.ts";
import { DefinitionList } from "../ui/Controls.tsx";
import type { Description } from "../../flamegraph/analysis/frameDescription.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** Narrower windows have no room beside the graph. */
const MIN_DOCK_PIXELS = 1100;

/** Whether the numbers of the selected frame stand beside the graph, to be read and copied; kept from page to page. */
export const isDocked = signal(window.innerWidth >= MIN_DOCK_PIXELS);

/** The selected frame in numbers: a line under the graph, or docked a panel with all of its name and its callers. */
export function FrameDetails({ description, callers, canDock = true, children }: { description: Description; callers: () => readonly string[]; canDock?: boolean; children: ComponentChildren }) {
  const showsCallers = isDocked.value && canDock;
  const callerNames = showsCallers ? callers() : [];
  return (
    <div class={showsCallers ? "chosen docked" : "chosen"}>
      <div>
        <strong><bdi>{description.title}</bdi></strong>
        <DefinitionList entries={description.rows} />
        {callerNames.length > 0 && (
          <details>
            <summary>{strings.calledThrough(callerNames.length)}</summary>
            <ol>{callerNames.slice(-200).map((name, at) => <li key={at}><bdi>{name}</bdi></li>)}</ol>
          </details>
        )}
      </div>
      <div class="acts">
        {children}
        {canDock && <button type="button" class="toggle" aria-pressed={showsCallers} title="d" onClick={() => (isDocked.value = !showsCallers)}>{strings.detailsPanel}</button>}
      </div>
    </div>
  );
}
