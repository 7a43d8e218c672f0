import { change, place } from "../location.ts";
import { onPage } from "../url.ts";
import { Link } from "./basics.tsx";

export const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search the frames"],
  ["n  N", "next and previous match"],
  ["← → ↑ ↓", "walk the frames (graph focused): siblings, caller, widest callee"],
  ["Enter", "zoom into the selected frame"],
  ["+ − ⇧← ⇧→", "zoom and pan (graph focused); also Ctrl and wheel, pinch, drag"],
  ["⇧F10  ☰", "what can be done with the selected frame"],
  ["d", "dock the numbers of a frame beside the graph"],
  ["p  P", "save what is in view as PNG, as SVG"],
  ["Esc  0", "the whole graph again"],
  ["i", "invert: start from where the time is spent"],
  ["r", "collapse recursion"],
  ["s", "callers and callees of the selected frame, or of the row with the keyboard"],
  ["l", "its lines"],
  ["x", "swap the sides of a comparison"],
  ["c", "copy the selected stack"],
  ["← → Home End", "timeline focused: move along it; with Shift, choose a range"],
  ["Enter  Esc", "timeline focused: zoom to the range; let go of it"],
  ["?", "this help"],
];

const dialog = () => document.querySelector<HTMLDialogElement>("#help");

export const openHelp = (): void => dialog()?.showModal();

export function KeyTable() {
  return (
    <dl class="keys">
      {KEYS.map(([key, meaning]) => (
        <div key={key}><dt><kbd>{key}</kbd></dt><dd>{meaning}</dd></div>
      ))}
    </dl>
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

export function Help() {
  return (
    <dialog id="help" aria-labelledby="help-title">
      <h2 id="help-title">Keyboard</h2>
      <KeyTable />
      <KeySwitch />
      <p class="quiet" onClick={(event) => { if (event.target instanceof HTMLAnchorElement) dialog()?.close(); }}>
        Everything you see is in the address: copy it to share the view, or use Share to fix relative times.
        A frame counts where it was on the stack; “takes more time” can mean slower or called more often.
        {" "}<Link to={onPage(place.value, "settings")}>Settings, and how to read the numbers</Link>
      </p>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}
