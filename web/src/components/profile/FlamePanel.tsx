import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Camera } from "../../flamegraph/render/camera.ts";
import { findFocus, focusName, focusWord } from "../../flamegraph/tree/focus.ts";
import { functionOf, linesOf, offers, sandwichOf } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { describe, sentence } from "../../flamegraph/analysis/frameDescription.ts";
import { countBefore, markChanges, type Reading } from "../../flamegraph/analysis/treeMetrics.ts";
import { matchedShare, nextHit, search, searchable } from "../../flamegraph/analysis/search.ts";
import { pathTo } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { percent, plural } from "../../lib/numbers.ts";
import type { FlameView } from "../../flamegraph/render/flameGraphView.ts";
import { Chosen, docked } from "./FrameDetails.tsx";
import { Colouring, entriesOf, NoStates } from "./ColourPicker.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { Toggle } from "../ui/Controls.tsx";
import { Graph } from "./FlameGraph.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ChangeLegend, CHANGES, ColourLegend } from "./Legends.tsx";
import { Menu } from "../ui/ContextMenu.tsx";
import { paint } from "./makePicture.ts";
import { captionOf, PictureFiles, type PictureSide } from "./PictureButtons.tsx";
import { SearchBox } from "../ui/SearchBox.tsx";

/** Zoom, search and walk over one tree: a single graph, a differential one, or the two sides linked. */
export function FlamePanel({ reading, names, sides = [] }: { reading: Reading; names: readonly string[]; sides?: readonly PictureSide[] }) {
  const { focus: word, q, norm, view, sig, colour } = place.value;
  const { tree, shape } = reading;
  const found = useMemo(() => search(tree, q), [tree, q]);
  const wanted = useMemo(() => findFocus(tree, word), [tree, word]);
  const focus = Math.max(wanted, 0);
  const changes = useMemo(() => (names.length === 2 ? markChanges(reading) : null), [reading]);
  const [selected, setSelected] = useState(focus);
  const [hovered, setHovered] = useState(-1);
  const [top, setTop] = useState(0);
  const camera = useMemo(() => new Camera(), []);
  const [moved, setMoved] = useState(false);
  const [menu, openMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const shown = useRef<FlameView[]>([]);
  useEffect(() => camera.listen(() => setMoved(camera.moved)), []);
  useLayoutEffect(() => {
    setSelected(focus);
    camera.reset();
    openMenu(null);
  }, [tree, focus]);
  const chosen = selected < tree.level.length ? selected : focus;

  const kinds = names.length === 1 ? (["single"] as const) : view === "sides" ? (["a", "b"] as const) : (["difference"] as const);
  const pictures = useMemo(() => {
    const marksBefore = countBefore(found?.hit ?? null, kinds[0] === "difference" ? changes : null);
    return kinds.map((kind) => paint(kind, reading, names, norm, sig, { focus, hit: found?.hit ?? null, marksBefore }, colour));
  }, [reading, found, focus, changes, norm, sig, colour, kinds[0]]);

  const zoom = (node: number) => {
    camera.reset();
    change({ focus: focusWord(tree, node) });
  };
  const path = () => pathTo(shape, chosen).slice(1).map((node) => tree.names[tree.name[node]]);
  const stack = () => path().join("\n");
  const dock = () => {
    if (hovered >= 0 && hovered !== chosen) setSelected(hovered);
    docked.value = (hovered >= 0 && hovered !== chosen) || !docked.value;
  };
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
    d: dock,
    Escape: () => zoom(0),
    "0": () => zoom(0),
  });

  const matched = useMemo(() => found && {
    frames: found.before[shape.end[focus]] - found.before[focus],
    share: matchedShare(found, shape, reading.total, focus),
  }, [found, reading, focus]);
  const side = kinds[0] === "difference" ? null : 0;
  const legend = useMemo(() => (side === null ? [] : entriesOf(reading, colour, side, focus)), [reading, focus, colour, side]);
  const about = describe(reading, norm, chosen);
  const actions = () => {
    const { function: name, file, line } = frameParts(about.title);
    return [[
      ...(chosen === focus && !moved ? [] : [{ label: "Zoom in", key: "Enter", act: () => zoom(chosen) }]),
      ...(word === "" && !moved ? [] : [{ label: "Whole graph", key: "Esc", act: () => zoom(0) }]),
      ...(chosen === 0 ? [] : [{ label: "Find everywhere", act: () => change({ q: searchable(about.title) }) }]),
      { label: docked.value ? "Undock details" : "Dock details", key: "d", act: () => (docked.value = !docked.value) },
    ], offers(tree, chosen, place.value).map(({ label, key, to }) => ({ label, key, act: () => change(to) })), [
      { label: "Copy function", act: () => void copy(name, "Function") },
      { label: "Copy stack", key: "c", act: () => void copy(stack(), "Stack") },
      ...(file === "" ? [] : [{ label: line === "" ? "Copy file" : "Copy file and line", act: () => void copy(line === "" ? file : `${file}:${line}`, "File") }]),
    ]];
  };
  const said = (at: number) => captionOf(reading, names, focus, at, matched);
  return (
    <section class="panel" aria-label="Flame graph">
      <Tools matched={matched} step={step} zoomed={word !== "" || moved} whole={() => zoom(0)} coloured={side !== null} />
      {side !== null && <NoStates reading={reading} />}
      {wanted < 0 && (
        <p class="missing" role="status">
          The frame this address is zoomed into, <bdi><code>{focusName(word)}</code></bdi>, is not in this profile at that place.
          You see the whole graph. <button type="button" onClick={() => change({ focus: "" }, "replace")}>Forget the zoom</button>
        </p>
      )}
      <div class={docked.value ? "beside" : ""}>
      <div class={kinds.length === 2 ? "pair" : ""}>
        {pictures.map((picture, at) => (
          <div key={kinds[at]} class="graph">
            {kinds.length === 2 && <h2><span class={`side side-${at === 0 ? "a" : "b"}`}>{at === 0 ? "A" : "B"}</span> <bdi>{names[at].slice(2)}</bdi></h2>}
            <Graph picture={picture} selected={chosen} hovered={hovered} zoom={zoom} select={setSelected} hover={setHovered} scroll={setTop} top={top}
              camera={camera} made={(view) => { shown.current[at] = view; }} tap={() => (docked.value = true)} menu={(node, x, y) => openMenu({ node, x, y })} />
          </div>
        ))}
      </div>
      <Chosen about={about} callers={() => path().slice(0, -1)}>
        <button type="button" onClick={() => zoom(chosen)} disabled={chosen === focus && !moved} title="Enter">Zoom in</button>
        <CopyButton text={stack} what="Stack">Copy stack</CopyButton>
        <button type="button" onClick={() => change(sandwichOf(functionOf(tree, tree.name[chosen])))} disabled={chosen === 0} title="s">Sandwich</button>
        {!tree.by && <button type="button" onClick={() => change(linesOf(functionOf(tree, tree.name[chosen])))} disabled={chosen === 0} title="l">Lines</button>}
        <button type="button" onClick={() => change({ q: searchable(about.title) })} disabled={chosen === 0}>Find everywhere</button>
      </Chosen>
      </div>
      {menu && <Menu label={`Actions for ${about.title.slice(0, 80)}`} x={menu.x} y={menu.y} groups={actions()} close={() => openMenu(null)} />}
      <p class="unseen" role="status" aria-live="polite">{sentence(about)}</p>
      <div class="under">
        {side === null ? <ChangeLegend /> : <ColourLegend entries={legend} label={LEGENDS[colour === "state" && !reading.states ? "package" : colour]} />}
        <PictureFiles views={() => kinds.flatMap((_, at) => shown.current[at]?.inView() ?? [])} said={said} sides={sides}
          legend={() => (side === null ? CHANGES : legend.map(({ name, said: number, colour: fill }) => ({ name: `${name} ${number}`.trim(), colour: fill })))} />
      </div>
      {place.value.invert && <p class="quiet">Inverted: callers below each function; groups under 0.025 % of the whole are not opened further.</p>}
    </section>
  );
}

const LEGENDS = { package: "Packages by own time", state: "States", self: "Own time" } as const;

function Tools({ matched, step, zoomed, whole, coloured }: {
  matched: { frames: number; share: number } | null; step: (by: 1 | -1) => void; zoomed: boolean; whole: () => void; coloured: boolean;
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
      {coloured && <Colouring />}
      <Toggle on={invert} title="i" flip={() => change({ invert: !invert, focus: "" })}>Inverted</Toggle>
      <Toggle on={collapse} title="r: a function directly below itself is drawn once" flip={() => change({ collapse: !collapse })}>Collapse recursion</Toggle>
      <button type="button" disabled={!zoomed} title="Esc" onClick={whole}>Whole graph</button>
    </div>
  );
}
