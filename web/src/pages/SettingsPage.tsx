import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { StatusAnswer } from "../api/answers.ts";
import { change, place, PREFIX } from "../lib/location.ts";
import { count } from "../strings/counts.ts";
import { DefinitionList, SegmentedControl } from "../components/ui/Controls.tsx";
import { KeySwitch, KeyTable } from "../components/controls/HelpDialog.tsx";
import { formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { useHelp } from "../components/controls/useHelp.ts";
import type { Theme } from "../lib/viewOptions.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import * as strings from "../strings/applicationStrings.ts";

/** How the pages look, what this collector is, every key, and how to read the numbers. */
export function SettingsPage() {
  const status = useAnswer<StatusAnswer>(apiUrl("status"));
  return (
    <>
      <h1>{strings.settingsAndHelp}</h1>
      <div class="settings">
        <section class="card" aria-labelledby="appearance">
          <h2 id="appearance">{strings.appearance}</h2>
          <SegmentedControl<Theme> label={strings.theme} value={place.value.theme} onSelect={(theme) => change({ theme }, "replace")}
            options={[["", strings.system], ["light", strings.light], ["dark", strings.dark]]} />
          <KeySwitch />
        </section>
        <section class="card" aria-labelledby="collector">
          <h2 id="collector">{strings.collector}</h2>
          <AnswerView request={status} what={strings.collectorsState}>{(answer) => <CollectorState answer={answer} />}</AnswerView>
        </section>
        <section class="card" aria-labelledby="keyboard"><h2 id="keyboard">{strings.keyboard}</h2><KeyTable /></section>
        <section class="card" aria-labelledby="numbers">
          <h2 id="numbers">{strings.howToReadNumbers}</h2>
          <AnswerView request={useHelp()} what={strings.help}>{({ numbers }) => <DefinitionList entries={numbers} class="facts" />}</AnswerView>
        </section>
        <section class="card" aria-labelledby="more">
          <h2 id="more">{strings.more}</h2>
          <AnswerView request={useHelp()} what={strings.help}>{({ more }) => (
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
    [strings.version, answer.version],
    [strings.uiBuild, document.querySelector<HTMLMetaElement>('meta[name="sidelight-build"]')?.content ?? "unknown"],
    [strings.store, `${store.kind}: ${store.ok ? "answers" : strings.storeDoesNotAnswer}`],
    [strings.retention, retention ? strings.retentionDays(retention.window, retention.hour, retention.day) : "unknown"],
    [strings.ingested, strings.windowsSinceStart(answer.windows_acknowledged, answer.last_ingest ? formatWithZone(toEpochSeconds(answer.last_ingest)) : "never")],
    [strings.sidecarsSeen, `${count(sidecars.length)}${sidecars.length >= 1000 ? strings.orMore : ""}`],
  ];
  return <DefinitionList entries={facts} class="facts" />;
}
