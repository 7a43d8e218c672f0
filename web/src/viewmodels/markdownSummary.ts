/** A comparison as Markdown, for the description of a pull request. */

import type { Verdict } from "../api/verdict.ts";
import { formatRelativeEffect, formatColumn, rateUnit } from "../lib/quantities.ts";
import type { ProfileType } from "../lib/viewOptions.ts";
import { describeVerdict } from "./verdictText.ts";
import * as strings from "../strings/comparisonStrings.tsx";

const MOST_ROWS = 10;

export interface ComparedView {
  readonly service: string;
  readonly type: ProfileType;
  /** What each side selects, and from when to when. */
  readonly sides: readonly { readonly selector: string; readonly from: string; readonly until: string }[];
  readonly link: string;
}

/** Names are hostile text: nothing in them may begin a link, an element or a cell. */
const code = (text: string): string => `\`${text.slice(0, 200).replace(/[`\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "'").replaceAll("|", "\\|")}\``;

/** The end of an interval of a difference, relative to the baseline. */
const scaled = (value: number | null, factor: number): number | null => (value === null ? null : value * factor);

/** Writes the result, the sides, the functions where the change starts, and the link. */
export function toMarkdown(verdict: Verdict, { service, type, sides, link }: ComparedView): string {
  const card = describeVerdict(verdict, type);
  const unit = rateUnit(type, verdict.method.unit);
  const isComposition = verdict.basis === "composition";
  const rows = verdict.culprits.rows.slice(0, MOST_ROWS);
  const deltas = formatColumn(rows.map(({ delta }) => delta * (isComposition ? 100 : unit.scale)), isComposition ? "%" : unit.symbol);
  const table = rows.map(({ function: name, file, folded, direction, delta, relative, low, high, q, pods_agreeing, pods_total }, at) => {
    const change = direction === "new" || direction === "removed" ? direction : formatRelativeEffect(relative, ...(relative === null || delta === 0 ? [null, null] as const : [scaled(low, relative / delta), scaled(high, relative / delta)] as const));
    return `| ${code([name, ...folded].join(" › "))} ${file === "" ? "" : code(file)} | ${deltas[at]} | ${change} | ${q < 0.001 ? "<.001" : q.toFixed(3).replace(/^0/, "")} | ${pods_agreeing}/${pods_total} |`;
  });
  return [
    `**${code(service)}: ${card.sign === "" ? "" : `${card.sign} `}${card.headline.replace(/[<>[\]|]/g, "")}**${card.facts.map((fact) => ` · ${fact}`).join("")}`,
    "",
    ...sides.map(({ selector, from, until }, at) => `- ${"AB"[at]}: ${code(selector)}, ${from} – ${until}`),
    ...(table.length > 0 ? ["", strings.markdownHeads, "|---|---:|---:|---:|---:|", ...table] : []),
    "",
    strings.markdownLink(link),
    "",
  ].join("\n");
}
