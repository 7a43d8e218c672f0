import { useEffect } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { optionalApiUrl } from "../../api/request.ts";
import type { Deploy, DeploysAnswer } from "../../api/deploys.ts";
import { place, PREFIX } from "../../lib/location.ts";
import { formatAgo, formatWithZone, toEpochSeconds } from "../../lib/times.ts";
import { appearanceOf, parsePlace, type Place } from "../../lib/url.ts";
import { equals } from "../../lib/selectors.ts";
import { openCapture } from "../controls/dialogs.ts";
import { Link } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import * as strings from "../../strings/serviceStrings.tsx";

const STATE_LABELS: Readonly<Record<string, string>> = {
  watching: strings.analysing, pass: "pass", regressed: strings.regressed, inconclusive: strings.notEnoughData, not_comparable: strings.notComparable, finished: "finished",
};

/** How a deploy stands, in a word or two. */
export const formatDeployState = ({ state, conclusion, finished }: Deploy): string =>
  (finished ? `${finished.reason.replace("_", " ")}${conclusion ? strings.was(STATE_LABELS[conclusion] ?? conclusion) : ""}` : (STATE_LABELS[state] ?? state));

/** The comparison of a deploy with the version before, as it was analysed last. */
export function deployPlace({ service, version, previous, links: { view } }: Deploy): Place {
  const { pathname, search } = new URL(view, window.location.origin);
  // Before the first analysis that is the page of the service.
  return { ...parsePlace(pathname.slice(PREFIX.length - 1), search), page: "compare", service, baseline: `version:${previous}`, comparison: `version:${version}`, ...appearanceOf(place.value) };
}

/** The deploys of one service: how the newest stands, and opened all of them; nothing where there are none. */
export function DeployList({ service, refreshCount }: { service: string; refreshCount: number }) {
  const request = useAnswer<DeploysAnswer>(optionalApiUrl("deploys", { service, limit: "10" }));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  const deploys = request.answer?.deploys ?? [];
  if (deploys.length === 0) return null;
  return (
    <Dropdown isText class="deploys" title={strings.latestDeployHint} text={<><bdi>{deploys[0].version.slice(0, 100)}</bdi> · <DeployState deploy={deploys[0]} /> ▾</>}>
      <ul>
        {deploys.map((deploy) => (
          <li key={deploy.id}>
            <Link to={deployPlace(deploy)} title={strings.compareWith(deploy.previous.slice(0, 100))}><bdi>{deploy.version.slice(0, 100)}</bdi></Link>{deploy.namespace !== "" && <>{" "}{strings.inLabel(<bdi>{deploy.namespace}</bdi>)}</>}
            {" · "}<DeployState deploy={deploy} />{deploy.summary !== "" && <> · <bdi>{deploy.summary}</bdi></>}
            {" "}<button type="button" class="flat" onClick={() => openCapture({ service, query: equals("version", deploy.version) })}>{strings.capture}<span class="unseen">{" "}{deploy.version.slice(0, 100)}</span></button>
          </li>
        ))}
      </ul>
    </Dropdown>
  );
}

const DeployState = ({ deploy }: { deploy: Deploy }) => (
  <><span class="quiet" title={formatWithZone(toEpochSeconds(deploy.first_seen))}>{formatAgo(toEpochSeconds(deploy.first_seen), Date.now() / 1000)}</span> · <strong>{formatDeployState(deploy)}</strong></>
);
