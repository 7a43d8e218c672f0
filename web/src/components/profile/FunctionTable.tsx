import { useMemo, useState } from "preact/hooks";
import type { Change } from "../../flamegraph/tree/compare.ts";
import { findFocus, focusName } from "../../flamegraph/tree/focus.ts";
import { isOutside, settled } from "../../flamegraph/analysis/significance.ts";
import { functionOf, linesOf, offersOf, sandwichOf } from "../../viewmodels/frameActions.ts";
import { frameParts, packageOf, withoutLine } from "../../flamegraph/tree/packages.ts";
import { changeWords, normalised, relative } from "../../flamegraph/analysis/frameDescription.ts";
import { changeIn, ranked } from "../../flamegraph/analysis/ranking.ts";
import type { Reading } from "../../flamegraph/analysis/treeMetrics.ts";
import { matcher, searchable } from "../../flamegraph/analysis/search.ts";
import { functionSums, type FunctionSums } from "../../flamegraph/analysis/functionSums.ts";
import { change, place } from "../../lib/location.ts";
import { count, microseconds, signed } from "../../lib/numbers.ts";
import { Badge } from "../ui/Badge.tsx";
import { Link, Spent } from "../ui/Controls.tsx";
import { copy } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { Menu } from "../ui/ContextMenu.tsx";
import { rowOf, useRows } from "../ui/useVirtualRows.ts";
import { SearchBox } from "../ui/SearchBox.tsx";
import { Certain } from "./ChangeTable.tsx";
import { SortHeading } from "../ui/SortHeading.tsx";
import type { Norm } from "../../lib/viewOptions.ts";

/** The pixels of a row, as the stylesheet has it. */
const ROW = 37;

const KINDS = { file: "files", package: "packages" } as const;

/**
 * The same numbers as the graph, a function at a time: a function counts once per stack. With `pick` a name
 * chooses the function that a sandwich or a list of lines is about.
 */
export function Functions({ reading, names, pick }: { reading: Reading; names: readonly string[]; pick?: (fn: string) => void }) {
  const { q, sort, norm, focus: word, sig } = place.value;
  const { tree } = reading;
  const two = names.length === 2;
  const top = Math.max(findFocus(tree, word), 0);
  const sums = useMemo(() => functionSums(tree, reading.shape, top), [reading, top]);
  const key = sort || "-self";
  const listed = useMemo(() => {
    const matches = matcher(q);
    return ranked(sums, tree.names, reading.divisor, key, (row) =>
      (!matches || matches(tree.names[sums.name[row]])) && (!two || !sig || (["total", "self"] as const).some((of) => isOutside(changeOfRow(reading, sums, row, of).direction))));
  }, [sums, q, key, sig]);
  const { box, shown, look, go } = useRows(listed.length, ROW, listed);
  const [menu, open] = useState<{ readonly name: number; readonly x: number; readonly y: number } | null>(null);
  const nameAt = (at: number) => sums.name[listed[at]];
  const current = () => rowOf(document.activeElement);
  const act = (what: (fn: string) => void) => () => {
    const at = current();
    if (at >= 0) what(functionOf(tree, nameAt(at)));
  };
  useKeys({
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
    s: act((fn) => change(sandwichOf(fn))),
    l: act((fn) => { if (!tree.by) change(linesOf(fn)); }),
    c: act((fn) => void copy(fn, "Name")),
  });
  const walk = (event: KeyboardEvent) => {
    const from = current();
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: listed.length - 1 }[event.key];
    const searching = event.target instanceof HTMLInputElement;
    if (to === undefined || (searching ? event.key !== "ArrowDown" : from < 0)) return;
    event.preventDefault();
    go(to);
  };
  const showMenu = (at: number, from: HTMLElement) => {
    const { left, bottom } = from.getBoundingClientRect();
    open({ name: nameAt(at), x: left, y: bottom + 4 });
  };

  const whole = reading.us[0][top];
  const heading = (id: string, text: string) => <SortHeading id={id} text={text} sorted={key} number />;
  const owners = !tree.by && !two;
  const things = tree.by ? KINDS[tree.by] : "functions";
  return (
    <section class="panel functions" aria-label={two ? "Largest changes by function" : "Functions"} onKeyDown={walk}>
      <div class="tools">
        <SearchBox />
        <span class="quiet" role="status">{count(listed.length)} {things}{top > 0 && <> below <bdi><code>{focusName(word)}</code></bdi></>}</span>
        <span class="gap" />
        {word !== "" && <button type="button" onClick={() => change({ focus: "" })}>Whole profile</button>}
      </div>
      <div class="wide tall" tabIndex={0} role="region" aria-label={`Table of ${things}`} ref={box} onScroll={look}>
        <table aria-rowcount={listed.length + 1} class={`${shown.below + shown.above > 0 ? "windowed" : ""} ${two ? "two" : ""}`}>
          <thead>
            <tr>
              <SortHeading id="name" text={tree.by === "file" ? "File" : tree.by ? "Package" : "Function"} sorted={key} />
              {owners && <SortHeading id="package" text="Package" sorted={key} />}
              {two ? (
                <>{heading("selfa", "Self A")}{heading("selfb", "Self B")}{heading("self", "Δ self")}
                  {heading("totala", "Total A")}{heading("totalb", "Total B")}{heading("total", "Δ total")}<th scope="col" class="number">Total, relative</th>{reading.judged && <><th scope="col" class="number">Pods agree</th><th scope="col" class="number">q</th></>}</>
              ) : (
                <>{heading("self", "Self")}<th scope="col" class="number">of all</th>{heading("total", "Total")}<th scope="col" class="number">of all</th></>
              )}
            </tr>
          </thead>
          <tbody>
            <Spacer pixels={shown.above} />
            {Array.from(listed.subarray(shown.from, shown.until), (row, at) => (
              <tr key={sums.name[row]} data-row={shown.from + at} aria-rowindex={shown.from + at + 2}>
                <th scope="row">
                  <div class="acting">
                    <Name text={tree.names[sums.name[row]]} pick={pick && (() => pick(functionOf(tree, sums.name[row])))} />
                    {two && <Badge of={changeOfRow(reading, sums, row, "total")} />}
                    <span class="rowacts">
                      <Link to={{ ...place.value, ...sandwichOf(functionOf(tree, sums.name[row])) }} title="Callers and callees (s)">sandwich</Link>
                      <button type="button" class="square" aria-haspopup="menu" aria-label="More" title="More"
                        onClick={(event) => showMenu(shown.from + at, event.currentTarget)}>⋯</button>
                    </span>
                  </div>
                </th>
                {owners && <td class="package"><bdi>{packageOf(tree.names[sums.name[row]]).name.slice(0, 100)}</bdi></td>}
                {two ? <Changed sums={sums} row={row} reading={reading} norm={norm} /> : [sums.self, sums.total].map((of, at) => <Spent key={at} us={of[0][row]} whole={whole} />)}
              </tr>
            ))}
            <Spacer pixels={shown.below} />
          </tbody>
        </table>
        {listed.length === 0 && <p class="quiet">{q === "" ? "No samples here." : <>No {things} match the search. <button type="button" onClick={() => change({ q: "" })}>Clear it</button></>}</p>}
      </div>
      {menu && (
        <Menu label={tree.names[menu.name].slice(0, 200)} x={menu.x} y={menu.y} close={() => open(null)} groups={[
          offersOf(tree, menu.name, place.peek()).map(({ label, key, to }) => ({ label, key, act: () => change(to) })),
          [{ label: "Copy name", key: "c", act: () => void copy(functionOf(tree, menu.name), "Name") }],
        ]} />
      )}
    </section>
  );
}

const Spacer = ({ pixels }: { pixels: number }) => (pixels > 0 ? <tr aria-hidden="true" class="spacer" style={{ height: `${pixels}px` }} /> : null);

function Name({ text, pick }: { text: string; pick?: () => void }) {
  const parts = frameParts(text);
  return (
    <button type="button" class="name" title={pick ? "Choose this function" : "Find in the flame graph"}
      onClick={pick ?? (() => change({ q: searchable(text), view: "flame" }))}>
      <bdi>{parts.function.slice(0, 300)}</bdi> <bdi class="quiet">{parts.file}{parts.line !== "" && `:${parts.line}`}</bdi>
    </button>
  );
}

interface RowOf {
  readonly sums: FunctionSums;
  readonly row: number;
}

function Changed({ sums, row, reading, norm }: RowOf & { reading: Reading; norm: Norm }) {
  const { divisor, judged } = reading;
  const cell = (us: number, side: number) => <td class="number" title={microseconds(us)}>{normalised(us, divisor[side], norm)}</td>;
  const delta = (of: "self" | "total") => {
    const by = changeOfRow(reading, sums, row, of);
    if (by.direction === "unknown") return <td class="number">–</td>;
    const text = norm === "rate" ? normalised(by.delta, 1, "rate") : `${(by.delta * 100).toFixed(2)} pp`;
    return <td class={`number ${by.direction}`}>{by.direction === "same" ? "≈" : by.delta > 0 ? "▲" : "▼"} {signed(text, by.delta)}</td>;
  };
  const at = judged ? rowIn(reading, sums, row) : undefined;
  const total = changeOfRow(reading, sums, row, "total");
  const words = changeWords(total, judged?.words);
  return (
    <>
      {cell(sums.self[0][row], 0)}{cell(sums.self[1][row], 1)}{delta("self")}
      {cell(sums.total[0][row], 0)}{cell(sums.total[1][row], 1)}{delta("total")}
      <td class="number" title={words}>{total.direction === "more" || total.direction === "less" ? relative(total) : words}</td>
      {judged && (at === undefined ? <><td class="number">–</td><td class="number">–</td></> : <Certain of={judged.functions.total} at={at} />)}
    </>
  );
}

const rowIn = ({ tree, judged }: Reading, sums: FunctionSums, row: number) => judged?.row.get(withoutLine(tree.names[sums.name[row]]));

/** The change of a row, as far as it is outside noise: of what was not listed in the verdict, nothing was. */
function changeOfRow(reading: Reading, sums: FunctionSums, row: number, of: "self" | "total"): Change {
  const { judged, tree } = reading;
  const by = changeIn(sums, row, reading.divisor, of);
  if (!judged) return by;
  const at = rowIn(reading, sums, row);
  const outside = tree.by ? judged.names.has(tree.names[sums.name[row]]) : at !== undefined && isOutside(judged.functions[of].direction[at]);
  return settled(by, [sums[of][0][row], sums[of][1][row]], outside, tree.level === judged.level);
}
