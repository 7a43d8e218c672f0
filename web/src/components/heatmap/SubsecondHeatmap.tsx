import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import { besideRest, busiest, cellAt, cellsOf, FOOT, gridOf, GUTTER, readSpan, REST, sizes, spanText, step, type Grid, type OffsetsAnswer, type Span } from "../../charts/subsecondGrid.ts";
import { penOf } from "../../charts/pen.ts";
import type { WireTree } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { count, plural, seconds } from "../../lib/numbers.ts";
import { theme } from "../../lib/theme.ts";
import { zoned } from "../../lib/times.ts";
import { Segments, Toggle } from "../ui/Controls.tsx";
import { TypePicker } from "../controls/Filters.tsx";
import { Lensed } from "../profile/ProfileView.tsx";
import { Pruned } from "../answer/PrunedNotice.tsx";
import { Table } from "../ui/Table.tsx";
import { useWidth } from "../ui/useElementWidth.ts";
import type { ViewName } from "../../lib/viewOptions.ts";
import { Show } from "../answer/AnswerView.tsx";
import { treeAsked } from "../../lib/queryParameters.ts";

interface PickedAnswer extends WireTree {
  readonly capture: string;
  readonly start: number;
  readonly from_us: number;
  readonly until_us: number;
  readonly sides: readonly (WireTree["sides"][number] & {
    readonly samples: number; readonly seconds: number; readonly pod_seconds: number; readonly states: { readonly idle: number; readonly running: number; readonly gil: number };
  })[];
  readonly pruned: { readonly nodes: number; readonly limit: number | null };
}

/** A capture by second and by offset in the second: a span that is picked has a flame graph of its own. */
export function Offsets({ path }: { path: string }) {
  const { type, recording, span } = place.value;
  const asked = useAnswer<OffsetsAnswer>(apiUrl(`${path}/offsets`, { type, recording }));
  const picked = readSpan(span);
  const processes = useRef<OffsetsAnswer["recordings"]>([]);
  if (asked.answer && recording === "") processes.current = asked.answer.recordings;
  return (
    <section class="offsets heat" aria-labelledby="offsets-title">
      <h3 id="offsets-title">Where in each second</h3>
      <div class="row">
        <TypePicker />
        {(processes.current.length > 1 || recording !== "") && (
          <label>Process{" "}
            <select value={recording} onChange={(event) => change({ recording: event.currentTarget.value })}>
              <option value="">all</option>
              {(processes.current.length > 0 ? processes.current : asked.answer?.recordings ?? []).map(({ name, pid, labels }) => (
                <option key={name} value={name}>{`${(labels.pod ?? "").slice(0, 80)} ${pid}`}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Show asked={asked} what="the heat map">{(answer) => <Heat answer={answer} />}</Show>
      {span !== "" && !picked && <p class="missing" role="status">This address is about a span that cannot be read. <button type="button" onClick={() => change({ span: "" }, "replace")}>Forget it</button></p>}
      {picked && asked.answer && <Picked path={path} from={picked[0]} until={picked[1]} start={asked.answer.start} />}
    </section>
  );
}

function Heat({ answer }: { answer: OffsetsAnswer }) {
  const grid = useMemo(() => gridOf(answer), [answer]);
  const picked = readSpan(place.value.span);
  const cells = useMemo(() => picked && cellsOf(grid, picked), [grid, place.value.span]);
  const [cursor, point] = useState<number>(cells?.[0] ?? busiest(grid, 1)[0] ?? 0);
  const [drawn, draw] = useState<Span | null>(null);
  const shown = drawn ?? cells;
  const at = Math.min(cursor, grid.samples.length - 1);
  useEffect(() => draw(null), [place.value.span, grid]);
  const pick = (span: Span) => { draw(span); change({ span: spanText(grid, span) }); };
  const top = useMemo(() => busiest(grid, 50), [grid]);
  if (grid.columns === 0) return <p>These recordings hold no samples.</p>;
  return (
    <>
      <p class="quiet">
        A column for each second from {zoned(answer.start)}, a row for each {grid.step} ms of it, the beginning of the second at the bottom. Drag over a span, or walk with the arrow keys: Shift extends, Enter picks.
      </p>
      <p class="legend" aria-label="Legend">
        <span>no samples of this type</span> <span class="heat-scale" aria-hidden="true" /> <span>{plural(grid.most, "sample")} in {grid.step} ms</span> <span>· empty: nothing was sampled</span>
      </p>
      <Cells grid={grid} cursor={at} span={shown} point={point} draw={draw} pick={pick} />
      <p class="basis" role="status" aria-live="polite">{words(grid, at)}{drawn && ` · ${spanText(grid, drawn).replace("-", " to ")} s`}</p>
      <Exactly key={place.value.span} span={picked} longest={(grid.columns * 1000)} />
      <details class="numbers">
        <summary>The busiest cells as a table</summary>
        <Table label="The busiest cells as a table" looks="short" heads={["second", "offset", "#samples", "#of all", "~Pick"]}>
          {top.map((cell) => (
            <tr key={cell}>
              <th scope="row">{Math.floor(cell / grid.rows)}</th><td>{(cell % grid.rows) * grid.step} ms</td>
              <td class="number">{count(grid.samples[cell])}</td><td class="number">{count(grid.sampled[cell])}</td>
              <td><button type="button" aria-label={`Pick ${spanText(grid, [cell, cell])} s`} onClick={() => { point(cell); pick([cell, cell]); }}>Pick</button></td>
            </tr>
          ))}
        </Table>
      </details>
    </>
  );
}

const words = (grid: Grid, cell: number): string => {
  const from = (cell % grid.rows) * grid.step;
  const seen = grid.sampled[cell] === 0 ? "nothing was sampled" : `${plural(grid.samples[cell], "sample")} of ${count(grid.sampled[cell])}`;
  return `second ${Math.floor(cell / grid.rows)}, ${from} to ${from + grid.step} ms: ${seen}`;
};

function Cells({ grid, cursor, span, point, draw, pick }: {
  grid: Grid; cursor: number; span: Span | null; point: (cell: number) => void; draw: (span: Span | null) => void; pick: (span: Span) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const anchor = useRef<number | null>(null);
  const host = useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const shown = theme.value;
  const size = sizes(grid, width - GUTTER);
  // After the header has put the theme's colours in force.
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, grid, size, cursor, span);
  }, [grid, width, cursor, span?.[0], span?.[1], shown]);
  const under = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return cellAt(grid, size, event.clientX - box.left, event.clientY - box.top);
  };
  const keys = (event: KeyboardEvent) => {
    const to = step(grid, cursor, event.key);
    if (to !== null) {
      anchor.current = event.shiftKey ? anchor.current ?? cursor : null;
      point(to);
      draw(anchor.current === null ? null : [anchor.current, to]);
    } else if (event.key === "Enter" || event.key === " ") {
      pick([anchor.current ?? cursor, cursor]);
      anchor.current = null;
    } else if (event.key === "Escape" && (anchor.current !== null || place.peek().span !== "")) {
      anchor.current = null;
      draw(null);
      change({ span: "" });
    } else return;
    event.preventDefault();
  };
  return (
    <div class="map" ref={host}>
      <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="heat map" onKeyDown={keys}
        aria-label={`Samples by second and offset: ${plural(grid.columns, "second")} of ${grid.rows} cells each, at most ${plural(grid.most, "sample")} in one. Arrow keys walk, Shift extends, Enter picks.`}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          anchor.current = under(event);
          point(anchor.current);
          draw([anchor.current, anchor.current]);
        }}
        onPointerMove={(event) => {
          const cell = under(event);
          if (anchor.current !== null && event.currentTarget.hasPointerCapture(event.pointerId)) draw([anchor.current, cell]);
          point(cell);
        }}
        onPointerUp={(event) => {
          if (anchor.current === null || !event.currentTarget.hasPointerCapture(event.pointerId)) return;
          pick([anchor.current, under(event)]);
          anchor.current = null;
        }}
        onPointerCancel={() => { anchor.current = null; draw(null); }} />
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, grid: Grid, size: { column: number; row: number }, cursor: number, span: Span | null): void {
  const [wide, high] = [GUTTER + grid.columns * size.column, grid.rows * size.row + FOOT];
  const drawn = penOf(canvas, wide, high);
  if (!drawn) return;
  const { ink: pen, colour, heat } = drawn;
  const corner = (cell: number): readonly [number, number] =>
    [GUTTER + Math.floor(cell / grid.rows) * size.column, (grid.rows - 1 - (cell % grid.rows)) * size.row];
  const gap = size.column > 4 && size.row > 3 ? 1 : 0;
  for (let cell = 0; cell < grid.sampled.length; cell++) {
    if (grid.sampled[cell] === 0) continue;
    const [x, y] = corner(cell);
    pen.fillStyle = heat(grid.samples[cell] / Math.max(grid.most, 1));
    pen.fillRect(x, y, size.column - gap, size.row - gap);
  }
  pen.fillStyle = colour("--quiet");
  pen.textAlign = "right";
  for (const ms of [0, 250, 500, 750]) pen.fillText(`${ms} ms`, GUTTER - 4, Math.max(7, Math.min(high - FOOT - 7, (1 - ms / 1000) * (high - FOOT))));
  pen.textAlign = "left";
  const every = [1, 2, 5, 10, 15, 30, 60, 300, 600, 3600].find((seconds) => seconds * size.column >= 48) ?? 3600;
  for (let second = 0; second < grid.columns; second += every) pen.fillText(`${second} s`, GUTTER + second * size.column, high - FOOT / 2);
  if (span) {
    const [first, last] = span[0] <= span[1] ? span : [span[1], span[0]];
    pen.fillStyle = colour("--focus");
    pen.strokeStyle = colour("--focus");
    for (let second = Math.floor(first / grid.rows); second <= Math.floor(last / grid.rows); second++) {
      const [x, bottom] = corner(Math.max(first, second * grid.rows));
      const y = corner(Math.min(last, (second + 1) * grid.rows - 1))[1];
      pen.globalAlpha = 0.3;
      pen.fillRect(x, y, size.column, bottom + size.row - y);
      pen.globalAlpha = 1;
      pen.strokeRect(x + 0.5, y + 0.5, size.column - 1, bottom + size.row - y - 1);
    }
  }
  const [x, y] = corner(cursor);
  pen.strokeStyle = colour("--text");
  pen.lineWidth = 2;
  pen.strokeRect(x, y, size.column, size.row);
}

/** The span as numbers: any span at all, without a pointer. */
function Exactly({ span, longest }: { span: readonly [number, number] | null; longest: number }) {
  const [from, setFrom] = useState(String((span?.[0] ?? 0) / 1e6));
  const [until, setUntil] = useState(String(span ? span[1] / 1e6 : longest / 1000));
  const text = `${from.trim()}-${until.trim()}`;
  return (
    <form class="row" onSubmit={(event) => { event.preventDefault(); if (readSpan(text)) change({ span: text }); }}>
      <label>From second <input inputMode="decimal" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      <label>Until second <input inputMode="decimal" value={until} onInput={(event) => setUntil(event.currentTarget.value)} /></label>
      <button disabled={!readSpan(text)}>Pick</button>
      {span && <button type="button" onClick={() => change({ span: "", focus: "" })}>Clear</button>}
      {!readSpan(text) && <span role="status">Seconds, the first before the second, such as 12.34 and 12.56.</span>}
    </form>
  );
}

function Picked({ path, from, until, start }: { path: string; from: number; until: number; start: number }) {
  const here = place.value;
  const { type, recording, span } = here;
  const rest = besideRest(span);
  const { lines, nodes, states } = treeAsked(here);
  // A table of one function's lines is made of windows: here the graph tells lines apart instead.
  const apart = here.view === "lines";
  useEffect(() => { if (apart) change({ view: "flame", by: "line", fn: "" }, "replace"); }, [apart]);
  const asked = useAnswer<PickedAnswer>(apiUrl(`${path}/flamegraph`, { type, recording, from_us: String(from), until_us: String(until), rest: rest ? "1" : "", lines, nodes, states }));
  if (apart) return null;
  return (
    <>
      <h4>{from / 1e6} to {until / 1e6} s: {seconds((until - from) / 1e6)} from {zoned(start + Math.floor(from / 1e6))}</h4>
      <div class="row">
        <Toggle on={rest} flip={() => change({ span: rest ? span.replace(REST, "") : span + REST, focus: "" })} title="A: all of the capture that is outside this span; B: the span">Compare with the rest</Toggle>
        <Segments<ViewName> label="View" value={here.view === "sides" && !rest ? "flame" : here.view} choose={(view) => change({ view })}
          options={[["flame", rest ? "Differential" : "Flame graph"], ...(rest ? [["sides", "Side by side"] as const] : []), ["table", "Table"], ["sandwich", "Sandwich"]]} />
      </div>
      <Show asked={asked} what="the flame graph">{(answer) => (answer.sides.length === (rest ? 2 : 1) ? <Drawn answer={answer} /> : null)}</Show>
    </>
  );
}

function Drawn({ answer }: { answer: PickedAnswer }) {
  const { type } = place.value;
  // What a picture that is saved says of each side.
  const shown = useMemo(() => ({
    ...answer,
    sides: answer.sides.map((side, at) => ({
      ...side, selector: `{capture="${answer.capture}"}${at + 1 < answer.sides.length ? " but not" : ""}`,
      from: answer.start + answer.from_us / 1e6, until: answer.start + answer.until_us / 1e6,
    })),
  }), [answer]);
  const { samples, states, seconds: sampled } = answer.sides[answer.sides.length - 1];
  const told = `${plural(states.gil, "sample")} held the GIL, ${count(states.running)} ran, ${count(states.idle)} waited`;
  if (samples === 0) return <p>No {type === "gil" ? "GIL" : type} samples in this span: {told}.{states.idle > 0 && type !== "wall" && <> <button type="button" onClick={() => change({ type: "wall" })}>Show waiting too</button></>}</p>;
  return (
    <>
      <p class="basis">{plural(samples, "sample")} · sampled time {seconds(sampled)} · {told}</p>
      <Pruned pruned={answer.pruned} />
      <Lensed answer={shown} names={answer.sides.length === 2 ? ["A the rest", "B this span"] : [""]} />
    </>
  );
}
