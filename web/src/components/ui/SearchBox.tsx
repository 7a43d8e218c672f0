import { change, place } from "../../lib/location.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** Searches frames as one types; typing replaces the address so that Back leaves the page's last choice. */
export function SearchBox() {
  return (
    <label class="search">
      <span class="unseen">{strings.searchFrames}</span>
      <input id="search" type="search" value={place.value.q} placeholder={strings.searchFramesPlaceholder} spellcheck={false} autocomplete="off"
        title={strings.textOrRegularExpression}
        onInput={(event) => change({ q: event.currentTarget.value }, "replace")}
        onKeyDown={(event) => {
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }} />
    </label>
  );
}
