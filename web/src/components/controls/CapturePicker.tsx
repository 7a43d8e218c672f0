import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { ValuesAnswer } from "../../api/answers.ts";
import type { CapturesAnswer } from "../../api/captures.ts";
import { place } from "../../lib/location.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { formatAgo, toEpochSeconds, type Range } from "../../lib/times.ts";
import * as strings from "../../strings/comparisonStrings.tsx";

/** Picks a capture of this service: those the collector keeps, and those that windows of the range name. */
export function CapturePicker({ letter, value, range, onSelect }: { letter: string; value: string; range: Range; onSelect: (id: string) => void }) {
  const { service } = place.value;
  const stored = useAnswer<CapturesAnswer>(apiUrl("captures", { service, limit: "100" }));
  const referenced = useAnswer<ValuesAnswer>(apiUrl("labels/capture/values", { query: selectorOf(service, 'capture!=""'), ...range }));
  const now = Date.now() / 1000;
  const labels = new Map((stored.answer?.captures ?? []).map(({ id, created, state }) => [id, `${id} · ${formatAgo(toEpochSeconds(created), now)} · ${state}`]));
  for (const id of [...(referenced.answer?.values ?? []), value]) if (id !== "" && !labels.has(id)) labels.set(id, id);
  const waiting = stored.loading || referenced.loading;
  return (
    <label>
      <span class="unseen">{strings.captureOfSide(letter)}</span>
      <select value={value} onChange={(event) => onSelect(event.currentTarget.value)}>
        <option value="">{labels.size > 0 ? strings.chooseCapture : waiting ? strings.loadingCaptures : strings.noCaptures}</option>
        {[...labels].map(([id, text]) => <option key={id} value={id}>{text.slice(0, 120)}</option>)}
      </select>
    </label>
  );
}
