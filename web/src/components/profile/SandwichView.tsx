import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { findPathKey, pathKey, nameKeyText } from "../../flamegraph/tree/focus.ts";
import { functionText, linesPlace, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { describeFrame, descriptionSentence } from "../../flamegraph/analysis/frameDescription.ts";
import { metricsOf, countBefore, markChanges, type TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { sandwich } from "../../flamegraph/tree/sandwich.ts";
import { nextHit, search, type SearchResult } from "../../flamegraph/analysis/search.ts";
import { pathTo } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { microseconds, percent } from "../../lib/numbers.ts";
import { SourceLink } from "../controls/SourceLink.tsx";
import { DefinitionList, Link } from "../ui/Controls.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { FunctionTable } from "../tables/FunctionTable.tsx";
import { FlameGraph } from "./FlameGraph.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ChangeLegend } from "./Legends.tsx";
import { notesByName } from "../notes/noteText.ts";
import { serviceNotes } from "../notes/serviceNotes.ts";
import { makePicture } from "./makePicture.ts";
import { SearchBox } from "../ui/SearchBox.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** Callers are zoomed into by a word behind this mark, callees by a plain one. */
const CALLERS_PREFIX = "^";

/** One function from both ends, of one side or of two. */
export function SandwichView({ metrics, names }: { metrics: TreeMetrics; names: readonly string[] }) {
  const { fn } = place.value;
  const both = useMemo(() => {
    const trees = fn === "" ? null : sandwich(metrics.tree, fn, metrics.divisor);
    return trees && { callers: metricsOf(trees.callers, metrics, metrics.significance), callees: metricsOf(trees.callees, metrics, metrics.significance) };
  }, [metrics, fn]);
  if (both) return <SandwichPanel key={fn} whole={metrics} callers={both.callers} callees={both.callees} names={names} />;
  return <FunctionChooser metrics={metrics} names={names} what={strings.seeWhoCallsIt} />;
}

/** The table as a way to choose a function; says so when the one in the address is not there. */
export function FunctionChooser({ metrics, names, what }: { metrics: TreeMetrics; names: readonly string[]; what: string }) {
  const { fn } = place.value;
  return (
    <>
      {fn !== "" && (
        <p class="missing" role="status">
          {strings.notInProfile(<bdi><code>{nameKeyText(fn).slice(0, 200)}</code></bdi>, place.value.t !== "")}
        </p>
      )}
      <p class="quiet">{strings.chooseFunctionTo(what)}</p>
      <FunctionTable metrics={metrics} names={names} onSelect={(name) => change({ ...sandwichPlace(name), view: place.peek().view })} />
    </>
  );
}

type SandwichPart = "callers" | "callees";

function SandwichPanel({ whole, callers, callees, names }: { whole: TreeMetrics; callers: TreeMetrics; callees: TreeMetrics; names: readonly string[] }) {
  const { focus: focusKey, q } = place.value;
  const functionName = functionText(callees.tree, callees.tree.name[0]);
  const isCallersFocus = focusKey.startsWith(CALLERS_PREFIX);
  const halves = { callers: useSandwichHalf(callers, isCallersFocus ? focusKey.slice(1) : "", q), callees: useSandwichHalf(callees, isCallersFocus ? "" : focusKey, q) };
  const [active, setActive] = useState<SandwichPart>(isCallersFocus ? "callers" : "callees");
  const at = halves[active];
  const { tree, shape } = at.metrics;
  const selectedFunction = functionText(tree, tree.name[at.selected]);
  const description = describeFrame(at.metrics, at.selected, at.focus);
  const zoom = (part: SandwichPart, node: number) => {
    const key = pathKey(halves[part].metrics.tree, node);
    change({ focus: part === "callers" && key !== "" ? CALLERS_PREFIX + key : key });
  };
  const stack = () => {
    const path = pathTo(shape, at.selected).map((node) => tree.names[tree.name[node]]);
    return (active === "callers" ? path.reverse() : path).join("\n");
  };
  const step = (by: 1 | -1) => {
    const next = at.result ? nextHit(at.result, shape, at.focus, at.selected, by) : -1;
    if (next >= 0) at.select(next);
  };
  const showWholeGraphs = () => change({ focus: "" });
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    n: () => step(1),
    N: () => step(-1),
    r: () => change({ collapse: !place.peek().collapse }),
    c: () => void copy(stack(), strings.stack),
    s: () => change(sandwichPlace(selectedFunction)),
    l: () => { if (!tree.by) change(linesPlace(selectedFunction)); },
    Escape: showWholeGraphs,
    "0": showWholeGraphs,
  });
  const half = (part: SandwichPart, title: string, words: string) => (
    <SandwichHalf part={part} title={title} hint={words} half={halves[part]} names={names}
      zoom={(node) => zoom(part, node)} select={(node) => { setActive(part); halves[part].select(node); }} />
  );
  return (
    <section class="panel sandwich" aria-label={strings.sandwich}>
      <div class="tools">
        <h2><bdi>{functionName.slice(0, 300)}</bdi></h2>
        <button type="button" onClick={() => change({ fn: "", focus: "", q: "" })}>{strings.otherFunction}</button>
        {!tree.by && <Link to={{ ...place.value, ...linesPlace(functionName) }} class="button" title="l">{strings.lines}</Link>}
        <CopyButton text={() => functionName} what={strings.nameLabel}>{strings.copyName}</CopyButton>
        <SourceLink frame={functionName} isButton />
        <span class="gap" />
        <SearchBox />
        <span class="matched" role="status">{q === "" ? "" : strings.frameCount(halves.callers.hits + halves.callees.hits)}</span>
        <button type="button" disabled={focusKey === ""} title={strings.esc} onClick={showWholeGraphs}>{strings.resetZoom}</button>
      </div>
      <p class="basis">{strings.sandwichNote(describeTotals(whole, callees, names))}</p>
      {half("callers", strings.calledBy, strings.itsCallersNearestFirst)}
      {half("callees", strings.calls, strings.whatItCalls)}
      <div class="chosen">
        <div>
          <strong><bdi>{description.title}</bdi></strong>
          <DefinitionList entries={description.rows} />
        </div>
        <div class="acts">
          <button type="button" onClick={() => zoom(active, at.selected)} disabled={at.selected === at.focus} title={strings.enter}>{strings.zoomIn}</button>
          <CopyButton text={stack} what={strings.stack}>{strings.copyStack}</CopyButton>
          <button type="button" disabled={selectedFunction === functionName} title="s" onClick={() => change(sandwichPlace(selectedFunction))}>{strings.sandwichOfFunction}</button>
        </div>
      </div>
      <p class="unseen" role="status" aria-live="polite">{active === "callers" ? strings.caller : strings.callee} {descriptionSentence(description)}</p>
      {names.length === 2 && <ChangeLegend metrics={whole} />}
    </section>
  );
}

interface SandwichHalfState {
  readonly metrics: TreeMetrics;
  readonly result: SearchResult | null;
  readonly hits: number;
  readonly isFocusMissing: boolean;
  readonly focus: number;
  readonly selected: number;
  readonly select: (node: number) => void;
}

function useSandwichHalf(metrics: TreeMetrics, word: string, q: string): SandwichHalfState {
  const { tree, shape } = metrics;
  const result = useMemo(() => search(tree, q), [tree, q]);
  const focusNode = useMemo(() => findPathKey(tree, word), [tree, word]);
  const focus = Math.max(focusNode, 0);
  const [stored, setSelected] = useState(focus);
  useLayoutEffect(() => setSelected(focus), [tree, focus]);
  const selected = stored < tree.level.length ? stored : focus;
  const hits = result ? result.hitsBefore[shape.end[focus]] - result.hitsBefore[focus] : 0;
  return { metrics, result, hits, isFocusMissing: focusNode < 0, focus, selected, select: setSelected };
}

function SandwichHalf({ part, title, hint, half, names, zoom, select }: {
  part: SandwichPart; title: string; hint: string; half: SandwichHalfState; names: readonly string[];
  zoom: (node: number) => void; select: (node: number) => void;
}) {
  const { sig, colour } = place.value;
  const { metrics, result, focus, selected } = half;
  const notes = serviceNotes.value;
  const [hovered, setHovered] = useState(-1);
  const [top, setTop] = useState(0);
  const picture = useMemo(() => {
    const changes = names.length === 2 ? markChanges(metrics) : null;
    const base = makePicture(names.length === 2 ? "difference" : "single", metrics, names, sig, {
      focus, hit: result?.hit ?? null, marksBefore: countBefore(result?.hit ?? null, changes), isUpward: part === "callers",
    }, colour, notesByName(metrics.tree, notes ?? []));
    return { ...base, label: strings.halfDescription(title, hint, metrics.tree.level.length - 1, metrics.shape.deepest) };
  }, [metrics, result, focus, sig, colour, notes]);
  const isRootOnly = metrics.tree.level.length === 1;
  return (
    <div class={`half ${part}`}>
      <h3>{title} <span class="quiet">{isRootOnly ? (part === "callers" ? strings.noCallers : strings.noCallees) : hint}</span></h3>
      {half.isFocusMissing && <p class="missing" role="status">{strings.halfFocusMissing}</p>}
      {!isRootOnly && <FlameGraph picture={picture} selected={selected} hovered={hovered} zoom={zoom} select={select} hover={setHovered} scroll={setTop} top={top} />}
    </div>
  );
}

/** The function among everything, side by side. */
function describeTotals(whole: TreeMetrics, callees: TreeMetrics, names: readonly string[]): string {
  return names.map((_, side) => {
    const us = callees.us[side][0];
    const total = whole.us[side][0];
    const self = totalSelfTime(callees, side);
    return strings.functionTotals(names.length === 2 ? `${"AB"[side]}: ` : "", percent(total > 0 ? us / total : 0, 2), microseconds(us), callees.samples[side][0], microseconds(self));
  }).join(" ");
}

/** All time that ended in the function, its inner frames of a recursion included. */
function totalSelfTime({ tree }: TreeMetrics, side: number): number {
  let total = 0;
  for (let i = 0; i < tree.level.length; i++) if (tree.name[i] === tree.name[0]) total += tree.self[side][i];
  return total;
}
