import type { ComponentChildren } from "preact";
import type { Asked } from "../../api/useAnswer.ts";
import type { Failure } from "../../api/request.ts";
import { place } from "../../lib/location.ts";
import { joined, selectorOf, troubleAt } from "../../lib/selectors.ts";
import { Said } from "./ErrorCard.tsx";
import { PutOff, Underway } from "./Loading.tsx";

export function Trouble({ failure, again }: { failure: Failure; again: () => void }) {
  const { service, query } = place.value;
  const selector = selectorOf(service, query);
  const at = failure.reason === "bad_selector" ? troubleAt(failure.message) : null;
  const mend = () => {
    const field = document.querySelector<HTMLInputElement>("#filter-text");
    const begin = selector.length - 1 - joined(query).length;
    field?.focus();
    field?.setSelectionRange(Math.max((at ?? 0) - begin, 0), field.value.length);
  };
  return (
    <Said message={failure.message} hint={failure.hint}>
      {at !== null && at <= selector.length && (
        <p class="selector">The whole selector was <code>{selector.slice(0, at)}<mark>{selector[at] ?? "␣"}</mark>{selector.slice(at + 1)}</code></p>
      )}
      <p class="quiet">reason: <code>{failure.reason}</code></p>
      <p class="row">
        {at !== null && <button type="button" class="primary" onClick={mend}>Edit the filter there</button>}
        <button type="button" class={at === null ? "primary" : ""} onClick={again}>Try again</button>
      </p>
    </Said>
  );
}

/** Shows an answer, its failure, or that it is on its way. What the collector puts off is asked again meanwhile. */
export function Show<Answer>({ asked, what, children }: { asked: Asked<Answer>; what: string; children: (answer: Answer) => ComponentChildren }) {
  const { failure, answer, loading } = asked;
  if (failure?.kind === "final" && !loading) return <Trouble failure={failure} again={asked.again} />;
  const put = failure !== null && failure.kind !== "final";
  return (
    <>
      {put ? <PutOff asked={asked} failure={failure} what={what} /> : loading && <Underway asked={asked} what={what} />}
      {answer !== null && <div class={loading || put ? "answer stale" : "answer"} aria-busy={loading}>{children(answer)}</div>}
    </>
  );
}
