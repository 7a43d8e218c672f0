import { useEffect, useMemo, useState } from "preact/hooks";
import { findPathKey, pathKeyName } from "../../flamegraph/tree/focus.ts";
import { isSignificant } from "../../flamegraph/analysis/significance.ts";
import { functionText, linesPlace, nameActions, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { rankFunctions } from "../../flamegraph/analysis/ranking.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { nameMatcher } from "../../flamegraph/analysis/search.ts";
import { functionSums } from "../../flamegraph/analysis/functionSums.ts";
import { signal } from "../../lib/signals.ts";
import { change, place } from "../../lib/location.ts";
import { linkedSort } from "../../lib/viewOptions.ts";
import { count } from "../../strings/counts.ts";
import { openNotes, serviceNotes } from "../notes/serviceNotes.ts";
import { notesByName } from "../notes/noteText.ts";
import { sourceItems } from "../controls/SourceLink.tsx";
import { copy } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ContextMenu } from "../ui/ContextMenu.tsx";
import { rowIndexOf, useVirtualRows } from "../ui/useVirtualRows.ts";
import { SearchBox } from "../ui/SearchBox.tsx";
import { FunctionHeadings, FunctionRow, rowChange, rowFormats, type TableLink } from "./FunctionRow.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The pixels of a row, as the stylesheet has it. */
const ROW_PIXELS = 37;

/** Narrow windows show the columns that a table beside a graph has. */
const narrowWindow = window.matchMedia("(max-width: 760px)");
const isNarrow = signal(narrowWindow.matches);
narrowWindow.addEventListener("change", () => (isNarrow.value = narrowWindow.matches));

const UNIT_NAMES = { file: "files", package: "packages" } as const;

/**
 * The same numbers as the graph, a function at a time: a function counts once per stack. With `onSelect` a name
 * chooses the function that a sandwich or a list of lines is about; with `link` it stands beside a graph.
 */
export function FunctionTable({ metrics, names, onSelect, link }: { metrics: TreeMetrics; names: readonly string[]; onSelect?: (fn: string) => void; link?: TableLink }) {
  const { q, sort, focus: focusKey, sig } = place.value;
  const { tree } = metrics;
  const isComparison = names.length === 2;
  const top = Math.max(findPathKey(tree, focusKey), 0);
  const sums = useMemo(() => functionSums(tree, metrics.shape, top), [metrics, top]);
  const key = link ? linkedSort(sort) : sort || "-self";
  const rows = useMemo(() => {
    const matches = nameMatcher(q);
    return rankFunctions(sums, tree.names, metrics.changeDivisor, key, (row) =>
      (!matches || matches(tree.names[sums.name[row]])) && (!isComparison || !sig || (["total", "self"] as const).some((of) => isSignificant(rowChange(metrics, sums, row, of).direction))));
  }, [sums, q, key, sig]);
  const formats = useMemo(() => rowFormats(metrics, sums), [metrics, sums]);
  const notes = serviceNotes.value;
  const noted = useMemo(() => notesByName(tree, notes ?? []), [tree, notes]);
  const { box, shown, look: measure, go: focusAt, reveal } = useVirtualRows(rows.length, ROW_PIXELS, rows);
  const [menu, setMenu] = useState<{ readonly name: number; readonly x: number; readonly y: number } | null>(null);
  const nameAt = (at: number) => sums.name[rows[at]];
  const focusedRow = () => rowIndexOf(document.activeElement);
  const onFocusedRow = (what: (fn: string) => void) => () => {
    const at = focusedRow();
    if (at < 0) return false;
    what(functionText(tree, nameAt(at)));
    return true;
  };
  useKeys({
    ...(link ? {} : { "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() }),
    s: onFocusedRow((fn) => change(sandwichPlace(fn))),
    l: onFocusedRow((fn) => { if (!tree.by) change(linesPlace(fn)); }),
    c: onFocusedRow((fn) => void copy(fn, strings.nameLabel)),
  });
  const selected = link?.selected ?? -1;
  useEffect(() => {
    const at = selected < 0 ? -1 : rows.findIndex((row) => sums.name[row] === selected);
    if (at >= 0) reveal(at);
  }, [selected, rows]);
  const moveFocus = (event: KeyboardEvent) => {
    const from = focusedRow();
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: rows.length - 1 }[event.key];
    const isSearchBox = event.target instanceof HTMLInputElement;
    if (to === undefined || (isSearchBox ? event.key !== "ArrowDown" : from < 0)) return;
    event.preventDefault();
    focusAt(to);
  };
  const showMenu = (name: number, from: HTMLElement) => {
    const { left, bottom } = from.getBoundingClientRect();
    setMenu({ name, x: left, y: bottom + 4 });
  };
  const unit = tree.by ? UNIT_NAMES[tree.by] : "functions";
  const look = link || isNarrow.value ? "linked" : isComparison ? "two" : "one";
  const status = <span class="quiet" role="status">{count(rows.length)} {unit}{top > 0 && <>{" "}{strings.below(<bdi><code>{pathKeyName(focusKey)}</code></bdi>)}</>}</span>;
  const table = (
    <div class="wide tall" tabIndex={0} role="region" aria-label={strings.tableOf(unit)} ref={box} onScroll={measure}>
      <table aria-rowcount={rows.length + 1} class={`${shown.below + shown.above > 0 ? "windowed" : ""} ${look}`} onMouseLeave={() => link?.hover(-1)}>
        <thead><FunctionHeadings metrics={metrics} look={look} sort={key} formats={formats} isOneWay={!!link} /></thead>
        <tbody>
          <SpacerRow pixels={shown.above} />
          {Array.from(rows.subarray(shown.from, shown.until), (row, at) => (
            <FunctionRow key={sums.name[row]} at={shown.from + at} row={row} sums={sums} metrics={metrics} top={top} formats={formats} look={look} link={link} notes={noted.get(sums.name[row])}
              onSelect={onSelect && (() => onSelect(functionText(tree, sums.name[row])))} showMenu={(from) => showMenu(sums.name[row], from)} />
          ))}
          <SpacerRow pixels={shown.below} />
        </tbody>
      </table>
      {rows.length === 0 && <p class="quiet">{q === "" ? strings.noSamplesHere : <>{strings.noMatchSearch(unit)}{" "}<button type="button" onClick={() => change({ q: "" })}>{strings.clearSearch}</button></>}</p>}
    </div>
  );
  const label = isComparison ? strings.largestChangesByFunction : strings.functions;
  const rowMenu = menu && (
    <ContextMenu label={tree.names[menu.name].slice(0, 200)} x={menu.x} y={menu.y} close={() => setMenu(null)} groups={[
      nameActions(tree, menu.name, place.peek()).map(({ label: text, key: shortcut, changes }) => ({ label: text, key: shortcut, act: () => change(changes) })),
      [{ label: strings.copyName, key: "c", act: () => void copy(functionText(tree, menu.name), strings.nameLabel) }, ...sourceItems(tree.names[menu.name]), ...(notes && !tree.by ? [{ label: strings.notesMenu, act: () => openNotes({ fn: functionText(tree, menu.name) }) }] : [])],
    ]} />
  );
  if (link) return <section class="functions" aria-label={label} onKeyDown={moveFocus}>{table}<p class="counted">{status}</p>{rowMenu}</section>;
  return (
    <section class="panel functions" aria-label={label} onKeyDown={moveFocus}>
      <div class="tools">
        <SearchBox />
        {status}
        <span class="gap" />
        {focusKey !== "" && <button type="button" onClick={() => change({ focus: "" })}>{strings.wholeProfile}</button>}
      </div>
      {table}
      {rowMenu}
    </section>
  );
}

export const SpacerRow = ({ pixels }: { pixels: number }) => (pixels > 0 ? <tr aria-hidden="true" class="spacer" style={{ height: `${pixels}px` }} /> : null);
