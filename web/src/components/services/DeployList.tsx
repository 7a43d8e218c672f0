import { useEffect } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { partUrl } from "../../api/request.ts";
import type { Deploy, DeploysAnswer } from "../../api/deploys.ts";
import { place, PREFIX } from "../../lib/location.ts";
import { ago, zoned, epoch } from "../../lib/times.ts";
import { parsePlace, type Place } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";

const STATES: Readonly<Record<string, string>> = {
  watching: "… being watched", pass: "pass", regressed: "▲ regressed", inconclusive: "not enough data", not_comparable: "not comparable", finished: "finished",
};

/** How a deploy stands, in a word or two. */
export const stateWords = ({ state, conclusion, finished }: Deploy): string =>
  (finished ? `${finished.reason.replace("_", " ")}${conclusion ? `, was ${STATES[conclusion] ?? conclusion}` : ""}` : (STATES[state] ?? state));

/** The comparison of a deploy with the version before, as it was analysed last. */
export function viewOf({ service, version, previous, links: { view } }: Deploy): Place {
  const { pathname, search } = new URL(view, window.location.origin);
  const { theme, keys } = place.value;
  // Before the first analysis that is the page of the service.
  return { ...parsePlace(pathname.slice(PREFIX.length - 1), search), page: "compare", service, a: `version:${previous}`, b: `version:${version}`, theme, keys };
}

/** The deploys of one service: how the newest stands, and opened all of them; nothing where there are none. */
export function Deploys({ service, turn }: { service: string; turn: number }) {
  const asked = useAnswer<DeploysAnswer>(partUrl("deploys", { service, limit: "10" }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const all = asked.answer?.deploys ?? [];
  if (all.length === 0) return null;
  return (
    <details class="deploys">
      <summary>Deploys, the last: <bdi>{all[0].version.slice(0, 100)}</bdi> <Stands of={all[0]} /></summary>
      <ul>
        {all.map((of) => (
          <li key={of.id}>
            <Link to={viewOf(of)} title={`Compare with ${of.previous.slice(0, 100)}`}><bdi>{of.version.slice(0, 100)}</bdi></Link>{of.namespace !== "" && <> in <bdi>{of.namespace}</bdi></>}
            {" "}<Stands of={of} /> <bdi>{of.summary}</bdi>
          </li>
        ))}
      </ul>
    </details>
  );
}

const Stands = ({ of }: { of: Deploy }) => (
  <><span class="quiet" title={zoned(epoch(of.first_seen))}>{ago(epoch(of.first_seen), Date.now() / 1000)}</span> <strong>{stateWords(of)}</strong></>
);
