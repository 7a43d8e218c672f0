import type { ComponentChildren } from "preact";
import type { AnswerRequest } from "../../api/useAnswer.ts";
import type { Failure } from "../../api/request.ts";
import { place } from "../../lib/location.ts";
import { joinMatchers, selectorOf, errorPosition } from "../../lib/selectors.ts";
import { ErrorCard } from "./ErrorCard.tsx";
import { RetryLater, Loading } from "./Loading.tsx";
import * as strings from "../../strings/answerStrings.tsx";

export function FailureCard({ failure, retry }: { failure: Failure; retry: () => void }) {
  const { service, query } = place.value;
  const selector = selectorOf(service, query);
  const at = failure.reason === "bad_selector" ? errorPosition(failure.message) : null;
  const focusError = () => {
    const field = document.querySelector<HTMLInputElement>("#filter-text");
    const offset = selector.length - 1 - joinMatchers(query).length;
    field?.focus();
    field?.setSelectionRange(Math.max((at ?? 0) - offset, 0), field.value.length);
  };
  return (
    <ErrorCard message={failure.message} hint={failure.hint}>
      {at !== null && at <= selector.length && (
        <p class="selector">{strings.selector(<code>{selector.slice(0, at)}<mark>{selector[at] ?? "␣"}</mark>{selector.slice(at + 1)}</code>)}</p>
      )}
      <p class="quiet">{strings.reason(<code>{failure.reason}</code>)}</p>
      <p class="row">
        {at !== null && <button type="button" class="primary" onClick={focusError}>{strings.editFilterThere}</button>}
        <button type="button" class={at === null ? "primary" : ""} onClick={retry}>{strings.tryAgain}</button>
      </p>
    </ErrorCard>
  );
}

/** Shows the answer of a request, its failure, or its progress. */
export function AnswerView<Answer>({ request, what, children }: { request: AnswerRequest<Answer>; what: string; children: (answer: Answer) => ComponentChildren }) {
  const { failure, answer, loading } = request;
  if (failure?.kind === "final" && !loading) return <FailureCard failure={failure} retry={request.reload} />;
  const isRetrying = failure !== null && failure.kind !== "final";
  return (
    <>
      {isRetrying ? <RetryLater request={request} failure={failure} what={what} /> : loading && <Loading request={request} what={what} />}
      {answer !== null && <div class={loading || isRetrying ? "answer stale" : "answer"} aria-busy={loading}>{children(answer)}</div>}
    </>
  );
}
