import { useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { TopAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { pathKeyName } from "../../flamegraph/tree/focus.ts";
import { change, place } from "../../lib/location.ts";
import { SegmentedControl } from "../ui/Controls.tsx";
import type { Scope } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/depthStrings.tsx";

/** Which samples the page is about: all, those below the focused frame, or those with a function on their stack. */
export function DepthScope({ parameters }: { parameters: Record<string, string> }) {
  const { scope, focus, fn, invert } = place.value;
  return (
    <div class="viewbar">
      <SegmentedControl<Scope> label={strings.samplesHeading} value={scope} onSelect={(next) => change({ scope: next })}
        options={[["", strings.allSamples], ["focus", strings.underFocus], ["function", strings.withFunction]]} />
      {scope === "focus" && (focus === "" || invert
        ? <span class="quiet" role="status">{strings.howToFocus(invert ? strings.bottomUpGraphHas : strings.noFrameFocused)}</span>
        : <span>{strings.below(<bdi><code>{pathKeyName(focus)}</code></bdi>)} <button type="button" onClick={() => change({ focus: "", scope: "" })}>{strings.allSamples}</button></span>)}
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
      <label><span class="unseen">{strings.functionLabel}</span>
        <input class="matchers" list="functions" value={typed} spellcheck={false} autocomplete="off" placeholder={strings.functionFileOrName}
          onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <datalist id="functions">
        {answer?.rows.function.map((name, at) => <option key={at} value={answer.rows.file[at] ? `${name} (${answer.rows.file[at]})` : name} />)}
      </datalist>
      <button>{strings.show}</button>
      {fn === "" && <span class="quiet">{strings.showingAllSamplesEnter}</span>}
    </form>
  );
}
