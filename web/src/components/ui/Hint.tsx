import { dismissedHints } from "../../viewmodels/browserStorage.ts";
import * as strings from "../../strings/applicationStrings.ts";

const hasTouch = window.matchMedia?.("(hover: none)").matches;

/** How to use what is beside it, in the words of the device, until it is dismissed in this browser. */
export function Hint({ id, text, touchText, onHide }: { id: string; text: string; touchText: string; onHide?: () => void }) {
  const dismissed = dismissedHints.list.value;
  if (dismissed.includes(id)) return null;
  return <span class="hint">{hasTouch ? touchText : text} <button type="button" class="flat square" aria-label={strings.hideHint} title={strings.hideHint} onClick={() => { dismissedHints.store([...dismissed, id]); onHide?.(); }}>×</button></span>;
}
