import { useMemo, useState } from "preact/hooks";
import type { Change } from "../../flamegraph/tree/compare.ts";
import { findPathKey, pathKeyName } from "../../flamegraph/tree/focus.ts";
import { isSignificant, applySignificance } from "../../flamegraph/analysis/significance.ts";
import { functionText, linesPlace, nameActions, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { frameParts, packageOf, withoutLine } from "../../flamegraph/tree/packages.ts";
import { describeChange, formatNormalised, formatRelative } from "../../flamegraph/analysis/frameDescription.ts";
import { functionChange, rankFunctions } from "../../flamegraph/analysis/ranking.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { nameMatcher, searchable } from "../../flamegraph/analysis/search.ts";
import { functionSums, type FunctionSums } from "../../flamegraph/analysis/functionSums.ts";
import { change, place } from "../../lib/location.ts";
import { microseconds, signed } from "../../lib/numbers.ts";
import { count } from "../../strings/counts.ts";
import { Badge } from "../ui/Badge.tsx";
import { Link, TimeCells } from "../ui/Controls.tsx";
import { copy } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { ContextMenu } from "../ui/ContextMenu.tsx";
import { rowIndexOf, useVirtualRows } from "../ui/useVirtualRows.ts";
import { SearchBox } from "../ui/SearchBox.tsx";
import { CertaintyCells } from "../verdict/EffectCells.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The pixels of a row, as the stylesheet has it. */
const ROW_PIXELS = 37;

const UNIT_NAMES = { file: "files", package: "packages" } as const;

/**
 * The same numbers as the graph, a function at a time: a function counts once per stack. With `onSelect` a name
 * chooses the function that a sandwich or a list of lines is about.
 */
export function FunctionTable({ metrics, names, onSelect }: { metrics: TreeMetrics; names: readonly string[]; onSelect?: (fn: string) => void }) {
  const { q, sort, focus: focusKey, sig } = place.value;
  const { tree } = metrics;
  const isComparison = names.length === 2;
  const top = Math.max(findPathKey(tree, focusKey), 0);
  const sums = useMemo(() => functionSums(tree, metrics.shape, top), [metrics, top]);
  const key = sort || "-self";
  const rows = useMemo(() => {
    const matches = nameMatcher(q);
    return rankFunctions(sums, tree.names, metrics.changeDivisor, key, (row) =>
      (!matches || matches(tree.names[sums.name[row]])) && (!isComparison || !sig || (["total", "self"] as const).some((of) => isSignificant(rowChange(metrics, sums, row, of).direction))));
  }, [sums, q, key, sig]);
  const { box, shown, look: measure, go: focusAt } = useVirtualRows(rows.length, ROW_PIXELS, rows);
  const [menu, setMenu] = useState<{ readonly name: number; readonly x: number; readonly y: number } | null>(null);
  const nameAt = (at: number) => sums.name[rows[at]];
  const focusedRow = () => rowIndexOf(document.activeElement);
  const onFocusedRow = (what: (fn: string) => void) => () => {
    const at = focusedRow();
    if (at >= 0) what(functionText(tree, nameAt(at)));
  };
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    s: onFocusedRow((fn) => change(sandwichPlace(fn))),
    l: onFocusedRow((fn) => { if (!tree.by) change(linesPlace(fn)); }),
    c: onFocusedRow((fn) => void copy(fn, strings.nameLabel)),
  });
  const moveFocus = (event: KeyboardEvent) => {
    const from = focusedRow();
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: rows.length - 1 }[event.key];
    const isSearchBox = event.target instanceof HTMLInputElement;
    if (to === undefined || (isSearchBox ? event.key !== "ArrowDown" : from < 0)) return;
    event.preventDefault();
    focusAt(to);
  };
  const showMenu = (at: number, from: HTMLElement) => {
    const { left, bottom } = from.getBoundingClientRect();
    setMenu({ name: nameAt(at), x: left, y: bottom + 4 });
  };

  const total = metrics.us[0][top];
  const heading = (id: string, text: string) => <SortHeading id={id} text={text} sort={key} isNumeric />;
  const showPackages = !tree.by && !isComparison;
  const unit = tree.by ? UNIT_NAMES[tree.by] : "functions";
  return (
    <section class="panel functions" aria-label={isComparison ? strings.largestChangesByFunction : strings.functions} onKeyDown={moveFocus}>
      <div class="tools">
        <SearchBox />
        <span class="quiet" role="status">{count(rows.length)} {unit}{top > 0 && <>{" "}{strings.below(<bdi><code>{pathKeyName(focusKey)}</code></bdi>)}</>}</span>
        <span class="gap" />
        {focusKey !== "" && <button type="button" onClick={() => change({ focus: "" })}>{strings.wholeProfile}</button>}
      </div>
      <div class="wide tall" tabIndex={0} role="region" aria-label={strings.tableOf(unit)} ref={box} onScroll={measure}>
        <table aria-rowcount={rows.length + 1} class={`${shown.below + shown.above > 0 ? "windowed" : ""} ${isComparison ? "two" : ""}`}>
          <thead>
            <tr>
              <SortHeading id="name" text={tree.by === "file" ? strings.file : tree.by ? strings.packageLabel : strings.functionLabel} sort={key} />
              {showPackages && <SortHeading id="package" text={strings.packageLabel} sort={key} />}
              {isComparison ? (
                <>{heading("selfa", strings.selfA)}{heading("selfb", strings.selfB)}{heading("self", "Δ self")}
                  {heading("totala", strings.totalA)}{heading("totalb", strings.totalB)}{heading("total", "Δ total")}<th scope="col" class="number" title={strings.changeHint}>{strings.changePercent}</th>{metrics.significance && <><th scope="col" class="number" title={strings.podsHint}>{strings.pods}</th><th scope="col" class="number" title={strings.fdrHint}>{strings.fdrQ}</th></>}</>
              ) : (
                <>{heading("self", strings.self)}<th scope="col" class="number">{strings.percentSelf}</th>{heading("total", strings.total)}<th scope="col" class="number">{strings.percentTotal}</th></>
              )}
            </tr>
          </thead>
          <tbody>
            <SpacerRow pixels={shown.above} />
            {Array.from(rows.subarray(shown.from, shown.until), (row, at) => (
              <tr key={sums.name[row]} data-row={shown.from + at} aria-rowindex={shown.from + at + 2}>
                <th scope="row">
                  <div class="acting">
                    <FunctionName text={tree.names[sums.name[row]]} onSelect={onSelect && (() => onSelect(functionText(tree, sums.name[row])))} />
                    {isComparison && <Badge change={rowChange(metrics, sums, row, "total")} />}
                    <span class="rowacts">
                      <Link to={{ ...place.value, ...sandwichPlace(functionText(tree, sums.name[row])) }} title={strings.callersAndCalleesHint}>{strings.sandwichLink}</Link>
                      <button type="button" class="square" aria-haspopup="menu" aria-label={strings.more} title={strings.more}
                        onClick={(event) => showMenu(shown.from + at, event.currentTarget)}>⋯</button>
                    </span>
                  </div>
                </th>
                {showPackages && <td class="package"><bdi>{packageOf(tree.names[sums.name[row]]).name.slice(0, 100)}</bdi></td>}
                {isComparison ? <ChangeCells sums={sums} row={row} metrics={metrics} /> : [sums.self, sums.total].map((of, at) => <TimeCells key={at} us={of[0][row]} whole={total} />)}
              </tr>
            ))}
            <SpacerRow pixels={shown.below} />
          </tbody>
        </table>
        {rows.length === 0 && <p class="quiet">{q === "" ? strings.noSamplesHere : <>{strings.noMatchSearch(unit)}{" "}<button type="button" onClick={() => change({ q: "" })}>{strings.clearSearch}</button></>}</p>}
      </div>
      {menu && (
        <ContextMenu label={tree.names[menu.name].slice(0, 200)} x={menu.x} y={menu.y} close={() => setMenu(null)} groups={[
          nameActions(tree, menu.name, place.peek()).map(({ label, key, changes }) => ({ label, key, act: () => change(changes) })),
          [{ label: strings.copyName, key: "c", act: () => void copy(functionText(tree, menu.name), strings.nameLabel) }],
        ]} />
      )}
    </section>
  );
}

const SpacerRow = ({ pixels }: { pixels: number }) => (pixels > 0 ? <tr aria-hidden="true" class="spacer" style={{ height: `${pixels}px` }} /> : null);

function FunctionName({ text, onSelect }: { text: string; onSelect?: () => void }) {
  const parts = frameParts(text);
  return (
    <button type="button" class="name" title={onSelect ? strings.chooseFunction : strings.findInFlameGraph}
      onClick={onSelect ?? (() => change({ q: searchable(text), view: "flame" }))}>
      <bdi>{parts.function.slice(0, 300)}</bdi> <bdi class="quiet">{parts.file}{parts.line !== "" && `:${parts.line}`}</bdi>
    </button>
  );
}

interface FunctionRow {
  readonly sums: FunctionSums;
  readonly row: number;
}

function ChangeCells({ sums, row, metrics }: FunctionRow & { metrics: TreeMetrics }) {
  const { divisor, norm, unit, significance } = metrics;
  const isByShare = norm === "share" || significance?.isByShare;
  const cell = (us: number, side: number) => <td class="number" title={microseconds(us)}>{formatNormalised(us, divisor[side], norm === "rate" ? unit : null)}</td>;
  const delta = (of: "self" | "total") => {
    const by = rowChange(metrics, sums, row, of);
    if (by.direction === "no_data") return <td class="number">–</td>;
    const text = isByShare ? strings.points((by.delta * 100).toFixed(2)) : formatNormalised(by.delta, 1, unit);
    return <td class={`number ${by.direction}`}>{by.direction === "unchanged" ? "≈ " : by.direction === "not_judged" ? "" : by.delta > 0 ? "▲ " : "▼ "}{signed(text, by.delta)}</td>;
  };
  const at = significance ? verdictRow(metrics, sums, row) : undefined;
  const total = rowChange(metrics, sums, row, "total");
  const isMinor = at !== undefined && significance?.functions.total.direction[at] === "minor";
  const description = isMinor ? strings.minor : describeChange(total, significance?.label, isByShare ? strings.ofProfile : "time");
  return (
    <>
      {cell(sums.self[0][row], 0)}{cell(sums.self[1][row], 1)}{delta("self")}
      {cell(sums.total[0][row], 0)}{cell(sums.total[1][row], 1)}{delta("total")}
      <td class="number" title={description}>{total.direction === "increased" || total.direction === "decreased" ? formatRelative(total) : description}</td>
      {significance && (at === undefined ? <><td class="number">–</td><td class="number">–</td></> : <CertaintyCells effects={significance.functions.total} row={at} />)}
    </>
  );
}

const verdictRow = ({ tree, significance }: TreeMetrics, sums: FunctionSums, row: number) => significance?.row.get(withoutLine(tree.names[sums.name[row]]));

/** The change of a row, as far as it is outside noise: of what was not listed in the verdict, nothing was. */
function rowChange(metrics: TreeMetrics, sums: FunctionSums, row: number, of: "self" | "total"): Change {
  const { significance, tree } = metrics;
  const by = functionChange(sums, row, metrics.changeDivisor, of);
  if (!significance) return by;
  const text = tree.names[sums.name[row]];
  const isTested = tree.level === significance.level;
  const us = [sums[of][0][row], sums[of][1][row]] as const;
  const at = tree.by ? undefined : verdictRow(metrics, sums, row);
  const direction = at === undefined ? null : significance.functions[of].direction[at];
  const isChanged = direction === null ? tree.by !== undefined && significance.names.has(text) : isSignificant(direction);
  const isJudged = direction === null ? !significance.unjudged.has(text) : direction !== "not_judged";
  return applySignificance(by, us, isChanged ? "changed" : isJudged ? "noise" : "unjudged", isTested);
}
