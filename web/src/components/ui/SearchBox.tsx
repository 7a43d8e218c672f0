import { change, place } from "../../lib/location.ts";

/** Searches frames as one types; typing replaces the address so that Back leaves the page's last choice. */
export function SearchBox() {
  return (
    <label class="search">
      <span class="unseen">Search frames</span>
      <input id="search" type="search" value={place.value.q} placeholder="Search frames  /" spellcheck={false} autocomplete="off"
        title="Text, or /regular expression/"
        onInput={(event) => change({ q: event.currentTarget.value }, "replace")}
        onKeyDown={(event) => {
          if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
        }} />
    </label>
  );
}
