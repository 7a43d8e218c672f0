import type { ComponentChildren } from "preact";
import { signal } from "../../lib/signals.ts";
import { Facts } from "../ui/Controls.tsx";
import type { Description } from "../../flamegraph/analysis/frameDescription.ts";

/** Whether the numbers of the selected frame stand beside the graph, to be read and copied; kept from page to page. */
export const docked = signal(false);

/** The selected frame in numbers: a line under the graph, or docked a panel with all of its name and its callers. */
export function Chosen({ about, callers, children }: { about: Description; callers: () => readonly string[]; children: ComponentChildren }) {
  const open = docked.value;
  const above = open ? callers() : [];
  return (
    <div class={open ? "chosen docked" : "chosen"}>
      <div>
        <strong><bdi>{about.title}</bdi></strong>
        <Facts of={about.rows} />
        {above.length > 0 && (
          <details>
            <summary>Called through {above.length} {above.length === 1 ? "frame" : "frames"}</summary>
            <ol>{above.slice(-200).map((name, at) => <li key={at}><bdi>{name}</bdi></li>)}</ol>
          </details>
        )}
      </div>
      <div class="acts">
        {children}
        <button type="button" class="toggle" aria-pressed={open} title="d" onClick={() => (docked.value = !open)}>{open ? "Undock" : "Dock"}</button>
      </div>
    </div>
  );
}
