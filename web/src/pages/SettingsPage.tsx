import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { StatusAnswer } from "../api/answers.ts";
import { change, place, PREFIX } from "../lib/location.ts";
import { count, plural } from "../lib/numbers.ts";
import { DefinitionList, SegmentedControl } from "../components/ui/Controls.tsx";
import { KeySwitch, KeyTable } from "../components/controls/HelpDialog.tsx";
import { formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { useHelp } from "../components/controls/useHelp.ts";
import type { Theme } from "../lib/viewOptions.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";

/** How the pages look, what this collector is, every key, and how to read the numbers. */
export function SettingsPage() {
  const status = useAnswer<StatusAnswer>(apiUrl("status"));
  return (
    <>
      <h1>Settings and help</h1>
      <div class="settings">
        <section class="card" aria-labelledby="appearance">
          <h2 id="appearance">Appearance</h2>
          <SegmentedControl<Theme> label="Theme" value={place.value.theme} onSelect={(theme) => change({ theme }, "replace")}
            options={[["", "System"], ["light", "Light"], ["dark", "Dark"]]} />
          <KeySwitch />
        </section>
        <section class="card" aria-labelledby="collector">
          <h2 id="collector">This collector</h2>
          <AnswerView request={status} what="the collector's state">{(answer) => <CollectorState answer={answer} />}</AnswerView>
        </section>
        <section class="card" aria-labelledby="keyboard"><h2 id="keyboard">Keyboard</h2><KeyTable /></section>
        <section class="card" aria-labelledby="numbers">
          <h2 id="numbers">How to read the numbers</h2>
          <AnswerView request={useHelp()} what="the help">{({ numbers }) => <DefinitionList entries={numbers} class="facts" />}</AnswerView>
        </section>
        <section class="card" aria-labelledby="more">
          <h2 id="more">More</h2>
          <AnswerView request={useHelp()} what="the help">{({ more }) => (
            <ul>{more.map(([to, name, rest]) => <li key={rest}>{to !== "" && <a href={PREFIX + to}>{name}</a>}{rest}</li>)}</ul>
          )}</AnswerView>
        </section>
      </div>
    </>
  );
}

function CollectorState({ answer }: { answer: StatusAnswer }) {
  const { store, retention_days: retention, sidecars } = answer;
  const facts: readonly (readonly [string, string])[] = [
    ["Version", answer.version],
    ["UI build", document.querySelector<HTMLMetaElement>('meta[name="sidelight-build"]')?.content ?? "unknown"],
    ["Store", `${store.kind}: ${store.ok ? "answers" : "does not answer; check the collector's log"}`],
    ["Retention", retention ? `${plural(retention.window, "day")} in full, ${plural(retention.hour, "day")} hourly, ${plural(retention.day, "day")} daily; services can differ` : "unknown"],
    ["Ingested", `${count(answer.windows_acknowledged)} windows since start; last: ${answer.last_ingest ? formatWithZone(toEpochSeconds(answer.last_ingest)) : "never"}`],
    ["Sidecars seen", `${count(sidecars.length)}${sidecars.length >= 1000 ? " or more" : ""}`],
  ];
  return <DefinitionList entries={facts} class="facts" />;
}
