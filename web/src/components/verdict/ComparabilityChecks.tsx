import type { Check, Remedy, Verdict } from "../../api/verdict.ts";
import { change, place } from "../../lib/location.ts";
import { formatRate, rateUnit } from "../../lib/quantities.ts";
import { placeChanges } from "../../lib/sides.ts";
import { inShownZone } from "../../lib/times.ts";
import { DefinitionList } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

const isWarning = ({ severity }: Check) => severity !== "ok";

/** Whether the page itself can do what a check advises; else the hint of the check says what to do. */
const isPossible = ({ action, parameters }: Remedy, canEnterRequests: boolean) =>
  action === "enter_requests" ? canEnterRequests : Object.values(parameters).some((value) => value !== "");

/** Does what a check advises; `enterRequests` asks for the numbers that only a person has. */
export function RemedyButton({ remedy, enterRequests, isPrimary = false }: { remedy: Remedy; enterRequests?: () => void; isPrimary?: boolean }) {
  if (!isPossible(remedy, enterRequests !== undefined)) return null;
  const label = inShownZone(remedy.label);
  return (
    <button type="button" class={isPrimary ? "remedy primary" : ""} title={isPrimary ? label : undefined} onClick={remedy.action === "enter_requests" ? enterRequests : () => change(placeChanges(place.value, remedy.parameters))}>{label}</button>
  );
}

/** The remedies of the warnings that the page can do, each once. */
export const remediesOf = ({ checks }: Verdict): readonly Remedy[] =>
  checks.filter(isWarning).flatMap(({ remedy }) => (remedy && isPossible(remedy, true) ? remedy : [])).filter(({ label }, at, all) => all.findIndex((other) => other.label === label) === at);

interface CheckProps {
  readonly verdict: Verdict;
  readonly enterRequests?: () => void;
  /** In a file nothing can be asked for. */
  readonly isOffline?: boolean;
}

/** Warnings of the checks with what to do about them. */
function CheckWarnings({ verdict: { checks }, enterRequests, isOffline = false }: CheckProps) {
  const warnings = checks.filter(isWarning);
  if (warnings.length === 0) return null;
  return (
    <ul class="notices doubts" aria-label={strings.beforeYouCompare}>
      {warnings.map(({ name, text, hint, remedy }) => (
        <li key={name}><strong>{name}</strong> {inShownZone(text).replace(/\.?$/, ".")} {hint} {remedy && !isOffline && <RemedyButton remedy={remedy} enterRequests={enterRequests} />}</li>
      ))}
    </ul>
  );
}

/** "9 checks passed, 1 unknown". */
function describePassed(checks: readonly Check[]): string {
  const passed = checks.filter((check) => !isWarning(check));
  const unknown = passed.filter(({ state }) => state === "unknown").length;
  return strings.checksPassed(passed.length - unknown, unknown);
}

function PassedChecks({ verdict: { checks, sampling_only: sampled, method: { rate_source: source, unit } } }: CheckProps) {
  const rate = rateUnit(place.value.type, unit);
  const measured = source === "clock" && sampled ? strings.totalFromClock(formatRate(sampled.baseline, rate), formatRate(sampled.comparison, rate)) : strings.inSamples;
  return <DefinitionList entries={[...checks.filter((check) => !isWarning(check)).map(({ name, text }) => [name, inShownZone(text)] as const), ["measured", measured]]} />;
}

/** Whether the sides are comparable, as lines: a line for each warning, and all else folded. */
export function ComparabilityChecks(props: CheckProps) {
  const { checks, direction } = props.verdict;
  // Of a side that was not watched there is nothing to say.
  if (direction === "no_data") return null;
  return (
    <>
      <CheckWarnings {...props} />
      <details class="numbers checks"><summary>✓ {describePassed(checks)}</summary><PassedChecks {...props} /></details>
    </>
  );
}

/** The same behind a button, with other notices about the data. */
export function ChecksButton({ notices, ...props }: CheckProps & { notices: readonly string[] }) {
  const { checks, direction } = props.verdict;
  if (direction === "no_data") return null;
  const warnings = checks.filter(isWarning).length + notices.length;
  return (
    <Dropdown isText text={warnings > 0 ? strings.warning(warnings) : `✓ ${describePassed(checks)} ▾`}>
      <div class="checks">
        <CheckWarnings {...props} />
        {notices.length > 0 && <ul class="notices" aria-label={strings.beforeYouRead}>{notices.map((notice) => <li key={notice}>{notice}</li>)}</ul>}
        {warnings > 0 && <p>✓ {describePassed(checks)}</p>}
        <PassedChecks {...props} />
      </div>
    </Dropdown>
  );
}
