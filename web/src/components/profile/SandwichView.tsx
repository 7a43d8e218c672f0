import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { findFocus, focusWord, wordText } from "../../flamegraph/tree/focus.ts";
import { functionOf, linesOf, sandwichOf } from "../../viewmodels/frameActions.ts";
import { describe, sentence } from "../../flamegraph/analysis/frameDescription.ts";
import { added, countBefore, markChanges, type Reading } from "../../flamegraph/analysis/treeMetrics.ts";
import { sandwich } from "../../flamegraph/tree/sandwich.ts";
import { nextHit, search, type Found } from "../../flamegraph/analysis/search.ts";
import { pathTo } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { microseconds, percent, plural } from "../../lib/numbers.ts";
import { Facts, Link } from "../ui/Controls.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { Functions } from "./FunctionTable.tsx";
import { Graph } from "./FlameGraph.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ChangeLegend } from "./Legends.tsx";
import { paint } from "./makePicture.ts";
import { SearchBox } from "../ui/SearchBox.tsx";

/** Callers are zoomed into by a word behind this mark, callees by a plain one. */
const UP = "^";

/** One function from both ends, of one side or of two. */
export function SandwichView({ reading, names }: { reading: Reading; names: readonly string[] }) {
  const { fn } = place.value;
  const both = useMemo(() => {
    const halves = fn === "" ? null : sandwich(reading.tree, fn, reading.divisor);
    return halves && { callers: added(halves.callers, reading.divisor, reading.judged), callees: added(halves.callees, reading.divisor, reading.judged) };
  }, [reading, fn]);
  if (both) return <Halves key={fn} whole={reading} callers={both.callers} callees={both.callees} names={names} />;
  return <ChooseFunction reading={reading} names={names} what="see who calls it and what it calls" />;
}

/** The table as a way to choose a function; says so when the one in the address is not there. */
export function ChooseFunction({ reading, names, what }: { reading: Reading; names: readonly string[]; what: string }) {
  const { fn } = place.value;
  return (
    <>
      {fn !== "" && (
        <p class="missing" role="status">
          <bdi><code>{wordText(fn).slice(0, 200)}</code></bdi> is not in this profile{place.value.t !== "" && " as these transforms leave it"}.
        </p>
      )}
      <p class="quiet">Choose a function to {what}.</p>
      <Functions reading={reading} names={names} pick={(chosen) => change({ ...sandwichOf(chosen), view: place.peek().view })} />
    </>
  );
}

type Part = "callers" | "callees";

function Halves({ whole, callers, callees, names }: { whole: Reading; callers: Reading; callees: Reading; names: readonly string[] }) {
  const { focus: word, q, norm } = place.value;
  const whose = functionOf(callees.tree, callees.tree.name[0]);
  const up = word.startsWith(UP);
  const parts = { callers: useHalf(callers, up ? word.slice(1) : "", q), callees: useHalf(callees, up ? "" : word, q) };
  const [active, activate] = useState<Part>(up ? "callers" : "callees");
  const at = parts[active];
  const { tree, shape } = at.reading;
  const fnAt = functionOf(tree, tree.name[at.selected]);
  const about = describe(at.reading, norm, at.selected);
  const zoom = (part: Part, node: number) => {
    const found = focusWord(parts[part].reading.tree, node);
    change({ focus: part === "callers" && found !== "" ? UP + found : found });
  };
  const stack = () => {
    const path = pathTo(shape, at.selected).map((node) => tree.names[tree.name[node]]);
    return (active === "callers" ? path.reverse() : path).join("\n");
  };
  const step = (by: 1 | -1) => {
    const next = at.found ? nextHit(at.found, shape, at.focus, at.selected, by) : -1;
    if (next >= 0) at.select(next);
  };
  const whole0 = () => change({ focus: "" });
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    n: () => step(1),
    N: () => step(-1),
    r: () => change({ collapse: !place.peek().collapse }),
    c: () => void copy(stack(), "Stack"),
    s: () => change(sandwichOf(fnAt)),
    l: () => { if (!tree.by) change(linesOf(fnAt)); },
    Escape: whole0,
    "0": whole0,
  });
  const half = (part: Part, title: string, words: string) => (
    <Half part={part} title={title} words={words} half={parts[part]} names={names}
      zoom={(node) => zoom(part, node)} select={(node) => { activate(part); parts[part].select(node); }} />
  );
  return (
    <section class="panel sandwich" aria-label="Sandwich">
      <div class="tools">
        <h2><bdi>{whose.slice(0, 300)}</bdi></h2>
        <button type="button" onClick={() => change({ fn: "", focus: "", q: "" })}>Other function</button>
        {!tree.by && <Link to={{ ...place.value, ...linesOf(whose) }} class="button" title="l">Lines</Link>}
        <CopyButton text={() => whose} what="Name">Copy name</CopyButton>
        <span class="gap" />
        <SearchBox />
        <span class="matched" role="status">{q === "" ? "" : plural(parts.callers.hits + parts.callees.hits, "frame")}</span>
        <button type="button" disabled={word === ""} title="Esc" onClick={whole0}>Whole graphs</button>
      </div>
      <p class="basis">{numbers(whole, callees, names)} Below, shares are of its total; a stack counts once, however often the function is in it.</p>
      {half("callers", "Called by", "its callers, the nearest first")}
      {half("callees", "Calls", "what it calls")}
      <div class="chosen">
        <div>
          <strong><bdi>{about.title}</bdi></strong>
          <Facts of={about.rows} />
        </div>
        <div class="acts">
          <button type="button" onClick={() => zoom(active, at.selected)} disabled={at.selected === at.focus} title="Enter">Zoom in</button>
          <CopyButton text={stack} what="Stack">Copy stack</CopyButton>
          <button type="button" disabled={fnAt === whose} title="s" onClick={() => change(sandwichOf(fnAt))}>Sandwich of it</button>
        </div>
      </div>
      <p class="unseen" role="status" aria-live="polite">{active === "callers" ? "Caller" : "Callee"} {sentence(about)}</p>
      {names.length === 2 && <ChangeLegend />}
    </section>
  );
}

interface HalfState {
  readonly reading: Reading;
  readonly found: Found | null;
  readonly hits: number;
  readonly lost: boolean;
  readonly focus: number;
  readonly selected: number;
  readonly select: (node: number) => void;
}

function useHalf(reading: Reading, word: string, q: string): HalfState {
  const { tree, shape } = reading;
  const found = useMemo(() => search(tree, q), [tree, q]);
  const wanted = useMemo(() => findFocus(tree, word), [tree, word]);
  const focus = Math.max(wanted, 0);
  const [chosen, select] = useState(focus);
  useLayoutEffect(() => select(focus), [tree, focus]);
  const selected = chosen < tree.level.length ? chosen : focus;
  const hits = found ? found.before[shape.end[focus]] - found.before[focus] : 0;
  return { reading, found, hits, lost: wanted < 0, focus, selected, select };
}

function Half({ part, title, words, half, names, zoom, select }: {
  part: Part; title: string; words: string; half: HalfState; names: readonly string[];
  zoom: (node: number) => void; select: (node: number) => void;
}) {
  const { norm, sig, colour } = place.value;
  const { reading, found, focus, selected } = half;
  const [hovered, hover] = useState(-1);
  const [top, scroll] = useState(0);
  const picture = useMemo(() => {
    const changes = names.length === 2 ? markChanges(reading) : null;
    const made = paint(names.length === 2 ? "difference" : "single", reading, names, norm, sig, {
      focus, hit: found?.hit ?? null, marksBefore: countBefore(found?.hit ?? null, changes),
    }, colour);
    return { ...made, label: `${title}, ${words}: ${reading.tree.level.length - 1} call paths, ${reading.shape.deepest} deep. Arrow keys walk, Enter zooms.` };
  }, [reading, found, focus, norm, sig, colour]);
  const alone = reading.tree.level.length === 1;
  return (
    <div class={`half ${part}`}>
      <h3>{title} <span class="quiet">{alone ? (part === "callers" ? "nothing: it is where stacks begin" : "nothing: all of its time is its own") : words}</span></h3>
      {half.lost && <p class="missing" role="status">The frame this address is zoomed into is not here. You see the whole graph.</p>}
      {!alone && <Graph picture={picture} selected={selected} hovered={hovered} zoom={zoom} select={select} hover={hover} scroll={scroll} top={top} />}
    </div>
  );
}

/** The function among everything, side by side. */
function numbers(whole: Reading, callees: Reading, names: readonly string[]): string {
  return names.map((_, side) => {
    const us = callees.us[side][0];
    const all = whole.us[side][0];
    const self = ownTime(callees, side);
    return `${names.length === 2 ? `${"AB"[side]}: ` : ""}total ${percent(all > 0 ? us / all : 0, 2)} of all (${microseconds(us)}, ${plural(callees.samples[side][0], "sample")}), self ${microseconds(self)}.`;
  }).join(" ");
}

/** All time that ended in the function, its inner frames of a recursion included. */
function ownTime({ tree }: Reading, side: number): number {
  let own = 0;
  for (let i = 0; i < tree.level.length; i++) if (tree.name[i] === tree.name[0]) own += tree.self[side][i];
  return own;
}
