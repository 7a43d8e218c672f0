import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** The roles of a table's parts, which a browser forgets where a row is drawn as a card. */
const ROLES: Readonly<Record<string, string>> = { TABLE: "table", TBODY: "rowgroup", TR: "row", TD: "cell" };

/**
 * A table with its headings, in a box that scrolls: headings that begin with # are of numbers, those that begin
 * with ~ are for screen readers alone, and an empty one is of bars. With the class `cards` its rows are cards on a phone, where each number has its
 * heading, as other cells with `data-head` have theirs.
 */
export function Table({ label, heads, className = "", children }: { label: string; heads: readonly string[]; className?: string; children: ComponentChildren }) {
  const host = useRef<HTMLDivElement>(null);
  const isCards = className.split(" ").includes("cards");
  useLayoutEffect(() => {
    if (!isCards) return;
    for (const part of host.current?.querySelectorAll("table, tbody, tbody tr, tbody td") ?? []) if (!part.hasAttribute("role")) part.setAttribute("role", ROLES[part.tagName]);
    for (const head of host.current?.querySelectorAll("tbody th") ?? []) head.setAttribute("role", "rowheader");
    for (const cell of host.current?.querySelectorAll<HTMLTableCellElement>("tbody td.number") ?? []) {
      // Rows stay when the headings change: a cell without a heading of its own takes that of now.
      if (cell.dataset.head !== undefined && cell.dataset.ofHeading === undefined) continue;
      cell.dataset.head = (heads[cell.cellIndex] ?? "").replace(/^[#~]/, "");
      cell.dataset.ofHeading = "";
    }
  });
  return (
    <div class={`wide ${className}`} ref={host} tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{heads.map((head, at) => head === "" ? <td key={at} /> : (
          <th key={at} scope="col" class={head[0] === "#" ? "number" : ""}>{head[0] === "~" ? <span class="unseen">{head.slice(1)}</span> : <bdi>{head.replace("#", "")}</bdi>}</th>
        ))}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
