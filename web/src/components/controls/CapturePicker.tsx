import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { ValuesAnswer } from "../../api/answers.ts";
import { place } from "../../lib/location.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { ago, epoch, type Range } from "../../lib/times.ts";

interface CapturesAnswer {
  readonly captures: readonly { readonly id: string; readonly created: string | number; readonly state: string }[];
}

/** Picks a capture of this service: those the collector keeps, and those that windows of the range name. */
export function CaptureChoice({ letter, value, range, choose }: { letter: string; value: string; range: Range; choose: (id: string) => void }) {
  const { service } = place.value;
  const kept = useAnswer<CapturesAnswer>(apiUrl("captures", { service, limit: "100" }));
  const named = useAnswer<ValuesAnswer>(apiUrl("labels/capture/values", { query: selectorOf(service, 'capture!=""'), ...range }));
  const now = Date.now() / 1000;
  const told = new Map((kept.answer?.captures ?? []).map(({ id, created, state }) => [id, `${id} · ${ago(epoch(created), now)} · ${state}`]));
  for (const id of [...(named.answer?.values ?? []), value]) if (id !== "" && !told.has(id)) told.set(id, id);
  const waiting = kept.loading || named.loading;
  return (
    <label>
      <span class="unseen">Capture of side {letter}</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">{told.size > 0 ? "choose a capture…" : waiting ? "loading captures…" : "no captures of this service in this range"}</option>
        {[...told].map(([id, text]) => <option key={id} value={id}>{text.slice(0, 120)}</option>)}
      </select>
    </label>
  );
}
