import { change } from "../../lib/location.ts";

/**
 * A column's heading that sorts by it: numbers start with the largest, names with A. `sort` is the
 * order in force, a column's id after `-` (descending) or `+`.
 */
export function SortHeading({ id, text, sort, isNumeric = false }: { id: string; text: string; sort: string; isNumeric?: boolean }) {
  const state = sort === `-${id}` ? "descending" : sort === `+${id}` ? "ascending" : "none";
  const next = state === "none" ? (isNumeric ? "-" : "+") : state === "descending" ? "+" : "-";
  return (
    <th scope="col" class={isNumeric ? "number" : ""} aria-sort={state}>
      <button type="button" onClick={() => change({ sort: next + id }, "replace")}>
        {text}<span aria-hidden="true">{state === "descending" ? " ↓" : state === "ascending" ? " ↑" : ""}</span>
      </button>
    </th>
  );
}
