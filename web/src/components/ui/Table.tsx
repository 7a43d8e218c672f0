import type { ComponentChildren } from "preact";

/**
 * A table with its headings, in a box that scrolls: headings that begin with # are of numbers, those that begin
 * with ~ are for screen readers alone.
 */
export function Table({ label, heads, className = "", children }: { label: string; heads: readonly string[]; className?: string; children: ComponentChildren }) {
  return (
    <div class={`wide ${className}`} tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead><tr>{heads.map((head, at) => (
          <th key={at} scope="col" class={head[0] === "#" ? "number" : ""}>{head[0] === "~" ? <span class="unseen">{head.slice(1)}</span> : <bdi>{head.replace("#", "")}</bdi>}</th>
        ))}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
