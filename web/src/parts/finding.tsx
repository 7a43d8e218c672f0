import { useMemo } from "preact/hooks";
import type { FlameAnswer } from "../api/answers.ts";
import { checks, checksTitle } from "../comparable.ts";
import { explain } from "../flame/explain.ts";
import { frameParts } from "../flame/packages.ts";
import { normalised } from "../flame/pictures.ts";
import { searchable } from "../flame/search.ts";
import type { Tree } from "../flame/tree.ts";
import { place } from "../location.ts";
import { percent, plural, signed } from "../numbers.ts";
import { minutesMore, verdict } from "../verdict.ts";
import { Badge } from "./badge.tsx";
import { Link } from "./basics.tsx";

/** The difference in a sentence, the functions that explain it, and whether there is enough to tell. */
export function Finding({ answer, tree, samples }: { answer: FlameAnswer; tree: Tree; samples: readonly number[] }) {
  const here = place.value;
  const { sides } = answer;
  const { reasons, share } = useMemo(() => explain(tree, sides.map((side) => side.pod_seconds)), [tree]);
  const blind = sides.some((side) => side.missing_states.includes({ cpu: "", wall: "idle", gil: "gil" }[here.type]));
  const more = minutesMore(sides, samples);
  return (
    <section class="finding" aria-label="Verdict">
      <p class="verdict">{verdict(sides, samples, here.type)}</p>
      {reasons.length > 0 && !blind && (
        <div class="why">
          <span>{share === null ? "Within it, these functions changed most:"
            : `${plural(reasons.length, "function")} ${reasons.length === 1 ? "explains" : "explain"} ${share > 1.005 ? "more than all" : percent(share, 0)} of it by ${reasons.length === 1 ? "its" : "their"} own time:`}</span>
          <ul>
            {reasons.map(({ name, change, change: { delta } }) => (
              <li key={name}>
                <Link to={{ ...here, q: searchable(name), view: "flame", focus: "" }} title={`${name.slice(0, 300)}: find in the graph`}><bdi>{frameParts(name).function.slice(0, 120)}</bdi></Link>{" "}
                <span class="number">{delta > 0 ? "▲" : "▼"} {signed(normalised(delta, 1, "rate"), delta)}</span>
                <Badge of={change} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {share === null && more !== null && more > 0 && !blind && (
        <p class="quiet">Not enough data to see a change of 5 %: about {plural(more, "more minute")} of both sides, watched as now.</p>
      )}
    </section>
  );
}

/** All that could make the sides not comparable, each with its word; folded while nothing does. */
export function Checks({ answer }: { answer: FlameAnswer }) {
  const all = checks(answer.sides);
  const apart = all.some(({ alike }) => alike === false);
  return (
    <details class="checks" open={apart}>
      <summary><span class={apart ? "doubt" : ""}>{apart && <span aria-hidden="true">⚠ </span>}{checksTitle(all)}</span></summary>
      <dl>
        {all.map(({ name, alike, text }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd><strong class={alike === false ? "doubt" : ""}>{alike === null ? "not known" : alike ? "ok" : "differs"}</strong> <span>{text}</span></dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
