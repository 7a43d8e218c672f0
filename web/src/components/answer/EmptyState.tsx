import { useAnswer } from "../../api/useAnswer.ts";
import type { ServicesAnswer } from "../../api/answers.ts";
import { apiUrl } from "../../api/request.ts";
import { change, place } from "../../lib/location.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { formatAgo, formatClock, widerPreset, formatRange, rfc3339, formatWithZone, toEpochSeconds } from "../../lib/times.ts";
import { appearanceOf, pageRange, START } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";
import { TROUBLESHOOTING, STALE_SECONDS } from "../../viewmodels/staleness.ts";
import * as strings from "../../strings/answerStrings.tsx";

export const TYPE_NAMES: Record<ProfileType, string> = { cpu: strings.cpu, wall: "wall", gil: strings.gil, gil_wait: strings.gilWait, off_cpu: strings.offCpu, tasks: strings.tasks };

/** No samples, of one type or (`what` left out) of any: say what was asked for and offer the ways out. */
export function EmptyState({ what }: { what?: ProfileType }) {
  const { query, service } = place.value;
  const range = pageRange(place.value);
  const wider = widerPreset(range, Date.now() / 1000);
  return (
    <div class="card zero">
      <h2>{strings.noneInRange(what ? strings.samples(TYPE_NAMES[what]) : "samples")}</h2>
      <p>{strings.range(formatRange(range))}{query !== "" && <>{" "}{strings.filter(<code>{query}</code>)}</>}</p>
      {what === "tasks" && <p>{strings.noTasks}</p>}
      <p class="row">
        {wider && <button type="button" class="primary" onClick={() => change({ from: wider.from, until: wider.until })}>{strings.showRange(wider.name)}</button>}
        {query !== "" && <button type="button" onClick={() => change({ query: "" })}>{strings.removeFilter}</button>}
        {what && what !== "wall" && <button type="button" onClick={() => change({ type: "wall" })}>{strings.showWallTime}</button>}
      </p>
      <LastSeen key={service} />
    </div>
  );
}

/** When the service was seen last, whatever the range and the filter, and what to check if that is long ago. */
export function LastSeen() {
  const { service } = place.value;
  const request = useAnswer<ServicesAnswer>(apiUrl("services", { query: selectorOf(service, ""), from: "-30d", until: "now" }));
  if (!request.answer) return request.failure ? null : <p class="quiet" role="status">{strings.lookingForLastData}</p>;
  const row = request.answer.services.find((row) => row.service === service);
  if (!row) return <p role="status">{strings.noDataInThirtyDays(<bdi>{service.slice(0, 100)}</bdi>, <Link to={{ ...START, ...appearanceOf(place.value), from: "-30d" }}>{strings.showAllServices}</Link>)}</p>;
  const lastSeen = toEpochSeconds(row.last_seen);
  const now = Date.now() / 1000;
  return (
    <>
      <p role="status">{strings.lastSeen(formatAgo(lastSeen, now), formatWithZone(lastSeen), now - lastSeen > STALE_SECONDS ? TROUBLESHOOTING : "")}</p>
      <button type="button" onClick={() => change({ from: rfc3339(Math.floor(lastSeen) - 3600), until: rfc3339(Math.ceil(lastSeen)), query: "" })}>{strings.jumpToLastData(formatClock(lastSeen).slice(11, 16))}</button>
    </>
  );
}
