import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Note } from "../../api/answers.ts";
import { describeChange, formatRelative } from "../../flamegraph/analysis/frameDescription.ts";
import { matchedShare, nextHit, search, searchable } from "../../flamegraph/analysis/search.ts";
import { changeAt, type TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { firstExpanded, nodeOrder, treeRows, type TreeRow } from "../../flamegraph/analysis/treeRows.ts";
import { findPathKey, pathKey } from "../../flamegraph/tree/focus.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { pathTo } from "../../flamegraph/tree/tree.ts";
import { frameActions, functionText, linesPlace, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { change, place } from "../../lib/location.ts";
import { percent } from "../../lib/numbers.ts";
import { largest, shareColumn, timeColumn } from "../../lib/quantities.ts";
import { sourceItems } from "../controls/SourceLink.tsx";
import { notesByName } from "../notes/noteText.ts";
import { openNotes, serviceNotes } from "../notes/serviceNotes.ts";
import { Badge } from "../ui/Badge.tsx";
import { ContextMenu } from "../ui/ContextMenu.tsx";
import { Meter } from "../ui/Controls.tsx";
import { copy } from "../ui/CopyButton.tsx";
import { SearchBox } from "../ui/SearchBox.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { useVirtualRows } from "../ui/useVirtualRows.ts";
import { formatDelta, NoteSign, valueFormats } from "./FunctionRow.tsx";
import { SpacerRow } from "./FunctionTable.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The pixels of a row and of one step to the right, as the stylesheet has them. */
const ROW_PIXELS = 28;
const INDENT_PIXELS = 14;
/** Deeper rows begin at the same place: a stack may have thousands of frames. */
const MAX_INDENTS = 40;

/** A call tree with rows that expand (the ARIA pattern "treegrid"): what the canvas shows, for reading and for the keyboard. */
export function CallTree({ metrics, names }: { metrics: TreeMetrics; names: readonly string[] }) {
  const { focus: focusKey, q, sort } = place.value;
  const { tree, shape } = metrics;
  const key = isTreeSort(sort) ? sort : "-total";
  const focus = useMemo(() => Math.max(findPathKey(tree, focusKey), 0), [tree, focusKey]);
  const [expanded, setExpanded] = useState(() => firstExpanded(metrics, focus));
  const [current, setCurrent] = useState(focus);
  const shownTree = useRef(tree);
  const expandedNow = shownTree.current === tree ? expanded : firstExpanded(metrics, focus);
  useLayoutEffect(() => {
    if (shownTree.current === tree) return;
    shownTree.current = tree;
    setExpanded(expandedNow);
    setCurrent(focus);
  }, [tree]);
  const compare = useMemo(() => nodeOrder(metrics, key), [metrics, key]);
  const rows = useMemo(() => treeRows(shape, expandedNow, compare), [shape, expandedNow, compare]);
  const result = useMemo(() => search(tree, q), [tree, q]);
  const notes = serviceNotes.value;
  const noted = useMemo(() => notesByName(tree, notes ?? []), [tree, notes]);
  const { box, shown, look, go, reveal } = useVirtualRows(rows.length, ROW_PIXELS, compare, "");
  const [menu, setMenu] = useState<{ readonly node: number; readonly x: number; readonly y: number } | null>(null);
  const rowOf = (node: number) => rows.findIndex((row) => row.node === node);
  useLayoutEffect(() => { if (current > 0) reveal(rowOf(current)); }, []);

  const hasCallees = (node: number) => shape.end[node] > node + 1;
  const toggle = (node: number, isOpen: boolean) => {
    const next = new Set(expandedNow);
    if (isOpen) next.add(node);
    else next.delete(node);
    setExpanded(next);
  };
  const select = (node: number) => {
    setCurrent(node);
    change({ focus: pathKey(tree, node) }, "replace");
  };
  const moveTo = (at: number) => {
    const to = Math.min(Math.max(at, 0), rows.length - 1);
    setCurrent(rows[to].node);
    go(to);
  };
  const show = (node: number) => {
    const next = new Set([...expandedNow, ...pathTo(shape, node).slice(0, -1)]);
    setExpanded(next);
    setCurrent(node);
    // Once its callers are open.
    setTimeout(() => reveal(treeRows(shape, next, compare).findIndex((row) => row.node === node)));
  };
  const step = (by: 1 | -1) => {
    const next = result ? nextHit(result, shape, 0, current, by) : -1;
    if (next >= 0) show(next);
  };
  const functionOf = (node: number) => functionText(tree, tree.name[node]);
  const stack = (node: number) => pathTo(shape, node).slice(1).map((each) => tree.names[tree.name[each]]).join("\n");
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    n: () => step(1),
    N: () => step(-1),
    i: () => change({ invert: !place.peek().invert, focus: "" }),
    r: () => change({ collapse: !place.peek().collapse }),
    s: () => current > 0 && (change(sandwichPlace(functionOf(current))), true),
    l: () => current > 0 && !tree.by && (change(linesPlace(functionOf(current))), true),
    c: () => current > 0 && (void copy(stack(current), strings.stack), true),
  });
  const press = (event: KeyboardEvent) => {
    const at = Number((event.target as HTMLElement).dataset.row ?? -1);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node } = rows[at];
    const isOpen = expandedNow.has(node);
    const page = Math.max(Math.floor((box.current?.clientHeight ?? 0) / ROW_PIXELS) - 2, 1);
    const steps: Record<string, () => void> = {
      ArrowDown: () => moveTo(at + 1),
      ArrowUp: () => moveTo(at - 1),
      PageDown: () => moveTo(at + page),
      PageUp: () => moveTo(at - page),
      Home: () => moveTo(0),
      End: () => moveTo(rows.length - 1),
      ArrowRight: () => (hasCallees(node) && !isOpen ? toggle(node, true) : hasCallees(node) && moveTo(at + 1)),
      ArrowLeft: () => (isOpen ? toggle(node, false) : shape.parent[node] > 0 && moveTo(rowOf(shape.parent[node]))),
      Enter: () => select(node),
      " ": () => toggle(node, !isOpen),
      "*": () => setExpanded(new Set([...expandedNow, ...rows.filter((row) => shape.parent[row.node] === shape.parent[node]).map((row) => row.node)])),
      ContextMenu: () => openMenu(node, event.target as HTMLElement),
      F10: () => event.shiftKey && openMenu(node, event.target as HTMLElement),
    };
    if (!Object.hasOwn(steps, event.key) || (event.shiftKey && event.key !== "F10" && event.key !== "*")) return;
    event.preventDefault();
    steps[event.key]();
  };
  const openMenu = (node: number, from: HTMLElement) => {
    const { left, bottom } = from.getBoundingClientRect();
    setCurrent(node);
    setMenu({ node, x: left + 40, y: bottom });
  };
  const isComparison = names.length === 2;
  const stop = rowOf(current) >= 0 ? current : (rows[0]?.node ?? 0);
  const columns = useMemo(() => treeColumns(metrics), [metrics]);
  const heading = (id: string, text: string) => <SortHeading id={id} text={text} sort={key} isNumeric />;
  return (
    <section class="panel calltree" aria-label={strings.callTree}>
      <div class="tools">
        <SearchBox />
        {result && (
          <span class="matched" role="status">
            {result.nodes.length === 0 ? strings.noMatch : strings.frame(result.nodes.length, percent(matchedShare(result, shape, metrics.total, 0)))}
            <button type="button" class="square" disabled={result.nodes.length === 0} aria-label={strings.previousMatch} title="N" onClick={() => step(-1)}>‹</button>
            <button type="button" class="square" disabled={result.nodes.length === 0} aria-label={strings.nextMatch} title="n" onClick={() => step(1)}>›</button>
          </span>
        )}
        <span class="gap" />
        <button type="button" onClick={() => setExpanded(new Set(tree.level.keys()))}>{strings.expandAll}</button>
        <button type="button" onClick={() => setExpanded(new Set())}>{strings.collapseAll}</button>
      </div>
      <div class="wide tall" ref={box} onScroll={look}>
        <table role="treegrid" aria-label={strings.callTree} aria-readonly="true" aria-rowcount={rows.length + 1} onKeyDown={press} class={isComparison ? "two" : "one"}>
          <thead>
            <tr>
              <SortHeading id="name" text={tree.by === "file" ? strings.file : tree.by ? strings.packageLabel : strings.functionLabel} sort={key} />
              {isComparison ? <>{heading("totala", `${strings.totalA}, ${columns.value.unit}`)}{heading("totalb", strings.totalB)}{heading("delta", `${strings.deltaTotal}, ${columns.delta.unit}`)}<td class="meter" /><th scope="col" class="number" title={strings.countingIntervalHint}>{strings.intervalHeading}</th><th scope="col" class="number">{strings.changeHeading}</th></>
                : <>{heading("total", strings.percentTotal)}<td class="meter" /><th scope="col" class="number">{strings.total}</th>{heading("self", strings.percentSelf)}<th scope="col" class="number">{strings.self}</th></>}
            </tr>
          </thead>
          <tbody>
            <SpacerRow pixels={shown.above} />
            {rows.slice(shown.from, shown.until).map((row, at) => (
              <Row key={row.node} at={shown.from + at} row={row} metrics={metrics} columns={columns} isOpen={expandedNow.has(row.node)} isCurrent={row.node === stop} isSelected={row.node === focus}
                isHit={result?.hit[row.node] === 1} notes={noted.get(tree.name[row.node])} toggle={toggle} select={select} openMenu={openMenu} />
            ))}
            <SpacerRow pixels={shown.below} />
          </tbody>
        </table>
      </div>
      {menu && (
        <ContextMenu label={tree.names[tree.name[menu.node]].slice(0, 200)} x={menu.x} y={menu.y} close={() => setMenu(null)} groups={[
          [
            { label: strings.showInGraph, act: () => change({ view: "flame", focus: pathKey(tree, menu.node) }) },
            { label: strings.highlightAll, act: () => change({ q: searchable(tree.names[tree.name[menu.node]]) }) },
          ],
          frameActions(tree, menu.node, place.peek()).map(({ label, key: shortcut, changes }) => ({ label, key: shortcut, act: () => change(changes) })),
          [{ label: strings.copyStack, key: "c", act: () => void copy(stack(menu.node), strings.stack) }, ...sourceItems(tree.names[tree.name[menu.node]]), ...(notes && !tree.by ? [{ label: strings.notesMenu, act: () => openNotes({ fn: functionOf(menu.node) }) }] : [])],
        ]} />
      )}
    </section>
  );
}

const isTreeSort = (sort: string): boolean => /^[-+](name|total|self|totala|totalb|delta)$/.test(sort);

/** The formats of the columns: one unit and one precision each. */
function treeColumns(metrics: TreeMetrics) {
  const { us, changeDivisor } = metrics;
  const whole = us.map((column) => column.subarray(0, 1));
  const changes = us.length === 2 ? us[0].map((a, node) => (changeDivisor[1] > 0 ? us[1][node] / changeDivisor[1] : 0) - (changeDivisor[0] > 0 ? a / changeDivisor[0] : 0)) : [];
  return { ...valueFormats(metrics, whole), time: timeColumn(largest(whole[0])), change: largest(changes) };
}

function Row({ at, row: { node, position, siblings }, metrics, columns, isOpen, isCurrent, isSelected, isHit, notes, toggle, select, openMenu }: {
  at: number; row: TreeRow; metrics: TreeMetrics; columns: ReturnType<typeof treeColumns>; isOpen: boolean; isCurrent: boolean; isSelected: boolean; isHit: boolean; notes?: readonly Note[];
  toggle: (node: number, isOpen: boolean) => void; select: (node: number) => void; openMenu: (node: number, from: HTMLElement) => void;
}) {
  const { tree, shape, us, total } = metrics;
  const level = tree.level[node];
  const text = tree.names[tree.name[node]];
  const { function: name, file, line } = frameParts(text);
  const hasCallees = shape.end[node] > node + 1;
  return (
    <tr data-row={at} aria-rowindex={at + 2} aria-level={level} aria-posinset={position} aria-setsize={siblings} aria-expanded={hasCallees ? isOpen : undefined} aria-selected={isSelected}
      tabIndex={isCurrent ? 0 : -1} class={isHit ? "hit" : ""} onClick={() => select(node)} onDblClick={() => hasCallees && toggle(node, !isOpen)}
      onContextMenu={(event) => {
        event.preventDefault();
        openMenu(node, event.currentTarget);
      }}>
      <th scope="row" style={{ paddingLeft: `${Math.min(level - 1, MAX_INDENTS) * INDENT_PIXELS + 4}px` }}>
        <span class={hasCallees ? "twist" : "twist none"} aria-hidden="true" onClick={(event) => {
          event.stopPropagation();
          if (hasCallees) toggle(node, !isOpen);
        }}>{!hasCallees ? "" : isOpen ? "▾" : "▸"}</span>
        <bdi class="function" title={text.slice(0, 400)}>{name.slice(0, 300)}</bdi> <bdi class="quiet">{file}{line !== "" && `:${line}`}</bdi>
        {us.length === 2 && <Badge change={changeAt(metrics, node)} />}
        {notes && <> <NoteSign notes={notes} isWide={false} /></>}
      </th>
      {us.length === 2 ? <ChangeCells metrics={metrics} node={node} columns={columns} /> : (
        <>
          <td class="number">{shareColumn(total[0] > 0 ? total[node] / total[0] : 0)}</td><Meter value={total[node]} most={total[0]} />
          <td class="number">{columns.time(us[0][node])}</td>
          <td class="number">{shareColumn(us[0][0] > 0 ? tree.self[0][node] / us[0][0] : 0)}</td><td class="number">{columns.time(tree.self[0][node])}</td>
        </>
      )}
    </tr>
  );
}

function ChangeCells({ metrics, node, columns }: { metrics: TreeMetrics; node: number; columns: ReturnType<typeof treeColumns> }) {
  const { us, divisor, significance } = metrics;
  const value = (side: number) => (divisor[side] > 0 ? columns.value.write(us[side][node] / divisor[side]) : strings.noSamplesCell);
  const by = changeAt(metrics, node);
  const description = describeChange(by, significance?.label, significance?.isByShare ? strings.ofProfile : "time");
  return (
    <>
      <td class="number">{value(0)}</td><td class="number">{value(1)}</td>
      <td class={`number ${by.direction}`}>{formatDelta(by, columns.delta)}</td><Meter value={by.delta} most={columns.change} class={by.direction} />
      <td class="number interval">{by.direction !== "no_data" && by.threshold > 0 ? `${columns.delta.write(by.delta - by.threshold)} … ${columns.delta.write(by.delta + by.threshold)}` : "–"}</td>
      <td class="number" title={description}>{by.direction === "increased" || by.direction === "decreased" ? formatRelative(by) : description}</td>
    </>
  );
}
