import { useAnswer } from "../../api/useAnswer.ts";
import type { ServicesAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { change, place } from "../../lib/location.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { ago, instead, rangeName, rfc3339, zoned, epoch } from "../../lib/times.ts";
import { START, rangeOf } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";
import { CHECK, STALE_SECONDS } from "../../viewmodels/staleness.ts";

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
      <LastSeen key={service} />
    </div>
  );
}

/** When the service was seen last, whatever the range and the filter, and what to check if that is long ago. */
function LastSeen() {
  const { service } = place.value;
  const asked = useAnswer<ServicesAnswer>(apiUrl("services", { query: selectorOf(service, ""), from: "-30d", until: "now" }));
  if (!asked.answer) return asked.failure ? null : <p class="quiet" role="status">Looking for when it was seen last…</p>;
  const found = asked.answer.services.find((row) => row.service === service);
  if (!found) return <p role="status">Nothing has come of a service of this name in 30 days. <Link to={{ ...START, theme: place.value.theme, keys: place.value.keys, from: "-30d" }}>See the services there are</Link></p>;
  const last = epoch(found.last_seen);
  const now = Date.now() / 1000;
  return (
    <>
      <p role="status">It was last seen {ago(last, now)} ({zoned(last)}).{now - last > STALE_SECONDS && ` ${CHECK}`}</p>
      <button type="button" onClick={() => change({ from: rfc3339(Math.floor(last) - 3600), until: rfc3339(Math.ceil(last)), query: "" })}>Look at the last hour of it</button>
    </>
  );
}
