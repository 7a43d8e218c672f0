import { useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { TopAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { pathKeyName } from "../../flamegraph/tree/focus.ts";
import { change, place } from "../../lib/location.ts";
import { SegmentedControl } from "../ui/Controls.tsx";
import type { Scope } from "../../lib/viewOptions.ts";

/** Which samples the page is about: all, those below the focused frame, or those with a function on their stack. */
export function DepthScope({ parameters }: { parameters: Record<string, string> }) {
  const { scope, focus, fn, invert } = place.value;
  return (
    <div class="viewbar">
      <SegmentedControl<Scope> label="Samples" value={scope} onSelect={(next) => change({ scope: next })}
        options={[["", "All samples"], ["focus", "Under focus"], ["function", "With a function"]]} />
      {scope === "focus" && (focus === "" || invert
        ? <span class="quiet" role="status">{invert ? "A bottom-up graph has no path from the root." : "No frame is focused."} Zoom into a frame, below or on the profile, and return by its Depth link. Showing all samples.</span>
        : <span>Below <bdi><code>{pathKeyName(focus)}</code></bdi> <button type="button" onClick={() => change({ focus: "", scope: "" })}>All samples</button></span>)}
      {scope === "function" && <FunctionForm key={fn} fn={fn} parameters={parameters} />}
    </div>
  );
}

function FunctionForm({ fn, parameters }: { fn: string; parameters: Record<string, string> }) {
  const [typed, setTyped] = useState(fn);
  useLayoutEffect(() => setTyped(fn), [fn]);
  const { answer } = useAnswer<TopAnswer>(apiUrl("top", { ...parameters, by: "total", limit: "300" }));
  return (
    <form class="row" onSubmit={(event) => { event.preventDefault(); change({ fn: typed.trim() }); }}>
      <label><span class="unseen">Function</span>
        <input class="matchers" list="functions" value={typed} spellcheck={false} autocomplete="off" placeholder="function (file), or a name"
          onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <datalist id="functions">
        {answer?.rows.function.map((name, at) => <option key={at} value={answer.rows.file[at] ? `${name} (${answer.rows.file[at]})` : name} />)}
      </datalist>
      <button>Show</button>
      {fn === "" && <span class="quiet">Showing all samples. Enter a function.</span>}
    </form>
  );
}
