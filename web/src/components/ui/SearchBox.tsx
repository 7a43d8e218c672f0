import { expressionError } from "../../flamegraph/analysis/search.ts";
import { change, place } from "../../lib/location.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** Searches frames as one types; typing replaces the address so that Back leaves the page's last choice. */
export function SearchBox() {
  const error = expressionError(place.value.q);
  return (
    <label class="search">
      <span class="unseen">{strings.searchFrames}</span>
      <input id="search" type="search" value={place.value.q} placeholder={strings.searchFramesPlaceholder} spellcheck={false} autocomplete="off"
        title={strings.textOrRegularExpression} aria-invalid={error !== ""}
        onInput={(event) => change({ q: event.currentTarget.value }, "replace")}
        onKeyDown={(event) => {
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }} />
      {error !== "" && <span class="search-error" role="alert">{error}</span>}
    </label>
  );
}
