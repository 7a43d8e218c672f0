import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Camera } from "../../flamegraph/render/camera.ts";
import { findPathKey, firstLevel, nameKey, pathKeyName, pathKey } from "../../flamegraph/tree/focus.ts";
import { functionText, linesPlace, frameActions, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { describeFrame, descriptionSentence } from "../../flamegraph/analysis/frameDescription.ts";
import { countBefore, markChanges, type TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { matchedShare, nextHit, search, searchable, type SearchResult } from "../../flamegraph/analysis/search.ts";
import { pathTo } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { percent } from "../../lib/numbers.ts";
import type { FlameGraphView } from "../../flamegraph/render/flameGraphView.ts";
import { FrameDetails, isDocked } from "./FrameDetails.tsx";
import { ColourPicker, legendEntries, MissingStatesNotice } from "./ColourPicker.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { Toggle } from "../ui/Controls.tsx";
import { FlameGraph } from "./FlameGraph.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ChangeLegend, CHANGE_LEGEND, ColourLegend } from "./Legends.tsx";
import { ContextMenu } from "../ui/ContextMenu.tsx";
import { makePicture } from "./makePicture.ts";
import { PinnedTooltip } from "./PinnedTooltip.tsx";
import { FunctionNotesButton } from "../notes/NotesButton.tsx";
import { openNotes, serviceNotes } from "../notes/serviceNotes.ts";
import { noteLines, notesByName, withNotes } from "../notes/noteText.ts";
import { buildCaption, PictureButtons, type PictureSide } from "./PictureButtons.tsx";
import { SearchBox } from "../ui/SearchBox.tsx";
import { Toolbar } from "../ui/Toolbar.tsx";
import { sourceItems, SourceLink } from "../controls/SourceLink.tsx";
import { DirectionMenu } from "./ProfileControls.tsx";
import type { TableLink } from "../tables/FunctionRow.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/**
 * Zoom, search and walk over one tree: a single graph, a differential one, or the two sides linked. `table` draws a table
 * beside it that points at the same functions.
 */
export function FlamePanel({ metrics, names, sides = [], controls, table }: {
  metrics: TreeMetrics; names: readonly string[]; sides?: readonly PictureSide[]; controls?: ComponentChildren; table?: (link: TableLink) => ComponentChildren;
}) {
  const { focus: focusKey, q, view, sig, colour, fn } = place.value;
  const { tree, shape } = metrics;
  const isUpward = place.value.roots === "bottom" && !place.value.invert;
  const result = useMemo(() => search(tree, q), [tree, q]);
  const focusNode = useMemo(() => findPathKey(tree, focusKey), [tree, focusKey]);
  const focus = Math.max(focusNode, 0);
  const changes = useMemo(() => (names.length === 2 ? markChanges(metrics) : null), [metrics]);
  const [selected, setSelected] = useState(focus);
  const [hovered, setHovered] = useState(-1);
  const [top, setTop] = useState(0);
  const camera = useMemo(() => new Camera(), []);
  const [isMoved, setIsMoved] = useState(false);
  const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
  const [pinned, setPinned] = useState<{ node: number; x: number; y: number } | null>(null);
  const [isUnfolded, setUnfolded] = useState(false);
  const [pointedRow, setPointedRow] = useState(-1);
  const views = useRef<FlameGraphView[]>([]);
  useEffect(() => camera.listen(() => setIsMoved(camera.moved)), []);
  useLayoutEffect(() => {
    setSelected(focus);
    camera.reset();
    setMenu(null);
    setPinned(null);
  }, [tree, focus]);
  const current = selected < tree.level.length ? selected : focus;
  useLayoutEffect(() => setPinned((last) => (last && last.node !== current ? null : last)), [current]);

  const kinds = names.length === 1 ? (["single"] as const) : view === "sides" ? (["a", "b"] as const) : (["difference"] as const);
  const first = useMemo(() => firstLevel(tree, shape, metrics.total, focus), [metrics, focus]);
  const base = isUnfolded ? 0 : first;
  const notes = serviceNotes.value;
  const noted = useMemo(() => notesByName(tree, notes ?? []), [tree, notes]);
  const pictures = useMemo(() => {
    const marksBefore = countBefore(result?.hit ?? null, kinds[0] === "difference" ? changes : null);
    return kinds.map((kind) => makePicture(kind, metrics, names, sig, { focus, base, hit: result?.hit ?? null, marksBefore, isUpward }, colour, noted));
  }, [metrics, result, focus, base, changes, sig, colour, kinds[0], isUpward, noted]);

  // Of a table beside the graph: its function under the pointer, else the one that is selected there.
  const chosenName = useMemo(() => (table && fn !== "" ? tree.names.findIndex((_, name) => nameKey(functionText(tree, name)) === fn) : -1), [tree, fn, !table]);
  const linkedName = pointedRow >= 0 ? pointedRow : chosenName;
  const isLinked = useMemo(() => (linkedName < 0 ? null : (node: number) => tree.name[node] === linkedName), [tree, linkedName]);
  const selectName = (name: number) => {
    const isChosen = name === chosenName;
    change({ fn: isChosen ? "" : nameKey(functionText(tree, name)) }, "replace");
    if (!isChosen) setSelected(widestOf(metrics, name, focus));
  };

  const zoom = (node: number) => {
    camera.reset();
    change({ focus: pathKey(tree, node) });
  };
  const path = () => pathTo(shape, current).slice(1).map((node) => tree.names[tree.name[node]]);
  const stack = () => path().join("\n");
  const dock = () => {
    if (hovered >= 0 && hovered !== current) setSelected(hovered);
    isDocked.value = (hovered >= 0 && hovered !== current) || !isDocked.value;
  };
  const step = (by: 1 | -1) => {
    const next = result ? nextHit(result, shape, focus, current, by) : -1;
    if (next >= 0) setSelected(next);
  };
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    n: () => step(1),
    N: () => step(-1),
    i: () => change({ invert: !place.peek().invert, focus: "" }),
    r: () => change({ collapse: !place.peek().collapse }),
    c: () => void copy(stack(), strings.stack),
    s: () => { if (current > 0) change(sandwichPlace(functionText(tree, tree.name[current]))); },
    l: () => { if (current > 0 && !tree.by) change(linesPlace(functionText(tree, tree.name[current]))); },
    d: dock,
    t: () => (views.current.find((view) => view.isPointedAt) ?? views.current[0])?.pin(),
    Escape: () => zoom(0),
    "0": () => zoom(0),
  });

  const matches = useMemo(() => result && {
    frames: result.hitsBefore[shape.end[focus]] - result.hitsBefore[focus],
    share: shareOfMatches(metrics, result, q, focus),
  }, [result, metrics, focus, q]);
  const side = kinds[0] === "difference" ? null : 0;
  const legend = useMemo(() => (side === null ? [] : legendEntries(metrics, colour, side, focus)), [metrics, focus, colour, side]);
  const description = withNotes(describeFrame(metrics, current, focus), noted.get(tree.name[current]));
  const hasFunction = current > 0 && !tree.by;
  const copies = () => {
    const { function: name, file, line } = frameParts(description.title);
    return [
      { label: strings.copyFunction, act: () => void copy(name, strings.functionLabel) },
      { label: strings.copyStack, key: "c", act: () => void copy(stack(), strings.stack) },
      ...(file === "" ? [] : [{ label: line === "" ? strings.copyFile : strings.copyFileAndLine, act: () => void copy(line === "" ? file : `${file}:${line}`, strings.file) }]),
    ];
  };
  const actions = () => {
    const pin = menu;
    return [[
      ...(current === focus && !isMoved ? [] : [{ label: strings.zoomIn, key: "Enter", act: () => zoom(current) }]),
      ...(focusKey === "" && !isMoved ? [] : [{ label: strings.resetZoom, key: strings.esc, act: () => zoom(0) }]),
      ...(current === 0 ? [] : [{ label: strings.highlightAll, act: () => change({ q: searchable(description.title) }) }]),
      { label: isDocked.value ? strings.hideDetailsPanel : strings.showDetailsPanel, key: "d", act: () => (isDocked.value = !isDocked.value) },
      ...(pin ? [{ label: strings.keepTooltip, key: "t", act: () => setPinned(pin) }] : []),
    ], frameActions(tree, current, place.value).map(({ label, key, changes: to }) => ({ label, key, act: () => change(to) })), [
      ...copies(),
      ...sourceItems(description.title),
      ...(notes && hasFunction ? [{ label: strings.notesMenu, act: () => openNotes({ fn: functionText(tree, tree.name[current]) }) }] : []),
    ]];
  };
  const captionFor = (at: number) => {
    const { title, lines } = buildCaption(metrics, names, focus, at, matches);
    return { title, lines: [...lines, ...noteLines(tree, noted)] };
  };
  return (
    <section class="panel graphs" aria-label={strings.flameGraph}>
      <GraphTools controls={controls} zoomed={focusKey !== "" || isMoved} showAll={() => zoom(0)} hasColours={side !== null && names.length === 1} />
      {side !== null && <MissingStatesNotice metrics={metrics} />}
      {focusNode < 0 && (
        <p class="missing" role="status">
          {strings.focusMissing(<bdi><code>{pathKeyName(focusKey)}</code></bdi>)}{" "}<button type="button" onClick={() => change({ focus: "" }, "replace")}>{strings.clearZoom}</button>
        </p>
      )}
      <div class="folded-line">
      <FoldedCallers path={first > 0 ? pathTo(shape, focus > 0 ? shape.parent[focus] : first - 1) : []} nameOf={(node) => tree.names[tree.name[node]]} isUnfolded={isUnfolded} toggle={() => setUnfolded(!isUnfolded)} zoom={zoom} />
      {matches && <Matches {...matches} step={step} />}
      </div>
      <div class={table ? "split" : "whole"}>
      {table?.({ pointed: hovered < 0 ? -1 : tree.name[hovered], selected: current > 0 ? tree.name[current] : -1, hover: setPointedRow, select: selectName })}
      <div class={isDocked.value && !table ? "beside" : "unsided"}>
      <div class={kinds.length === 2 ? "pair" : ""}>
        {pictures.map((picture, at) => (
          <div key={kinds[at]} class="graph" style={kinds.length === 2 ? { width: `${sideWidth(metrics, focus, at) * 100}%` } : undefined}>
            {kinds.length === 2 && <h2><span class={`side side-${at === 0 ? "a" : "b"}`}>{at === 0 ? "A" : "B"}</span> <bdi>{names[at].slice(2)}</bdi></h2>}
            <FlameGraph picture={picture} selected={current} hovered={hovered} isLinked={isLinked} zoom={zoom} select={setSelected} hover={setHovered} scroll={setTop} top={top}
              camera={camera} onCreated={(view) => { views.current[at] = view; }} tap={() => (isDocked.value = true)} menu={(node, x, y) => setMenu({ node, x, y })} pin={(node, x, y) => setPinned({ node, x, y })} />
          </div>
        ))}
      </div>
      <FrameDetails description={description} callers={() => path().slice(0, -1)} canDock={!table}>
        <button type="button" onClick={() => zoom(current)} disabled={current === focus && !isMoved} title={strings.enter}>{strings.zoomIn}</button>
        <CopyButton text={stack} what={strings.stack}>{strings.copyStack}</CopyButton>
        <SourceLink frame={description.title} isButton />
        <button type="button" onClick={() => change(sandwichPlace(functionText(tree, tree.name[current])))} disabled={current === 0} title="s">{strings.sandwich}</button>
        {!tree.by && <button type="button" onClick={() => change(linesPlace(functionText(tree, tree.name[current])))} disabled={current === 0} title="l">{strings.lines}</button>}
        <button type="button" onClick={() => change({ q: searchable(description.title) })} disabled={current === 0}>{strings.highlightAll}</button>
        {!tree.by && <FunctionNotesButton fn={functionText(tree, tree.name[current])} disabled={current === 0} />}
      </FrameDetails>
      </div>
      </div>
      {menu && <ContextMenu label={strings.actionsFor(description.title.slice(0, 80))} x={menu.x} y={menu.y} groups={actions()} close={() => setMenu(null)} />}
      {pinned && pinned.node === current && (
        <PinnedTooltip key={pinned.node} description={description} x={pinned.x} y={pinned.y} close={() => setPinned(null)}>
          <SourceLink frame={description.title} isButton />
          {copies().map(({ label, act }) => <button key={label} type="button" onClick={act}>{label}</button>)}
          {hasFunction && <FunctionNotesButton fn={functionText(tree, tree.name[current])} disabled={false} />}
        </PinnedTooltip>
      )}
      <p class="unseen" role="status" aria-live="polite">{descriptionSentence(description)}</p>
      <div class="under">
        {side === null ? <ChangeLegend metrics={metrics} /> : <ColourLegend entries={legend} label={LEGEND_LABELS[colour === "state" && !metrics.states ? "package" : colour]} />}
        <PictureButtons views={() => kinds.flatMap((_, at) => views.current[at]?.visible() ?? [])} captionFor={captionFor} sides={sides}
          legend={() => (side === null ? CHANGE_LEGEND : legend.map(({ name, value: number, colour: fill }) => ({ name: `${name} ${number}`.trim(), colour: fill })))} />
      </div>
    </section>
  );
}

const LEGEND_LABELS = { package: strings.packagesBySelfTime, state: strings.states, self: strings.selfTime } as const;

/** The share of stacks with a match. Upside down, small groups of callers are merged, so all of a tree is searched upright. */
function shareOfMatches({ upright, shape, total }: TreeMetrics, result: SearchResult, q: string, focus: number): number {
  const found = upright && focus === 0 ? search(upright.tree, q) : null;
  return upright && found ? matchedShare(found, upright.shape, upright.total, 0) : matchedShare(result, shape, total, focus);
}

/** The widest frame of a function, of what is zoomed into. */
function widestOf({ tree, shape, total }: TreeMetrics, name: number, focus: number): number {
  let widest = focus;
  for (let node = focus; node < shape.end[focus]; node++) {
    if (tree.name[node] === name && (tree.name[widest] !== name || total[node] > total[widest])) widest = node;
  }
  return widest;
}

/** The callers of the rows that are drawn, in one line: the outermost and the nearest lead to them. Without any the line keeps its place, so that no zoom moves the graph. */
function FoldedCallers({ path, nameOf, isUnfolded, toggle, zoom }: {
  path: readonly number[]; nameOf: (node: number) => string; isUnfolded: boolean; toggle: () => void; zoom: (node: number) => void;
}) {
  if (path.length === 0) return <div class="folded" />;
  const shown = path.length > 5 ? [...path.slice(0, 2), ...path.slice(-3)] : path;
  return (
    <Toolbar class="folded" label={strings.callersOfTheseFrames}>
      <button type="button" aria-expanded={isUnfolded} onClick={toggle}>{isUnfolded ? "▾" : "▸"} {strings.frameCount(path.length)}</button>
      {!isUnfolded && shown.map((node, at) => (
        <Fragment key={node}>
          {at > 0 && <span class="quiet" aria-hidden="true">{path.length > 5 && at === 2 ? "› … ›" : "›"}</span>}
          <button type="button" title={nameOf(node)} onClick={() => zoom(node)}><bdi>{frameParts(nameOf(node)).function.slice(0, 60)}</bdi></button>
        </Fragment>
      ))}
    </Toolbar>
  );
}

/** How much of its column a graph side by side takes: both have one scale, unless each is drawn as its own whole. */
function sideWidth({ us, divisor, norm }: TreeMetrics, focus: number, side: number): number {
  const rates = us.map((column, at) => (divisor[at] > 0 ? column[focus] / divisor[at] : 0));
  const largest = Math.max(...rates);
  return norm === "share" || largest === 0 ? 1 : Math.max(rates[side] / largest, MIN_SIDE_WIDTH);
}

/** So that the name of an empty side can be read. */
const MIN_SIDE_WIDTH = 0.12;

/** What a search found, in a line that is always there: it moves no tool and no graph. */
const Matches = ({ frames, share, step }: { frames: number; share: number; step: (by: 1 | -1) => void }) => (
  <span class="matched" role="status">
    {frames === 0 ? strings.noMatch : strings.frame(frames, percent(share))}
    <button type="button" class="square" disabled={frames === 0} aria-label={strings.previousMatch} title="N" onClick={() => step(-1)}>‹</button>
    <button type="button" class="square" disabled={frames === 0} aria-label={strings.nextMatch} title="n" onClick={() => step(1)}>›</button>
  </span>
);

function GraphTools({ controls, zoomed, showAll, hasColours }: {
  controls: ComponentChildren; zoomed: boolean; showAll: () => void; hasColours: boolean;
}) {
  const { collapse } = place.value;
  return (
    <div class="tools">
      <SearchBox />
      <Toolbar class="grow" label={strings.graphTools}>
        {controls}
        <span class="gap" />
        {hasColours && <ColourPicker />}
        <DirectionMenu />
        {(!controls || collapse) && <Toggle isOn={collapse} title={strings.foldRecursionHint} onToggle={() => change({ collapse: !collapse })}>{strings.foldRecursion}</Toggle>}
        <button type="button" disabled={!zoomed} title={strings.esc} onClick={showAll}>{strings.resetZoom}</button>
      </Toolbar>
    </div>
  );
}
