import { change } from "../../lib/location.ts";

/**
 * A column's heading that sorts by it: numbers start with the largest, names with A, and unless it `isOneWay` turns
 * around. `sort` is the order in force, a column's id after `-` (descending) or `+`.
 */
export function SortHeading({ id, text, sort, isNumeric = false, isOneWay = false }: { id: string; text: string; sort: string; isNumeric?: boolean; isOneWay?: boolean }) {
  const state = sort === `-${id}` ? "descending" : sort === `+${id}` ? "ascending" : "none";
  const next = state === "none" || isOneWay ? (isNumeric ? "-" : "+") : state === "descending" ? "+" : "-";
  return (
    <th scope="col" class={isNumeric ? "number" : ""} aria-sort={state}>
      <button type="button" onClick={() => change({ sort: next + id }, "replace")}>
        {text}<span aria-hidden="true">{state === "descending" ? " ↓" : state === "ascending" ? " ↑" : ""}</span>
      </button>
    </th>
  );
}
