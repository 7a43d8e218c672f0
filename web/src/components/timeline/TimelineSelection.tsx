import type { VersionRow } from "../../api/answers.ts";
import type { Span } from "../../charts/timelineLayout.ts";
import { change, place, visit } from "../../lib/location.ts";
import { plural, seconds } from "../../lib/numbers.ts";
import { sideName } from "../../lib/selectors.ts";
import { sideOfTime } from "../../lib/sides.ts";
import { signal } from "../../lib/signals.ts";
import { rangeName, rfc3339, zoned, epoch, type Range } from "../../lib/times.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";

type Versions = readonly Pick<VersionRow, "version" | "first_seen" | "last_seen">[];

/** Ranges that were left by zooming, each with the one it led to; the address alone cannot know them. */
const left = signal<readonly { readonly from: Range; readonly to: Range }[]>([]);

const spelled = ({ from, until }: Span): Range => ({ from: rfc3339(Math.floor(from)), until: rfc3339(Math.ceil(until)) });

/** Shows this time only; what was shown can be come back to. */
export function zoomTo(span: Span, range: Range): void {
  const to = spelled(span);
  left.value = [...left.value.slice(-9), { from: range, to }];
  change({ from: to.from, until: to.until });
}

/** The way back to the range from which was zoomed, and out of a range that somebody else chose. */
export function Earlier({ range }: { range: Range }) {
  const last = left.value.findLast(({ to }) => to.from === range.from && to.until === range.until);
  if (!last) return null;
  const back = () => {
    left.value = left.value.filter((each) => each !== last);
    change({ from: last.from.from, until: last.from.until });
  };
  return <button type="button" onClick={back}>← back to {rangeName(last.from)}</button>;
}

/** What was chosen on a timeline, and what can be done with it. */
export function Picked({ span, range, versions, samples, clear }: {
  span: Span; range: Range; versions?: Versions; samples?: number; clear: () => void;
}) {
  if (versions) {
    return (
      <div class="picked" role="group" aria-label="Chosen versions">
        {versions.map(({ version, first_seen, last_seen }) => (
          <p class="row" key={version}>
            <bdi class="version">{version.slice(0, 100) || "(no version)"}</bdi>
            <span class="quiet">first seen {zoned(epoch(first_seen))}, last {zoned(epoch(last_seen))}</span>
            <button type="button" onClick={() => zoomTo({ from: epoch(first_seen), until: span.until }, range)}>Zoom to what follows</button>
            <Setters to={{ side: `version:${version}`, from: "", until: "" }} />
          </p>
        ))}
        <button type="button" onClick={clear}>Close</button>
      </div>
    );
  }
  const { from, until } = spelled(span);
  return (
    <div class="picked row" role="group" aria-label="Chosen range">
      <strong>{rangeName({ from, until })}</strong>
      <span class="quiet">{seconds(span.until - span.from)} · {plural(samples ?? 0, "sample")}</span>
      <button type="button" class="primary" onClick={() => zoomTo(span, range)}>Zoom to range</button>
      <Setters to={{ side: sideOfTime(place.value.query), from, until }} />
      <button type="button" onClick={clear}>Clear</button>
    </div>
  );
}

interface Chosen {
  readonly side: string;
  readonly from: string;
  readonly until: string;
}

function Setters({ to }: { to: Chosen }) {
  const set = (which: "a" | "b") => {
    const here = place.peek();
    const next: Place = { ...here, [which]: to.side, [`${which}_from`]: to.from, [`${which}_until`]: to.until };
    // The second side is the last thing to choose: on to the comparison.
    if (here[which === "a" ? "b" : "a"] !== "") visit(onPage(next, "compare"));
    else change(next);
  };
  return (
    <>
      <button type="button" onClick={() => set("a")} title="Make this side A of a comparison"><span class="side side-a" aria-hidden="true">A</span> ⟵ set<span class="unseen"> as side A</span></button>
      <button type="button" onClick={() => set("b")} title="Make this side B of a comparison"><span class="side side-b" aria-hidden="true">B</span> ⟵ set<span class="unseen"> as side B</span></button>
    </>
  );
}

/** The side that was chosen here so far, until there is the other one to compare it with. */
export function SideTray() {
  const here = place.value;
  if (here.a === "" && here.b === "") return null;
  const one = (which: "a" | "b") => here[which] !== "" && (
    <span class="row">
      <span class={`side side-${which}`}>{which.toUpperCase()}</span> <bdi>{sideName(here[which]).slice(0, 80)}</bdi>
      {here[`${which}_from`] !== "" && <span class="quiet">{rangeName({ from: here[`${which}_from`], until: here[`${which}_until`] })}</span>}
      <button type="button" class="square" aria-label={`Forget side ${which.toUpperCase()}`} onClick={() => change({ [which]: "", [`${which}_from`]: "", [`${which}_until`]: "" })}>×</button>
    </span>
  );
  const whole = sideOfTime(here.query);
  return (
    <span class="row tray" role="status">
      {one("a")}{one("b")}
      {(here.a === "" || here.b === "") && <span class="quiet">choose side {here.a === "" ? "A" : "B"} the same way, or</span>}
      <Link class="button primary" to={onPage(here, "compare", { a: here.a || whole, b: here.b || whole })}>
        {here.a !== "" && here.b !== "" ? "Compare A and B" : "compare with everything shown"}
      </Link>
    </span>
  );
}
