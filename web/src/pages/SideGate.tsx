import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { Link } from "../components/ui/Controls.tsx";
import { EmptyState } from "../components/answer/EmptyState.tsx";
import { useVersions } from "../components/controls/SidePickers.tsx";
import { selectorOf } from "../lib/selectors.ts";
import { defaultSides, versionSide, sameTimeYesterday } from "../lib/sides.ts";
import { formatAgo, widerPreset, toEpochSeconds, type Range } from "../lib/times.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";

/** Finds the versions there are, fills in the usual two sides, or says why there is nothing to compare yet. */
export function SideGate({ refreshCount, children }: { refreshCount: number; children: () => ComponentChildren }) {
  const here = place.value;
  const range = pageRange(here);
  const hasSides = here.baseline !== "" && here.comparison !== "";
  const request = useAnswer<TimelineAnswer>(hasSides ? null : apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  const defaults = request.answer && !hasSides ? defaultSides(request.answer.versions) : null;
  useEffect(() => {
    if (defaults) change({ baseline: here.baseline || defaults.baseline, comparison: here.comparison || defaults.comparison }, "replace");
  }, [defaults?.baseline, defaults?.comparison]);
  if (hasSides) return <>{children()}</>;
  return (
    <AnswerView request={request} what="versions">
      {({ versions }) => {
        if (versions.length === 0) {
          return <><h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1><EmptyState /></>;
        }
        if (versions.length > 1) return null;
        return <OneVersionNotice version={versions[0].version} range={range} />;
      }}
    </AnswerView>
  );
}

/** One version in the range: the one before it, if it ran lately; the same one at another time; labels. */
function OneVersionNotice({ version, range }: { version: string; range: Range }) {
  const here = place.value;
  const now = Date.now() / 1000;
  const wider = widerPreset(range, now);
  const side = `version:${version}`;
  const versions = useVersions(range, true);
  const previous = versions[versions.findIndex((row) => row.version === version) + 1];
  return (
    <div class="card zero">
      <h1>Nothing to compare yet: one version in this range</h1>
      <p>
        All profiles in this range are of <code>{version || "(no version label)"}</code>. {version === ""
          ? <>Start the sidecar with <code>--version</code> (or set <code>SIDELIGHT_VERSION</code>), for example to the image tag, to compare deployments. Until then, compare times or labels.</>
          : "The next deployment appears here automatically. Until then, compare times or labels."}
      </p>
      <p class="row">
        {previous && <Link class="button primary" to={onPage(here, here.page, { ...versionSide("baseline", previous, range, now), comparison: side })}>Compare with {previous.version.slice(0, 60) || "(no version)"}, last seen {formatAgo(toEpochSeconds(previous.last_seen), now)}</Link>}
        <Link class={previous ? "button" : "button primary"} to={onPage(here, here.page, sameTimeYesterday(side, range))}>Compare with the same time yesterday</Link>
        <Link class="button" to={onPage(here, here.page, { baseline: side, comparison: "match:" })}>Choose two sides by label</Link>
        {wider && <button type="button" onClick={() => change({ from: wider.from, until: wider.until })}>Show the {wider.name}</button>}
      </p>
    </div>
  );
}
