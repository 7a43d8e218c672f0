import type { Note } from "../../api/answers.ts";
import { noteLine } from "../notes/noteText.ts";
import type { Change } from "../../flamegraph/tree/compare.ts";
import { isSignificant, applySignificance } from "../../flamegraph/analysis/significance.ts";
import { functionText, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { frameParts, packageOf, withoutLine } from "../../flamegraph/tree/packages.ts";
import { describeChange, formatRelative } from "../../flamegraph/analysis/frameDescription.ts";
import { functionChange } from "../../flamegraph/analysis/ranking.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { searchable } from "../../flamegraph/analysis/search.ts";
import type { FunctionSums } from "../../flamegraph/analysis/functionSums.ts";
import { change, place } from "../../lib/location.ts";
import { differenceColumn, largest, shareColumn, timeColumn, valueColumn, type Format, type UnitColumn } from "../../lib/quantities.ts";
import { microseconds } from "../../lib/numbers.ts";
import { SourceLink } from "../controls/SourceLink.tsx";
import { Badge } from "../ui/Badge.tsx";
import { Link, Meter, TimeCells } from "../ui/Controls.tsx";
import { CertaintyCells, formatQ } from "../verdict/EffectCells.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The graph beside a table: both show the same function, by its number in the tree. */
export interface TableLink {
  /** The function that the graph points at, or -1. */
  readonly pointed: number;
  /** The function of the selected frame, or -1. */
  readonly selected: number;
  readonly hover: (name: number) => void;
  readonly select: (name: number) => void;
}

/** How many columns there is room for: of one profile, of two sides, or beside a graph. */
export type TableLook = "one" | "two" | "linked";

/** How the values of two sides and their differences are written. */
export interface ValueFormats {
  readonly value: UnitColumn;
  readonly delta: UnitColumn;
}

/** The formats of two sides; `totals` has a column of each side in microseconds. */
export function valueFormats({ divisor, norm, unit, significance }: TreeMetrics, totals: readonly ArrayLike<number>[]): ValueFormats {
  const most = Math.max(...totals.map((column, side) => (divisor[side] > 0 ? largest(column) / divisor[side] : 0)));
  return { value: valueColumn(most, norm === "share" ? null : unit), delta: differenceColumn(most, norm === "share" || significance?.isByShare ? null : unit, strings.pointsUnit) };
}

/** A difference with the sign of its direction; a dash where there is none. */
export function formatDelta({ direction, delta }: Change, { write }: UnitColumn): string {
  if (direction === "no_data" || delta === 0) return "–";
  return `${direction === "unchanged" ? "≈ " : direction === "not_judged" ? "" : delta > 0 ? "▲ " : "▼ "}${write(delta)}`;
}

/** How the columns of a table are written, and their largest values. */
export interface RowFormats extends ValueFormats {
  readonly time: Format;
  readonly self: number;
  readonly total: number;
  readonly change: number;
}

/** The formats of all rows of a table, so that each column has one unit and one precision. */
export function rowFormats(metrics: TreeMetrics, sums: FunctionSums): RowFormats {
  const { changeDivisor } = metrics;
  return {
    ...valueFormats(metrics, sums.total), time: timeColumn(largest(...sums.total)),
    self: largest(sums.self[0]), total: largest(sums.total[0]),
    change: sums.total.length === 2 ? largest(Float64Array.from(sums.name, (_, row) => functionChange(sums, row, changeDivisor, "total").delta)) : 0,
  };
}

export function FunctionHeadings({ metrics: { tree, significance, us }, look, sort, formats, isOneWay }: { metrics: TreeMetrics; look: TableLook; sort: string; formats: RowFormats; isOneWay: boolean }) {
  const heading = (id: string, text: string, unit = "") => <SortHeading id={id} text={unit === "" ? text : `${text}, ${unit}`} sort={sort} isNumeric isOneWay={isOneWay} />;
  const { value: { unit }, delta: { unit: deltaUnit } } = formats;
  const meter = <td class="meter" />;
  const isComparison = us.length === 2;
  const q = significance && <th scope="col" class="number" title={strings.fdrHint}>{strings.fdrQ}</th>;
  return (
    <tr>
      <SortHeading id="name" text={tree.by === "file" ? strings.file : tree.by ? strings.packageLabel : strings.functionLabel} sort={sort} isOneWay={isOneWay} />
      {look === "one" && !tree.by && <SortHeading id="package" text={strings.packageLabel} sort={sort} />}
      {look === "linked" && isComparison && <>{heading("self", strings.deltaSelf, deltaUnit)}{heading("total", strings.deltaTotal)}{meter}{q}</>}
      {look === "linked" && !isComparison && <>{heading("self", strings.percentSelf)}{meter}{heading("total", strings.percentTotal)}{meter}</>}
      {look === "one" && <>{heading("self", strings.percentSelf)}{meter}<th scope="col" class="number">{strings.self}</th>{heading("total", strings.percentTotal)}{meter}<th scope="col" class="number">{strings.total}</th></>}
      {look === "two" && (
        <>
          {heading("selfa", strings.selfA, unit)}{heading("selfb", strings.selfB)}{heading("self", strings.deltaSelf, deltaUnit)}
          {heading("totala", strings.totalA, unit)}{heading("totalb", strings.totalB)}{heading("total", strings.deltaTotal, deltaUnit)}{meter}
          {significance && <th scope="col" class="number" title={strings.intervalHint}>{strings.intervalHeading}</th>}
          <th scope="col" class="number" title={strings.changeHint}>{strings.changePercent}</th>
          {significance && <th scope="col" class="number" title={strings.podsHint}>{strings.pods}</th>}{q}
        </>
      )}
    </tr>
  );
}

interface RowOf {
  readonly sums: FunctionSums;
  readonly row: number;
  readonly metrics: TreeMetrics;
  readonly formats: RowFormats;
}

export function FunctionRow({ at, row, sums, metrics, top, formats, look, link, notes, onSelect, showMenu }: RowOf & {
  at: number; top: number; look: TableLook; link?: TableLink; notes?: readonly Note[]; onSelect?: () => void; showMenu: (from: HTMLElement) => void;
}) {
  const { tree, us } = metrics;
  const name = sums.name[row];
  const text = tree.names[name];
  const whole = us[0][top];
  const isComparison = us.length === 2;
  const cells = { sums, row, metrics, formats };
  const select = link ? () => link.select(name) : onSelect;
  return (
    <tr data-row={at} aria-rowindex={at + 2} class={link && (name === link.pointed || name === link.selected) ? "pointed" : ""} aria-current={link && name === link.selected ? "true" : undefined}
      onMouseEnter={link && (() => link.hover(name))} onFocusIn={link && (() => link.hover(name))}>
      <th scope="row">
        <div class="acting">
          <FunctionName text={text} title={link ? strings.selectInBoth : onSelect ? strings.chooseFunction : strings.findInFlameGraph} select={select ?? (() => change({ q: searchable(text), view: "flame" }))} />
          {isComparison && <Badge change={rowChange(metrics, sums, row, "total")} />}
          {notes && <NoteSign notes={notes} isWide={look === "one"} />}
          <span class="rowacts">
            {look !== "linked" && <SourceLink frame={text} />}
            {look === "one" && <Link to={{ ...place.value, ...sandwichPlace(functionText(tree, name)) }} title={strings.callersAndCalleesHint}>{strings.sandwichLink}</Link>}
            <button type="button" class="square" aria-haspopup="menu" aria-label={strings.more} title={strings.more} onClick={(event) => showMenu(event.currentTarget)}>⋯</button>
          </span>
        </div>
      </th>
      {look === "one" && !tree.by && <td class="package"><bdi>{packageOf(text).name.slice(0, 100)}</bdi></td>}
      {look === "one" && (["self", "total"] as const).map((of) => <TimeCells key={of} us={sums[of][0][row]} whole={whole} format={formats.time} most={formats[of]} />)}
      {look === "linked" && !isComparison && (["self", "total"] as const).map((of) => <ShareCells key={of} us={sums[of][0][row]} whole={whole} most={formats[of]} time={formats.time} />)}
      {look === "linked" && isComparison && <LinkedChangeCells {...cells} />}
      {look === "two" && <ChangeCells {...cells} />}
    </tr>
  );
}

/** That there are notes on a function, and where there is room what they say. */
export function NoteSign({ notes, isWide }: { notes: readonly Note[]; isWide: boolean }) {
  const text = notes.map(noteLine).join("\n");
  return <span class="note-sign" title={text}><span aria-hidden="true">◥ </span><bdi class={isWide ? "" : "unseen"}>{text}</bdi></span>;
}

function FunctionName({ text, title, select }: { text: string; title: string; select: () => void }) {
  const parts = frameParts(text);
  return (
    <button type="button" class="name" title={title} onClick={select}>
      <bdi>{parts.function.slice(0, 300)}</bdi> <bdi class="quiet">{parts.file}{parts.line !== "" && `:${parts.line}`}</bdi>
    </button>
  );
}

const ShareCells = ({ us, whole, most, time }: { us: number; whole: number; most: number; time: Format }) => (
  <><td class="number" title={time(us)}>{shareColumn(whole > 0 ? us / whole : 0)}</td><Meter value={us} most={most} /></>
);

function DeltaCell({ sums, row, metrics, formats, of }: RowOf & { of: "self" | "total" }) {
  const by = rowChange(metrics, sums, row, of);
  return <td class={`number ${by.direction}`}>{formatDelta(by, formats.delta)}</td>;
}

function LinkedChangeCells(cells: RowOf) {
  const { sums, row, metrics, formats } = cells;
  const at = verdictRow(metrics, sums, row);
  const total = rowChange(metrics, sums, row, "total");
  return (
    <>
      <DeltaCell {...cells} of="self" /><DeltaCell {...cells} of="total" /><Meter value={total.delta} most={formats.change} class={total.direction} />
      {metrics.significance && <td class="number">{at === undefined ? "–" : formatQ(metrics.significance.functions.total.q[at])}</td>}
    </>
  );
}

function ChangeCells(cells: RowOf) {
  const { sums, row, metrics, formats } = cells;
  const { divisor, norm, significance } = metrics;
  const isByShare = norm === "share" || significance?.isByShare;
  const cell = (us: number, side: number) => <td class="number" title={microseconds(us)}>{divisor[side] > 0 ? formats.value.write(us / divisor[side]) : strings.noSamplesCell}</td>;
  const at = significance ? verdictRow(metrics, sums, row) : undefined;
  const total = rowChange(metrics, sums, row, "total");
  const effects = significance?.functions.total;
  const isMinor = at !== undefined && effects?.direction[at] === "minor";
  const description = isMinor ? strings.minor : describeChange(total, significance?.label, isByShare ? strings.ofProfile : "time");
  const [low, high] = at === undefined || !effects ? [null, null] : [effects.low[at], effects.high[at]];
  // A verdict is of rates or of shares, whatever is shown.
  const write = norm === "share" && !significance?.isByShare ? null : formats.delta.write;
  return (
    <>
      {cell(sums.self[0][row], 0)}{cell(sums.self[1][row], 1)}<DeltaCell {...cells} of="self" />
      {cell(sums.total[0][row], 0)}{cell(sums.total[1][row], 1)}<DeltaCell {...cells} of="total" /><Meter value={total.delta} most={formats.change} class={total.direction} />
      {significance && <td class="number interval">{low === null || high === null || !write || (low === 0 && high === 0) ? "–" : `${write(low)} … ${write(high)}`}</td>}
      <td class="number" title={description}>{total.direction === "increased" || total.direction === "decreased" ? formatRelative(total) : description}</td>
      {significance && (at === undefined ? <><td class="number">–</td><td class="number">–</td></> : <CertaintyCells effects={significance.functions.total} row={at} />)}
    </>
  );
}

const verdictRow = ({ tree, significance }: TreeMetrics, sums: FunctionSums, row: number) => significance?.row.get(withoutLine(tree.names[sums.name[row]]));

/** The change of a row, as far as it is outside noise: of what was not listed in the verdict, nothing was. */
export function rowChange(metrics: TreeMetrics, sums: FunctionSums, row: number, of: "self" | "total"): Change {
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
