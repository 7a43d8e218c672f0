import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { Link } from "../components/ui/Controls.tsx";
import { Nothing } from "../components/answer/EmptyState.tsx";
import { useVersions } from "../components/controls/SidePickers.tsx";
import { selectorOf } from "../lib/selectors.ts";
import { usualSides, versionSide, yesterday } from "../lib/sides.ts";
import { ago, instead, epoch, type Range } from "../lib/times.ts";
import { onPage, rangeOf } from "../lib/url.ts";
import { Show } from "../components/answer/AnswerView.tsx";

/** Finds the versions there are, fills in the usual two sides, or says why there is nothing to compare yet. */
export function TwoVersions({ turn, children }: { turn: number; children: () => ComponentChildren }) {
  const here = place.value;
  const range = rangeOf(here);
  const chosen = here.a !== "" && here.b !== "";
  const asked = useAnswer<TimelineAnswer>(chosen ? null : apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const usual = asked.answer && !chosen ? usualSides(asked.answer.versions) : null;
  useEffect(() => {
    if (usual) change({ a: here.a || usual.a, b: here.b || usual.b }, "replace");
  }, [usual?.a, usual?.b]);
  if (chosen) return <>{children()}</>;
  return (
    <Show asked={asked} what="versions">
      {({ versions }) => {
        if (versions.length === 0) {
          return <><h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1><Nothing /></>;
        }
        if (versions.length > 1) return null;
        return <OneVersion version={versions[0].version} range={range} />;
      }}
    </Show>
  );
}

/** One version in the range: the one before it, if it ran lately; the same one at another time; labels. */
function OneVersion({ version, range }: { version: string; range: Range }) {
  const here = place.value;
  const now = Date.now() / 1000;
  const other = instead(range, now);
  const only = `version:${version}`;
  const all = useVersions(range, true);
  const before = all[all.findIndex((row) => row.version === version) + 1];
  return (
    <div class="card zero">
      <h1>Nothing to compare yet: one version in this range</h1>
      <p>
        All profiles here are of <code>{version || "(no version label)"}</code>. {version === ""
          ? <>Start the sidecar with <code>--version</code> (or set <code>SIDELIGHT_VERSION</code>), for example to the image tag, and deployments can be told apart. Until then, compare times or labels.</>
          : "The next deployment shows up by itself; until then, compare times or labels of this one."}
      </p>
      <p class="row">
        {before && <Link class="button primary" to={onPage(here, here.page, { ...versionSide("a", before, range, now), b: only })}>Compare with {before.version.slice(0, 60) || "(no version)"}, last seen {ago(epoch(before.last_seen), now)}</Link>}
        <Link class={before ? "button" : "button primary"} to={onPage(here, here.page, yesterday(only, range))}>Compare with the same time yesterday</Link>
        <Link class="button" to={onPage(here, here.page, { a: only, b: "match:" })}>Choose two sides by label</Link>
        {other && <button type="button" onClick={() => change({ from: other.from, until: other.until })}>Look at the {other.name}</button>}
      </p>
    </div>
  );
}
