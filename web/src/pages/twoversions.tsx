import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import type { TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../location.ts";
import { Link, Show } from "../parts/basics.tsx";
import { Nothing } from "../parts/empty.tsx";
import { rangeOf } from "../parts/range.tsx";
import { selectorOf } from "../selectors.ts";
import { usualSides, yesterday } from "../sides.ts";
import { instead } from "../times.ts";
import { onPage } from "../url.ts";

type Versions = TimelineAnswer["versions"];

/** Finds the versions there are, fills in the usual two sides, or says why there is nothing to compare yet. */
export function TwoVersions({ turn, children }: { turn: number; children: (versions: Versions) => ComponentChildren }) {
  const here = place.value;
  const range = rangeOf(here);
  const asked = useAnswer<TimelineAnswer>(apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const chosen = here.a !== "" && here.b !== "";
  const usual = asked.answer && !chosen ? usualSides(asked.answer.versions) : null;
  useEffect(() => {
    if (usual) change({ a: here.a || usual.a, b: here.b || usual.b }, "replace");
  }, [usual?.a, usual?.b]);
  if (chosen) return <>{children(asked.answer?.versions ?? [])}</>;
  return (
    <Show asked={asked} what="versions">
      {({ versions }) => {
        if (versions.length === 0) {
          return <><h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1><Nothing /></>;
        }
        if (versions.length > 1) return null;
        const other = instead(range, Date.now() / 1000);
        const only = `version:${versions[0].version}`;
        return (
          <div class="card zero">
            <h1>Nothing to compare yet: one version in this range</h1>
            <p>All profiles here are of <code>{versions[0].version || "(no version label)"}</code>. The next deployment shows up by itself; until then, compare times or labels of this one.</p>
            <p class="row">
              <Link class="button primary" to={onPage(here, here.page, yesterday(only, range))}>Compare with the same time yesterday</Link>
              <Link class="button" to={onPage(here, here.page, { a: only, b: "match:" })}>Choose two sides by label</Link>
              {other && <button type="button" onClick={() => change({ from: other.from, until: other.until })}>Look at the {other.name}</button>}
            </p>
          </div>
        );
      }}
    </Show>
  );
}
