import { change } from "../../lib/location.ts";

/**
 * A column's heading that sorts by it: numbers start with the largest, names with A. `sorted` is the
 * order in force, a column's id after `-` (descending) or `+`.
 */
export function SortHeading({ id, text, sorted, number = false }: { id: string; text: string; sorted: string; number?: boolean }) {
  const state = sorted === `-${id}` ? "descending" : sorted === `+${id}` ? "ascending" : "none";
  const next = state === "none" ? (number ? "-" : "+") : state === "descending" ? "+" : "-";
  return (
    <th scope="col" class={number ? "number" : ""} aria-sort={state}>
      <button type="button" onClick={() => change({ sort: next + id }, "replace")}>
        {text}<span aria-hidden="true">{state === "descending" ? " ↓" : state === "ascending" ? " ↑" : ""}</span>
      </button>
    </th>
  );
}
