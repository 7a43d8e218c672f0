import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Ranges } from "../../api/answers.ts";
import type { Basis, Verdict } from "../../api/verdict.ts";
import { change, place } from "../../lib/location.ts";
import { confidenceLabel, percent } from "../../lib/numbers.ts";
import { inShownZone } from "../../lib/times.ts";
import { BASIS_NAMES, describeVerdict } from "../../viewmodels/verdictText.ts";
import { DefinitionList } from "../ui/Controls.tsx";
import { Toolbar } from "../ui/Toolbar.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { ChecksButton, RemedyButton, remediesOf } from "./ComparabilityChecks.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

const NO_VERDICT = strings.noVerdict;

/** The result in one line, with what was tested as a switch, and the reasons, statistics and checks one press away. */
export function VerdictCard({ verdict, notices }: { verdict: Verdict | null; notices: readonly string[] }) {
  const [isEntering, setEntering] = useState(false);
  if (!verdict) return <VerdictLine verdict={verdict} />;
  const isCompared = verdict.direction !== "not_comparable" && verdict.direction !== "no_data";
  const enterRequests = () => setEntering(true);
  const [remedy] = remediesOf(verdict);
  return (
    <VerdictLine verdict={verdict} below={isEntering && <RequestCounts close={() => setEntering(false)} />}>
      <Toolbar class="grow" label={strings.verdictTools}>
        {isCompared && <BasisPicker verdict={verdict} />}
        <Dropdown isText text={strings.whyMenu} label={strings.whyAndHowSure}><VerdictReasons verdict={verdict} /></Dropdown>
        <span class="gap" />
        {remedy && <RemedyButton remedy={remedy} enterRequests={enterRequests} isPrimary />}
        <ChecksButton verdict={verdict} notices={notices} enterRequests={enterRequests} />
      </Toolbar>
    </VerdictLine>
  );
}

/** The line alone; `verdict` is undefined while it is on its way. */
export function VerdictLine({ verdict, children, below }: { verdict: Verdict | null | undefined; children?: ComponentChildren; below?: ComponentChildren }) {
  const card = verdict && describeVerdict(verdict, place.value.type);
  return (
    <section class="card finding" aria-label={strings.verdict}>
      <div class="row">
        <p class="verdict" role="status">
          {card ? <><strong class={card.direction}>{card.sign} {card.headline}</strong>{card.facts.map((fact) => <span key={fact}> · {fact}</span>)}</> : verdict === undefined ? strings.loadingComparison : NO_VERDICT}
        </p>
        {children}
      </div>
      {below}
    </section>
  );
}

/** What is tested: the collector's choice, or another that is possible here. */
function BasisPicker({ verdict }: { verdict: Verdict }) {
  const chosen = place.value.basis;
  const { basis, available_bases: available } = verdict;
  if (available.length < 2 && chosen === "") return <span>{BASIS_NAMES[basis]}</span>;
  return (
    <label>
      <span class="unseen">{strings.whatCompared}</span>
      <select value={chosen === basis ? basis : ""} onChange={(event) => change({ basis: event.currentTarget.value as Basis | "", norm: "" })}>
        <option value="">{chosen === basis ? strings.automatic : `${BASIS_NAMES[basis]} (automatic)`}</option>
        {available.map((option) => <option key={option} value={option}>{BASIS_NAMES[option]}</option>)}
      </select>
    </label>
  );
}

/** Why this was tested, the statistics, and in a file the reason for the times. */
export function VerdictReasons({ verdict, ranges }: { verdict: Verdict; ranges?: Ranges }) {
  const { summary, basis_reason: reason, min_relevant_share: share, min_relevant_depth: depth, rate, method } = verdict;
  const detectable = rate.min_detectable_effect;
  return (
    <>
      <p>{inShownZone(summary)}</p>
      <p>{inShownZone(`${reason} ${ranges?.text ?? ""}`)}</p>
      <DefinitionList entries={[
        [strings.interval, confidenceLabel(method.alpha_spent)],
        [strings.functions, strings.falseDiscoveryRate(percent(method.fdr, 0))],
        [strings.smallestRelevant, strings.smallestRelevantValues(percent(share, 1), depth)],
        ...(detectable !== null && Number.isFinite(detectable) ? [[strings.detectable, strings.changeOrMore(percent(detectable))] as const] : []),
        [strings.data, strings.testedData(method.pods[0], method.time_blocks[0], method.pods[1], method.time_blocks[1])],
      ]} />
    </>
  );
}

/** How many requests each side served, typed in. */
function RequestCounts({ close }: { close: () => void }) {
  const { baseline_requests: a, comparison_requests: b } = place.value;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    change({ baseline_requests: String(form.get("a")), comparison_requests: String(form.get("b")), basis: "" });
    close();
  };
  const field = (letter: string, value: string) => <label>{strings.requestsOf(letter)} <input type="number" name={letter.toLowerCase()} min={1} step={1} required defaultValue={value} /></label>;
  return <form class="row requests" onSubmit={submit}>{field("A", a)}{field("B", b)}<button class="primary">{strings.comparePerRequest}</button><button type="button" onClick={close}>{strings.cancel}</button></form>;
}
