/** Rows drawn beyond what is in view, on each side. */
const OVERSCAN_ROWS = 12;
/** A table with no more rows is drawn whole. */
const UNWINDOWED_ROWS = 120;

export interface Window {
  /** The rows to draw, `until` excluded. */
  readonly from: number;
  readonly until: number;
  /** The pixels that the rows before and behind them would take. */
  readonly above: number;
  readonly below: number;
}

/** The rows of a long table that have to exist for what is in view. */
export function visibleWindow(count: number, top: number, height: number, row: number): Window {
  if (count <= UNWINDOWED_ROWS) return { from: 0, until: count, above: 0, below: 0 };
  const from = Math.min(Math.max(Math.floor(top / row) - OVERSCAN_ROWS, 0), count);
  const until = Math.min(Math.ceil((top + height) / row) + OVERSCAN_ROWS, count);
  return { from, until, above: from * row, below: (count - until) * row };
}
