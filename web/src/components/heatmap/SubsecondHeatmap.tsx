import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RecordingFlameAnswer, SubsecondHeatmapAnswer } from "../../api/captures.ts";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import { comparesWithRest, busiestCells, cellAt, cellsInSpan, AXIS_PIXELS, buildGrid, GUTTER_PIXELS, parseSpan, REST_SUFFIX, cellSize, formatSpan, moveCell, type SubsecondGrid, type CellSpan } from "../../charts/subsecondGrid.ts";
import { createPen } from "../../charts/pen.ts";
import { OFF_CPU_STATES, sum } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { seconds } from "../../lib/numbers.ts";
import { count } from "../../strings/counts.ts";
import { theme } from "../../lib/theme.ts";
import { formatWithZone } from "../../lib/times.ts";
import { SegmentedControl, Toggle } from "../ui/Controls.tsx";
import { TypePicker } from "../controls/Filters.tsx";
import { ProfileView } from "../profile/ProfileView.tsx";
import { TYPE_NAMES } from "../answer/EmptyState.tsx";
import { PrunedNotice } from "../answer/PrunedNotice.tsx";
import { Table } from "../ui/Table.tsx";
import { useElementWidth } from "../ui/useElementWidth.ts";
import type { ViewName } from "../../lib/viewOptions.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { treeParameters } from "../../lib/queryParameters.ts";
import * as strings from "../../strings/heatmapStrings.tsx";

/** A capture by second and by offset in the second: a span that is picked has a flame graph of its own. */
export function SubsecondHeatmap({ path }: { path: string }) {
  const { type, recording, span } = place.value;
  const request = useAnswer<SubsecondHeatmapAnswer>(apiUrl(`${path}/subsecond-heatmap`, { type, recording }));
  const selectedSpan = parseSpan(span);
  const processes = useRef<SubsecondHeatmapAnswer["recordings"]>([]);
  if (request.answer && recording === "") processes.current = request.answer.recordings;
  return (
    <section class="offsets heat" aria-labelledby="offsets-title">
      <h3 id="offsets-title">{strings.whereInEachSecond}</h3>
      <div class="row">
        <TypePicker />
        {(processes.current.length > 1 || recording !== "") && (
          <label>{strings.process}{" "}
            <select value={recording} onChange={(event) => change({ recording: event.currentTarget.value })}>
              <option value="">{strings.all}</option>
              {(processes.current.length > 0 ? processes.current : request.answer?.recordings ?? []).map(({ name, pid, labels }) => (
                <option key={name} value={name}>{`${(labels.pod ?? "").slice(0, 80)} ${pid}`}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      <AnswerView request={request} what={strings.heatMap}>{(answer) => <SubsecondGridView answer={answer} />}</AnswerView>
      {span !== "" && !selectedSpan && <p class="missing" role="status">{strings.spanInUrlInvalid}{" "}<button type="button" onClick={() => change({ span: "" }, "replace")}>{strings.clearSpan}</button></p>}
      {selectedSpan && request.answer && <SpanProfile path={path} from={selectedSpan[0]} until={selectedSpan[1]} start={request.answer.start} />}
    </section>
  );
}

function SubsecondGridView({ answer }: { answer: SubsecondHeatmapAnswer }) {
  const grid = useMemo(() => buildGrid(answer), [answer]);
  const selectedSpan = parseSpan(place.value.span);
  const cells = useMemo(() => selectedSpan && cellsInSpan(grid, selectedSpan), [grid, place.value.span]);
  const [cursor, setCursor] = useState<number>(cells?.[0] ?? busiestCells(grid, 1)[0] ?? 0);
  const [draft, setDraft] = useState<CellSpan | null>(null);
  const shown = draft ?? cells;
  const at = Math.min(cursor, grid.samples.length - 1);
  useEffect(() => setDraft(null), [place.value.span, grid]);
  const pick = (span: CellSpan) => { setDraft(span); change({ span: formatSpan(grid, span) }); };
  const top = useMemo(() => busiestCells(grid, 50), [grid]);
  if (grid.columns === 0) return <p>{strings.noRecordedSamples}</p>;
  return (
    <>
      <p class="quiet">
        {strings.subsecondHint(formatWithZone(answer.start), grid.step)}
      </p>
      <p class="legend" aria-label={strings.legend}>
        <span>{strings.noSamplesOfType}</span> <span class="heat-scale" aria-hidden="true" /> <span>{strings.sampleInMs(grid.maximum, grid.step)}</span> <span>{strings.emptyNoData}</span>
      </p>
      <SubsecondCanvas grid={grid} cursor={at} span={shown} setCursor={setCursor} setDraft={setDraft} onSelect={pick} />
      <p class="basis" role="status" aria-live="polite">{describeCell(grid, at)}{draft && ` · ${formatSpan(grid, draft).replace("-", " to ")} s`}</p>
      <SpanForm key={place.value.span} span={selectedSpan} maxMilliseconds={(grid.columns * 1000)} />
      <details class="numbers">
        <summary>{strings.busiestCellsAsTable}</summary>
        <Table label={strings.busiestCellsAsTable} className="short" heads={[...strings.busiestColumns]}>
          {top.map((cell) => (
            <tr key={cell}>
              <th scope="row">{Math.floor(cell / grid.rows)}</th><td>{(cell % grid.rows) * grid.step} ms</td>
              <td class="number">{count(grid.samples[cell])}</td><td class="number">{count(grid.sampled[cell])}</td>
              <td><button type="button" aria-label={strings.pickS(formatSpan(grid, [cell, cell]))} onClick={() => { setCursor(cell); pick([cell, cell]); }}>{strings.pick}</button></td>
            </tr>
          ))}
        </Table>
      </details>
    </>
  );
}

const describeCell = (grid: SubsecondGrid, cell: number): string => {
  const from = (cell % grid.rows) * grid.step;
  const samples = grid.sampled[cell] === 0 ? strings.nothingWasSampled : strings.sampleOf(grid.samples[cell], grid.sampled[cell]);
  return strings.describeCell(Math.floor(cell / grid.rows), from, from + grid.step, samples);
};

function SubsecondCanvas({ grid, cursor, span, setCursor, setDraft, onSelect }: {
  grid: SubsecondGrid; cursor: number; span: CellSpan | null; setCursor: (cell: number) => void; setDraft: (span: CellSpan | null) => void; onSelect: (span: CellSpan) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const anchor = useRef<number | null>(null);
  const host = useRef<HTMLDivElement>(null);
  const width = useElementWidth(host);
  const currentTheme = theme.value;
  const size = cellSize(grid, width - GUTTER_PIXELS);
  // After the header has put the theme's colours in force.
  useEffect(() => {
    if (canvas.current && width > 0) drawGrid(canvas.current, grid, size, cursor, span);
  }, [grid, width, cursor, span?.[0], span?.[1], currentTheme]);
  const cellUnder = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return cellAt(grid, size, event.clientX - box.left, event.clientY - box.top);
  };
  const onKey = (event: KeyboardEvent) => {
    const to = moveCell(grid, cursor, event.key);
    if (to !== null) {
      anchor.current = event.shiftKey ? anchor.current ?? cursor : null;
      setCursor(to);
      setDraft(anchor.current === null ? null : [anchor.current, to]);
    } else if (event.key === "Enter" || event.key === " ") {
      onSelect([anchor.current ?? cursor, cursor]);
      anchor.current = null;
    } else if (event.key === "Escape" && (anchor.current !== null || place.peek().span !== "")) {
      anchor.current = null;
      setDraft(null);
      change({ span: "" });
    } else return;
    event.preventDefault();
  };
  return (
    <div class="map" ref={host}>
      <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription={strings.heatMapWord} onKeyDown={onKey}
        aria-label={strings.subsecondDescription(grid.columns, grid.rows, grid.maximum)}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          anchor.current = cellUnder(event);
          setCursor(anchor.current);
          setDraft([anchor.current, anchor.current]);
        }}
        onPointerMove={(event) => {
          const cell = cellUnder(event);
          if (anchor.current !== null && event.currentTarget.hasPointerCapture(event.pointerId)) setDraft([anchor.current, cell]);
          setCursor(cell);
        }}
        onPointerUp={(event) => {
          if (anchor.current === null || !event.currentTarget.hasPointerCapture(event.pointerId)) return;
          onSelect([anchor.current, cellUnder(event)]);
          anchor.current = null;
        }}
        onPointerCancel={() => { anchor.current = null; setDraft(null); }} />
    </div>
  );
}

function drawGrid(canvas: HTMLCanvasElement, grid: SubsecondGrid, size: { column: number; row: number }, cursor: number, span: CellSpan | null): void {
  const [width, height] = [GUTTER_PIXELS + grid.columns * size.column, grid.rows * size.row + AXIS_PIXELS];
  const pencil = createPen(canvas, width, height);
  if (!pencil) return;
  const { context: pen, colour, heat } = pencil;
  const corner = (cell: number): readonly [number, number] =>
    [GUTTER_PIXELS + Math.floor(cell / grid.rows) * size.column, (grid.rows - 1 - (cell % grid.rows)) * size.row];
  const gap = size.column > 4 && size.row > 3 ? 1 : 0;
  for (let cell = 0; cell < grid.sampled.length; cell++) {
    if (grid.sampled[cell] === 0) continue;
    const [x, y] = corner(cell);
    pen.fillStyle = heat(grid.samples[cell] / Math.max(grid.maximum, 1));
    pen.fillRect(x, y, size.column - gap, size.row - gap);
  }
  pen.fillStyle = colour("--quiet");
  pen.textAlign = "right";
  for (const ms of [0, 250, 500, 750]) pen.fillText(`${ms} ms`, GUTTER_PIXELS - 4, Math.max(7, Math.min(height - AXIS_PIXELS - 7, (1 - ms / 1000) * (height - AXIS_PIXELS))));
  pen.textAlign = "left";
  const labelStep = [1, 2, 5, 10, 15, 30, 60, 300, 600, 3600].find((seconds) => seconds * size.column >= 48) ?? 3600;
  for (let second = 0; second < grid.columns; second += labelStep) pen.fillText(`${second} s`, GUTTER_PIXELS + second * size.column, height - AXIS_PIXELS / 2);
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
function SpanForm({ span, maxMilliseconds }: { span: readonly [number, number] | null; maxMilliseconds: number }) {
  const [from, setFrom] = useState(String((span?.[0] ?? 0) / 1e6));
  const [until, setUntil] = useState(String(span ? span[1] / 1e6 : maxMilliseconds / 1000));
  const text = `${from.trim()}-${until.trim()}`;
  return (
    <form class="row" onSubmit={(event) => { event.preventDefault(); if (parseSpan(text)) change({ span: text }); }}>
      <label>{strings.fromSecond}{" "}<input inputMode="decimal" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      <label>{strings.untilSecond}{" "}<input inputMode="decimal" value={until} onInput={(event) => setUntil(event.currentTarget.value)} /></label>
      <button disabled={!parseSpan(text)}>{strings.pick}</button>
      {span && <button type="button" onClick={() => change({ span: "", focus: "" })}>{strings.clear}</button>}
      {!parseSpan(text) && <span role="status">{strings.spanError}</span>}
    </form>
  );
}

function SpanProfile({ path, from, until, start }: { path: string; from: number; until: number; start: number }) {
  const here = place.value;
  const { type, recording, span } = here;
  const rest = comparesWithRest(span);
  const { lines, nodes, states } = treeParameters(here);
  // A table of one function's lines is made of windows: here the graph tells lines apart instead.
  const isLinesView = here.view === "lines";
  useEffect(() => { if (isLinesView) change({ view: "flame", by: "line", fn: "" }, "replace"); }, [isLinesView]);
  const request = useAnswer<RecordingFlameAnswer>(apiUrl(`${path}/flamegraph`, { type, recording, from_us: String(from), until_us: String(until), exclude_span: rest ? "1" : "", lines, nodes, states }));
  if (isLinesView) return null;
  return (
    <>
      <h4>{strings.spanSummary(from / 1e6, until / 1e6, seconds((until - from) / 1e6), formatWithZone(start + Math.floor(from / 1e6)))}</h4>
      <div class="row">
        <Toggle isOn={rest} onToggle={() => change({ span: rest ? span.replace(REST_SUFFIX, "") : span + REST_SUFFIX, focus: "" })} title={strings.compareWithRestHint}>{strings.compareWithRest}</Toggle>
        <SegmentedControl<ViewName> label={strings.view} value={here.view === "sides" && !rest ? "flame" : here.view} onSelect={(view) => change({ view })}
          options={[["flame", rest ? strings.differential : strings.flameGraph], ...(rest ? [["sides", strings.sideBySide] as const] : []), ["table", strings.table], ["sandwich", strings.sandwich]]} />
      </div>
      <AnswerView request={request} what={strings.theFlameGraph}>{(answer) => (answer.sides.length === (rest ? 2 : 1) ? <SpanFlameGraph answer={answer} /> : null)}</AnswerView>
    </>
  );
}

function SpanFlameGraph({ answer }: { answer: RecordingFlameAnswer }) {
  const { type } = place.value;
  // What a picture that is saved says of each side.
  const captioned = useMemo(() => ({
    ...answer,
    sides: answer.sides.map((side, at) => ({
      ...side, selector: `{capture="${answer.capture}"}${at + 1 < answer.sides.length ? strings.butNot : ""}`,
      from: answer.start + answer.from_us / 1e6, until: answer.start + answer.until_us / 1e6,
    })),
  }), [answer]);
  const { samples, states, seconds: sampled } = answer.sides[answer.sides.length - 1];
  const offCpu = sum(OFF_CPU_STATES.map((state) => states[state]));
  const stateText = strings.spanStates(states.gil, states.running, states.cpu_wait, states.gil_wait, offCpu);
  if (samples === 0) return <p>{strings.noSamplesInSpan(TYPE_NAMES[type], stateText)}{offCpu + states.cpu_wait + states.gil_wait > 0 && type !== "wall" && <> <button type="button" onClick={() => change({ type: "wall" })}>{strings.showWaitingToo}</button></>}</p>;
  return (
    <>
      <p class="basis">{strings.spanData(samples, seconds(sampled), stateText)}</p>
      <PrunedNotice pruned={answer.pruned} />
      <ProfileView answer={captioned} names={answer.sides.length === 2 ? [strings.sideARest, strings.sideBSpan] : [""]} />
    </>
  );
}
