import { useMemo, useState } from "preact/hooks";
import { isChange } from "../flame/changes.ts";
import { changeOf, type Norm } from "../flame/compare.ts";
import { findFocus, focusName } from "../flame/focus.ts";
import { frameParts } from "../flame/packages.ts";
import { changeWords, normalised } from "../flame/pictures.ts";
import type { Reading } from "../flame/reading.ts";
import { matcher, searchable } from "../flame/search.ts";
import { functionSums } from "../flame/sums.ts";
import { change, place } from "../location.ts";
import { count, microseconds, percent, signed } from "../numbers.ts";
import { Badge } from "./badge.tsx";
import { Bar } from "./basics.tsx";
import { useKeys } from "./keys.ts";
import { SearchBox } from "./searchbox.tsx";
import { SortHeading } from "./sorting.tsx";

interface Row {
  readonly name: string;
  readonly self: readonly number[];
  readonly total: readonly number[];
  readonly selfSamples: readonly number[];
  readonly totalSamples: readonly number[];
}

const PAGE = 100;

/** The same numbers as the graph, a function at a time: a function counts once per stack. */
export function Functions({ reading, names }: { reading: Reading; names: readonly string[] }) {
  const { q, sort, norm, focus: word, sig } = place.value;
  const two = names.length === 2;
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  const [shown, show] = useState(PAGE);
  const top = Math.max(findFocus(reading.tree, word), 0);
  const rows = useMemo(() => rowsOf(reading, top), [reading, top]);
  const key = sort || "-self";
  const listed = useMemo(() => {
    const matches = matcher(q);
    const value = orders(reading)[key.slice(1)] ?? orders(reading).self;
    const sign = key.startsWith("-") ? -1 : 1;
    const kept = rows.filter((row) => (!matches || matches(row.name)) && (!two || !sig || isSignificant(row, reading)));
    if (key.slice(1) === "name") return kept.sort((a, b) => (a.name < b.name ? -sign : sign));
    return kept.sort((a, b) => sign * (value(a) - value(b)) || (a.name < b.name ? -1 : 1));
  }, [rows, q, key, sig]);

  const whole = reading.us.map((us) => us[top]);
  const heading = (id: string, text: string) => <SortHeading id={id} text={text} sorted={key} number />;
  return (
    <section class="panel" aria-label={two ? "Largest changes by function" : "Functions"}>
      <div class="tools">
        <SearchBox />
        <span class="quiet">{count(listed.length)} functions{top > 0 && <> below <bdi><code>{focusName(word)}</code></bdi></>}</span>
        <span class="gap" />
        {word !== "" && <button type="button" onClick={() => change({ focus: "" })}>Whole profile</button>}
      </div>
      <div class="wide" tabIndex={0} role="region" aria-label="Table of functions">
        <table>
          <thead>
            <tr>
              <SortHeading id="name" text="Function" sorted={key} />
              {two ? (
                <>{heading("selfa", "Self A")}{heading("selfb", "Self B")}{heading("self", "Δ self")}
                  {heading("totala", "Total A")}{heading("totalb", "Total B")}{heading("total", "Δ total")}<th scope="col">Total, in words</th></>
              ) : (
                <>{heading("self", "Self")}<th scope="col" class="number">of all</th>{heading("total", "Total")}<th scope="col" class="number">of all</th></>
              )}
            </tr>
          </thead>
          <tbody>
            {listed.slice(0, shown).map((row) => (
              <tr key={row.name}>
                <th scope="row"><Name text={row.name} />{two && <Badge of={differences(row, reading.divisor, "total")} />}</th>
                {two ? <Changed row={row} reading={reading} norm={norm} /> : <Spent row={row} whole={whole[0]} />}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {listed.length > shown && <button type="button" onClick={() => show(shown + 5 * PAGE)}>Show {count(Math.min(5 * PAGE, listed.length - shown))} more</button>}
    </section>
  );
}

function Name({ text }: { text: string }) {
  const parts = frameParts(text);
  return (
    <button type="button" class="name" title="Find in the flame graph" onClick={() => change({ q: searchable(text), view: "flame" })}>
      <bdi>{parts.function.slice(0, 300)}</bdi> <bdi class="quiet">{parts.file}{parts.line !== "" && `:${parts.line}`}</bdi>
    </button>
  );
}

function Spent({ row, whole }: { row: Row; whole: number }) {
  const share = (us: number) => (whole > 0 ? us / whole : 0);
  return (
    <>
      <td class="number">{microseconds(row.self[0])}</td>
      <td class="number"><Bar part={share(row.self[0])}>{percent(share(row.self[0]))}</Bar></td>
      <td class="number">{microseconds(row.total[0])}</td>
      <td class="number"><Bar part={share(row.total[0])}>{percent(share(row.total[0]))}</Bar></td>
    </>
  );
}

function Changed({ row, reading, norm }: { row: Row; reading: Reading; norm: Norm }) {
  const { divisor } = reading;
  const cell = (us: number, side: number) => <td class="number" title={microseconds(us)}>{normalised(us, divisor[side], norm)}</td>;
  const delta = (of: "self" | "total") => {
    const by = differences(row, divisor, of);
    if (by.direction === "unknown") return <td class="number">–</td>;
    const text = norm === "rate" ? normalised(by.delta, 1, "rate") : `${(by.delta * 100).toFixed(2)} pp`;
    return <td class={`number ${by.direction}`}>{by.direction === "same" ? "≈" : by.delta > 0 ? "▲" : "▼"} {signed(text, by.delta)}</td>;
  };
  return (
    <>
      {cell(row.self[0], 0)}{cell(row.self[1], 1)}{delta("self")}
      {cell(row.total[0], 0)}{cell(row.total[1], 1)}{delta("total")}
      <td>{changeWords(differences(row, divisor, "total"))}</td>
    </>
  );
}

const isSignificant = (row: Row, { divisor }: Reading) => isChange(differences(row, divisor, "total")) || isChange(differences(row, divisor, "self"));

const differences = (row: Row, divisor: readonly number[], of: "self" | "total") => {
  const samples = of === "self" ? row.selfSamples : row.totalSamples;
  return changeOf([row[of][0], row[of][1]], [samples[0], samples[1]], divisor);
};

function orders(reading: Reading): Record<string, (row: Row) => number> {
  const { divisor } = reading;
  if (reading.us.length === 1) return { self: (row) => row.self[0], total: (row) => row.total[0] };
  return {
    self: (row) => Math.abs(differences(row, divisor, "self").delta),
    total: (row) => Math.abs(differences(row, divisor, "total").delta),
    selfa: (row) => row.self[0],
    selfb: (row) => row.self[1],
    totala: (row) => row.total[0],
    totalb: (row) => row.total[1],
  };
}

function rowsOf(reading: Reading, top: number): Row[] {
  const sums = functionSums(reading.tree, reading.shape, top);
  const pick = (columns: readonly Float64Array[], at: number) => columns.map((column) => column[at]);
  return Array.from(sums.name, (name, at) => ({
    name: reading.tree.names[name],
    self: pick(sums.self, at),
    total: pick(sums.total, at),
    selfSamples: pick(sums.selfSamples, at),
    totalSamples: pick(sums.totalSamples, at),
  }));
}
