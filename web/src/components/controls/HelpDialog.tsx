import { change, place } from "../../lib/location.ts";
import { signal } from "../../lib/signals.ts";
import { onPage } from "../../lib/url.ts";
import { useHelp } from "./useHelp.ts";
import { Link } from "../ui/Controls.tsx";
import { AnswerView } from "../answer/AnswerView.tsx";

const dialog = () => document.querySelector<HTMLDialogElement>("#help");

/** Whether help was wanted on this visit. */
const wasOpened = signal(false);

export function openHelp(): void {
  wasOpened.value = true;
  dialog()?.showModal();
}

export function KeyTable() {
  return (
    <AnswerView request={useHelp()} what="the shortcuts">
      {({ keys, aside }) => <><dl class="keys">{keys.map(([key, meaning]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{meaning}</dd></div>)}</dl><p class="quiet">{aside.address}</p></>}
    </AnswerView>
  );
}

export function KeySwitch() {
  const on = place.value.keys;
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={() => change({ keys: !on }, "replace")} /> Single-key shortcuts on
    </label>
  );
}

export function HelpDialog() {
  return (
    <dialog id="help" aria-labelledby="help-title">
      <h2 id="help-title">Keyboard</h2>
      {wasOpened.value && <KeyTable />}
      <KeySwitch />
      <p onClick={(event) => { if (event.target instanceof HTMLAnchorElement) dialog()?.close(); }}>
        <Link to={onPage(place.value, "settings")}>Settings, and how to read the numbers</Link>
      </p>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}
