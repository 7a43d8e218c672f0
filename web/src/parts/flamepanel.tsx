import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { findFocus, focusName, focusWord } from "../flame/focus.ts";
import { functionOf, linesOf, sandwichOf } from "../flame/offers.ts";
import { describe, packageLegend, sentence } from "../flame/pictures.ts";
import { countBefore, markChanges, type Reading } from "../flame/reading.ts";
import { matchedShare, nextHit, search, searchable } from "../flame/search.ts";
import { pathTo } from "../flame/tree.ts";
import { change, place } from "../location.ts";
import { percent, plural } from "../numbers.ts";
import { copy, CopyButton } from "./copying.tsx";
import { Toggle } from "./basics.tsx";
import { Graph } from "./graph.tsx";
import { useKeys } from "./keys.ts";
import { ChangeLegend, PackageLegend } from "./legends.tsx";
import { paint } from "./paint.ts";
import { SearchBox } from "./searchbox.tsx";

/** Zoom, search and walk over one tree: a single graph, a differential one, or the two sides linked. */
export function FlamePanel({ reading, names }: { reading: Reading; names: readonly string[] }) {
  const { focus: word, q, norm, view, sig } = place.value;
  const { tree, shape } = reading;
  const found = useMemo(() => search(tree, q), [tree, q]);
  const wanted = useMemo(() => findFocus(tree, word), [tree, word]);
  const focus = Math.max(wanted, 0);
  const changes = useMemo(() => (names.length === 2 ? markChanges(reading) : null), [reading]);
  const [selected, setSelected] = useState(focus);
  const [hovered, setHovered] = useState(-1);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setSelected(focus), [tree, focus]);
  const chosen = selected < tree.level.length ? selected : focus;

  const kinds = names.length === 1 ? (["single"] as const) : view === "sides" ? (["a", "b"] as const) : (["difference"] as const);
  const pictures = useMemo(() => {
    const marksBefore = countBefore(found?.hit ?? null, kinds[0] === "difference" ? changes : null);
    return kinds.map((kind) => paint(kind, reading, names, norm, sig, { focus, hit: found?.hit ?? null, marksBefore }));
  }, [reading, found, focus, changes, norm, sig, kinds[0]]);

  const zoom = (node: number) => change({ focus: focusWord(tree, node) });
  const stack = () => pathTo(shape, chosen).slice(1).map((node) => tree.names[tree.name[node]]).join("\n");
  const step = (by: 1 | -1) => {
    const next = found ? nextHit(found, shape, focus, chosen, by) : -1;
    if (next >= 0) setSelected(next);
  };
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    n: () => step(1),
    N: () => step(-1),
    i: () => change({ invert: !place.peek().invert, focus: "" }),
    r: () => change({ collapse: !place.peek().collapse }),
    c: () => void copy(stack(), "Stack"),
    s: () => { if (chosen > 0) change(sandwichOf(functionOf(tree, tree.name[chosen]))); },
    l: () => { if (chosen > 0 && !tree.by) change(linesOf(functionOf(tree, tree.name[chosen]))); },
    Escape: () => change({ focus: "" }),
    "0": () => change({ focus: "" }),
  });

  const matched = useMemo(() => found && {
    frames: found.before[shape.end[focus]] - found.before[focus],
    share: matchedShare(found, shape, reading.total, focus),
  }, [found, reading, focus]);
  const legend = useMemo(() => packageLegend(reading, focus, 8), [reading, focus]);
  const about = describe(reading, norm, chosen);
  return (
    <section class="panel" aria-label="Flame graph">
      <Tools matched={matched} step={step} focused={word !== ""} />
      {wanted < 0 && (
        <p class="missing" role="status">
          The frame this address is zoomed into, <bdi><code>{focusName(word)}</code></bdi>, is not in this profile at that place.
          You see the whole graph. <button type="button" onClick={() => change({ focus: "" }, "replace")}>Forget the zoom</button>
        </p>
      )}
      <div class={kinds.length === 2 ? "pair" : ""}>
        {pictures.map((picture, at) => (
          <div key={kinds[at]} class="graph">
            {kinds.length === 2 && <h2><span class={`side side-${at === 0 ? "a" : "b"}`}>{at === 0 ? "A" : "B"}</span> <bdi>{names[at].slice(2)}</bdi></h2>}
            <Graph picture={picture} selected={chosen} hovered={hovered} zoom={zoom} select={setSelected} hover={setHovered} scroll={setTop} top={top} />
          </div>
        ))}
      </div>
      <div class="chosen">
        <div>
          <strong><bdi>{about.title}</bdi></strong>
          <dl>{about.rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
        </div>
        <div class="acts">
          <button type="button" onClick={() => zoom(chosen)} disabled={chosen === focus} title="Enter">Zoom in</button>
          <CopyButton text={stack} what="Stack">Copy stack</CopyButton>
          <button type="button" onClick={() => change(sandwichOf(functionOf(tree, tree.name[chosen])))} disabled={chosen === 0} title="s">Sandwich</button>
          {!tree.by && <button type="button" onClick={() => change(linesOf(functionOf(tree, tree.name[chosen])))} disabled={chosen === 0} title="l">Lines</button>}
          <button type="button" onClick={() => change({ q: searchable(about.title) })} disabled={chosen === 0}>Find everywhere</button>
        </div>
      </div>
      <p class="unseen" role="status" aria-live="polite">{sentence(about)}</p>
      {kinds[0] === "difference" ? <ChangeLegend /> : <PackageLegend entries={legend} />}
      {place.value.invert && <p class="quiet">Inverted: callers below each function; groups under 0.025 % of the whole are not opened further.</p>}
    </section>
  );
}

function Tools({ matched, step, focused }: {
  matched: { frames: number; share: number } | null; step: (by: 1 | -1) => void; focused: boolean;
}) {
  const { invert, collapse } = place.value;
  return (
    <div class="tools">
      <SearchBox />
      {matched && (
        <span class="matched" role="status">
          {matched.frames === 0 ? "no match" : `${plural(matched.frames, "frame")} · ${percent(matched.share)}`}
          <button type="button" class="square" disabled={matched.frames === 0} aria-label="Previous match" title="N" onClick={() => step(-1)}>‹</button>
          <button type="button" class="square" disabled={matched.frames === 0} aria-label="Next match" title="n" onClick={() => step(1)}>›</button>
        </span>
      )}
      <span class="gap" />
      <Toggle on={invert} title="i" flip={() => change({ invert: !invert, focus: "" })}>Inverted</Toggle>
      <Toggle on={collapse} title="r: a function directly below itself is drawn once" flip={() => change({ collapse: !collapse })}>Collapse recursion</Toggle>
      <button type="button" disabled={!focused} title="Esc" onClick={() => change({ focus: "" })}>Whole graph</button>
    </div>
  );
}
