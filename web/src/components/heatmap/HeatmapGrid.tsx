import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { between, read, written, type Cell, type Selected } from "../../charts/cellSelection.ts";
import { drawHeatmap, geometry, highest, hit, type Grid } from "../../charts/heatmapDrawing.ts";
import { change, place } from "../../lib/location.ts";
import { short } from "../../lib/numbers.ts";
import { theme } from "../../lib/theme.ts";
import { Toggle } from "../ui/Controls.tsx";
import { useWidth } from "../ui/useElementWidth.ts";

const HINT = "Point at a cell, or drag over some to select them. A name selects its row, a time its column.";

/**
 * A grid that is drawn, pointed at and selected from by mouse, touch and keyboard. What is selected is in the
 * address (`cells`); `actions` says what can be done with it, and `open` is what Enter does.
 */
export function HeatGrid({ grid, actions, open }: {
  grid: Grid; actions: (selected: Selected) => ComponentChildren; open: (selected: Selected) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(host);
  const [pointed, point] = useState<Cell | null>(null);
  const [draft, drag] = useState<Selected | null>(null);
  const [cursor, move] = useState<Cell | null>(null);
  const [extending, extend] = useState(false);
  const anchor = useRef<Cell | null>(null);
  const shown = theme.value;
  const settled = read(grid, place.value.cells);
  const selected = draft ?? settled;
  const of = geometry(grid.rows.length, grid.columns.length, width);
  useEffect(() => {
    if (canvas.current && width > 0) drawHeatmap(canvas.current, grid, of, selected, cursor);
  }, [grid, width, selected?.rows.join(), selected?.first, selected?.last, cursor, shown]);

  const settle = (block: Selected | null, how: "push" | "replace") => change({ cells: block ? written(grid, block) : "" }, how);
  const at = (event: PointerEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return box ? hit(of, grid.rows.length, grid.columns.length, event.clientX - box.left, event.clientY - box.top) : null;
  };
  const down = (event: PointerEvent) => {
    const cells = event.button === 0 ? at(event) : null;
    if (!cells) return;
    const from = (event.shiftKey || extending) && anchor.current ? anchor.current : cells.from;
    anchor.current = from;
    canvas.current?.setPointerCapture(event.pointerId);
    drag(between(from, cells.to));
  };
  const over = (event: PointerEvent) => {
    const cells = at(event);
    point(cells && cells.from.row === cells.to.row && cells.from.column === cells.to.column ? cells.from : null);
    if (draft && cells && anchor.current) drag(between(anchor.current, cells.to));
  };
  const up = () => {
    if (!draft) return;
    drag(null);
    extend(false);
    move(null);
    settle(draft, "push");
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const here = cursor ?? (selected ? { row: selected.rows[0], column: selected.first } : null);
    const steps: Record<string, readonly [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -grid.columns.length], End: [0, grid.columns.length] };
    if (Object.hasOwn(steps, event.key)) {
      event.preventDefault();
      const [rows, columns] = here ? steps[event.key] : [0, 0];
      const next = { row: within((here?.row ?? 0) + rows, grid.rows.length), column: within((here?.column ?? 0) + columns, grid.columns.length) };
      if (!event.shiftKey || !anchor.current) anchor.current = event.shiftKey && here ? here : next;
      move(next);
      settle(between(anchor.current, next), "replace");
      bring(next);
    } else if (event.key === "Enter" && selected) {
      event.preventDefault();
      open(selected);
    } else if (event.key === "Escape" && (selected ?? cursor)) {
      event.preventDefault();
      anchor.current = null;
      move(null);
      drag(null);
      settle(null, "replace");
    }
  };
  const bring = ({ row, column }: Cell) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || !host.current) return;
    const left = of.gutter + column * of.wide;
    if (left < host.current.scrollLeft + of.gutter) host.current.scrollLeft = left - of.gutter;
    else if (left + of.wide > host.current.scrollLeft + host.current.clientWidth) host.current.scrollLeft = left + of.wide - host.current.clientWidth;
    const top = box.top + of.top + row * of.high;
    if (top < 0) window.scrollBy(0, top - of.high);
    else if (top + of.high > window.innerHeight) window.scrollBy(0, top + 2 * of.high - window.innerHeight);
  };
  const told = cursor ?? pointed;
  const most = highest(grid);
  return (
    <section class="card heat" aria-label={grid.title}>
      <div class="caption">
        <h2>{grid.title}</h2>
        <p class="legend" aria-label="Legend">
          <span>0</span> <span class="heat-scale" aria-hidden="true" /> <span>{short(most)} {grid.unit}</span>
          <span><span class="swatch heat-missing" aria-hidden="true" /> not watched</span>
          {grid.rows.some(({ marks }) => marks.length > 0) && <span><span class="heat-mark" aria-hidden="true" /> a version begins</span>}
        </p>
      </div>
      <div class="heat-host" ref={host}>
        <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="heatmap" aria-describedby="heat-line"
          aria-label={`${grid.title}: ${grid.rows.length} rows, ${grid.columns.length} columns, highest ${short(most)} ${grid.unit}. Arrow keys move, Shift extends, Enter opens the selection, Escape clears it. The table below has the same numbers.`}
          onPointerDown={down} onPointerMove={over} onPointerUp={up} onPointerCancel={() => drag(null)} onPointerLeave={() => point(null)} onKeyDown={press} onBlur={() => move(null)} />
      </div>
      <p class="heat-line" id="heat-line" role="status">{told && told.row < grid.rows.length && told.column < grid.columns.length ? grid.describe(told) : selected ? "" : HINT}</p>
      {selected && (
        <div class="row chosen-cells">
          {actions(selected)}
          <Toggle on={extending} flip={() => {
            anchor.current ??= { row: selected.rows[0], column: selected.first };
            extend(!extending);
          }} title="The next cell that is touched becomes the other corner">Extend</Toggle>
          <button type="button" onClick={() => settle(null, "push")}>Clear</button>
        </div>
      )}
      {!selected && place.value.cells !== "" && <p class="notices single">What this address selects is not in this picture any longer: its time or its rows are not here.</p>}
    </section>
  );
}

const within = (at: number, count: number) => Math.min(Math.max(at, 0), count - 1);
