import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { selectionBetween, parseSelection, formatSelection, type Cell, type CellSelection } from "../../charts/cellSelection.ts";
import { drawHeatmap, geometry, maxValue, cellsAt, type Grid } from "../../charts/heatmapDrawing.ts";
import { change, place } from "../../lib/location.ts";
import { short } from "../../lib/numbers.ts";
import { theme } from "../../lib/theme.ts";
import { Toggle } from "../ui/Controls.tsx";
import { Hint } from "../ui/Hint.tsx";
import { useElementWidth } from "../ui/useElementWidth.ts";
import * as strings from "../../strings/heatmapStrings.tsx";

/**
 * A grid that is drawn, pointed at and selected from by mouse, touch and keyboard. What is selected is in the
 * address (`cells`); `actions` says what can be done with it, and Enter calls `onOpen`.
 */
export function HeatmapGrid({ grid, actions, onOpen }: {
  grid: Grid; actions: (selected: CellSelection) => ComponentChildren; onOpen: (selected: CellSelection) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useElementWidth(host);
  const [pointed, setPointed] = useState<Cell | null>(null);
  const [draft, setDraft] = useState<CellSelection | null>(null);
  const [cursor, setCursor] = useState<Cell | null>(null);
  const [extending, setExtending] = useState(false);
  const anchor = useRef<Cell | null>(null);
  const currentTheme = theme.value;
  const stored = parseSelection(grid, place.value.cells);
  const selected = draft ?? stored;
  const layout = geometry(grid.rows.length, grid.columns.length, width);
  useEffect(() => {
    if (canvas.current && width > 0) drawHeatmap(canvas.current, grid, layout, selected, cursor);
  }, [grid, width, selected?.rows.join(), selected?.first, selected?.last, cursor, currentTheme]);

  const store = (block: CellSelection | null, how: "push" | "replace") => change({ cells: block ? formatSelection(grid, block) : "" }, how);
  const cellsUnder = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box ? cellsAt(layout, grid.rows.length, grid.columns.length, event.clientX - box.left, event.clientY - box.top) : null;
  };
  const down = (event: PointerEvent) => {
    const cells = event.button === 0 ? cellsUnder(event) : null;
    if (!cells) return;
    const from = (event.shiftKey || extending) && anchor.current ? anchor.current : cells.from;
    anchor.current = from;
    canvas.current?.setPointerCapture(event.pointerId);
    setDraft(selectionBetween(from, cells.to));
  };
  const over = (event: PointerEvent) => {
    const cells = cellsUnder(event);
    setPointed(cells && cells.from.row === cells.to.row && cells.from.column === cells.to.column ? cells.from : null);
    if (draft && cells && anchor.current) setDraft(selectionBetween(anchor.current, cells.to));
  };
  const up = () => {
    if (!draft) return;
    setDraft(null);
    setExtending(false);
    setCursor(null);
    store(draft, "push");
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = cursor ?? (selected ? { row: selected.rows[0], column: selected.first } : null);
    const steps: Record<string, readonly [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -grid.columns.length], End: [0, grid.columns.length] };
    if (Object.hasOwn(steps, event.key)) {
      event.preventDefault();
      const [rows, columns] = here ? steps[event.key] : [0, 0];
      const next = { row: clampIndex((here?.row ?? 0) + rows, grid.rows.length), column: clampIndex((here?.column ?? 0) + columns, grid.columns.length) };
      if (!event.shiftKey || !anchor.current) anchor.current = event.shiftKey && here ? here : next;
      setCursor(next);
      store(selectionBetween(anchor.current, next), "replace");
      scrollToCell(next);
    } else if (event.key === "Enter" && selected) {
      event.preventDefault();
      onOpen(selected);
    } else if (event.key === "Escape" && (selected ?? cursor)) {
      event.preventDefault();
      anchor.current = null;
      setCursor(null);
      setDraft(null);
      store(null, "replace");
    }
  };
  const scrollToCell = ({ row, column }: Cell) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !host.current) return;
    const left = layout.gutter + column * layout.wide;
    if (left < host.current.scrollLeft + layout.gutter) host.current.scrollLeft = left - layout.gutter;
    else if (left + layout.wide > host.current.scrollLeft + host.current.clientWidth) host.current.scrollLeft = left + layout.wide - host.current.clientWidth;
    const top = box.top + layout.top + row * layout.high;
    if (top < 0) window.scrollBy(0, top - layout.high);
    else if (top + layout.high > window.innerHeight) window.scrollBy(0, top + 2 * layout.high - window.innerHeight);
  };
  const described = cursor ?? pointed;
  const isInGrid = described !== null && described.row < grid.rows.length && described.column < grid.columns.length;
  const maximum = short(maxValue(grid) * grid.scale);
  return (
    <section class="card heat" aria-label={grid.title}>
      <div class="caption">
        <h2>{grid.title}</h2>
        <p class="legend" aria-label={strings.legend}>
          <span>0</span> <span class="heat-scale" aria-hidden="true" /> <span>{maximum} {grid.unit}</span>
          <span>{strings.noData(<span class="swatch heat-missing" aria-hidden="true" />)}</span>
          {grid.rows.some(({ marks }) => marks.length > 0) && <span>{strings.newVersion(<span class="heat-mark" aria-hidden="true" />)}</span>}
        </p>
      </div>
      <div class="heat-host" ref={host}>
        <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription={strings.heatmap} aria-describedby="heat-line"
          aria-label={strings.gridDescription(grid.title, grid.rows.length, grid.columns.length, maximum, grid.unit)}
          onPointerDown={down} onPointerMove={over} onPointerUp={up} onPointerCancel={() => setDraft(null)} onPointerLeave={() => setPointed(null)} onKeyDown={press} onBlur={() => setCursor(null)} />
      </div>
      <p class="heat-line">
        <span id="heat-line" role="status">{isInGrid && grid.describe(described)}</span>
        {!isInGrid && !selected && <Hint id="cells" text={strings.hoverHint} touchText={strings.tapHint} onHide={() => canvas.current?.focus()} />}
      </p>
      {selected && (
        <div class="row chosen-cells">
          {actions(selected)}
          <Toggle isOn={extending} onToggle={() => {
            anchor.current ??= { row: selected.rows[0], column: selected.first };
            setExtending(!extending);
          }} title={strings.extendHint}>{strings.extendSelection}</Toggle>
          <button type="button" onClick={() => store(null, "push")}>{strings.clear}</button>
        </div>
      )}
      {!selected && place.value.cells !== "" && <p class="notices single">{strings.selectionOutOfView}</p>}
    </section>
  );
}

const clampIndex = (at: number, count: number) => Math.min(Math.max(at, 0), count - 1);
