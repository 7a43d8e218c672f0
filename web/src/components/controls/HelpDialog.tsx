import { change, place } from "../../lib/location.ts";
import { signal } from "../../lib/signals.ts";
import { onPage } from "../../lib/url.ts";
import { useHelp } from "./useHelp.ts";
import { Link } from "../ui/Controls.tsx";
import { AnswerView } from "../answer/AnswerView.tsx";
import * as strings from "../../strings/applicationStrings.ts";

const dialog = () => document.querySelector<HTMLDialogElement>("#help");

/** Whether help was wanted on this visit. */
const wasOpened = signal(false);

export function openHelp(): void {
  wasOpened.value = true;
  dialog()?.showModal();
}

export function KeyTable() {
  return (
    <AnswerView request={useHelp()} what={strings.shortcuts}>
      {({ keys, aside }) => <><dl class="keys">{keys.map(([key, meaning]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{meaning}</dd></div>)}</dl><p class="quiet">{aside.address}</p></>}
    </AnswerView>
  );
}

export function KeySwitch() {
  const on = place.value.keys;
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={() => change({ keys: !on }, "replace")} />{" "}{strings.singleKeyShortcutsOn}
    </label>
  );
}

export function HelpDialog() {
  return (
    <dialog id="help" aria-labelledby="help-title">
      <h2 id="help-title">{strings.keyboard}</h2>
      {wasOpened.value && <KeyTable />}
      <KeySwitch />
      <p onClick={(event) => { if (event.target instanceof HTMLAnchorElement) dialog()?.close(); }}>
        <Link to={onPage(place.value, "settings")}>{strings.settingsAndNumbers}</Link>
      </p>
      <form method="dialog"><button class="primary">{strings.close}</button></form>
    </dialog>
  );
}
