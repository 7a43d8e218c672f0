import { change, place } from "../location.ts";
import { rangeName, instead } from "../times.ts";
import type { ProfileType } from "../url.ts";
import { rangeOf } from "./range.tsx";

const NAMES: Record<ProfileType, string> = { cpu: "CPU", wall: "wall", gil: "GIL" };

/** No samples, of one type or (`what` left out) of any: say what was asked for and offer the ways out. */
export function Nothing({ what }: { what?: ProfileType }) {
  const { query, service } = place.value;
  const range = rangeOf(place.value);
  const other = instead(range, Date.now() / 1000);
  return (
    <div class="card zero">
      <h2>No {what ? `${NAMES[what]} samples` : "samples"} of <bdi>{service.slice(0, 100)}</bdi> here</h2>
      <p>Range: {rangeName(range)}{query !== "" && <> · filter: <code>{query}</code></>}</p>
      <p class="row">
        {other && <button type="button" class="primary" onClick={() => change({ from: other.from, until: other.until })}>Look at the {other.name}</button>}
        {query !== "" && <button type="button" onClick={() => change({ query: "" })}>Remove the filter</button>}
        {what && what !== "wall" && <button type="button" onClick={() => change({ type: "wall" })}>Show wall time</button>}
      </p>
    </div>
  );
}
