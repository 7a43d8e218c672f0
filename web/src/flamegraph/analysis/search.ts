import { BadExpression, compileSearch } from "./regularExpression.ts";
import type { Shape, Tree } from "../tree/tree.ts";
import * as strings from "../../strings/frameStrings.ts";

/** The frames a search found: `hit[i]` is 1 where node i's name matches. */
export interface SearchResult {
  readonly hit: Uint8Array;
  readonly nodes: Int32Array;
  /** `before[i]` hits lie in front of node i, so a subtree's count is one subtraction. */
  readonly hitsBefore: Uint32Array;
}

/** A test for names: plain text anywhere in the name, any case; `/…/` is a regular expression in linear time. */
export function nameMatcher(text: string): ((name: string) => boolean) | null {
  if (text === "") return null;
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
    try {
      return compileSearch(text.slice(1, -1));
    } catch {
      // An unfinished expression is searched for as it stands.
    }
  }
  const query = text.toLowerCase();
  return (name) => name.toLowerCase().includes(query);
}

/** What is wrong with a regular expression that is searched for; "" where nothing is. */
export function expressionError(text: string): string {
  if (text.length < 3 || !text.startsWith("/") || !text.endsWith("/")) return "";
  try {
    compileSearch(text.slice(1, -1));
    return "";
  } catch (error) {
    if (!(error instanceof BadExpression)) throw error;
    return strings.invalidExpression(error.message);
  }
}

export function search(tree: Tree, text: string): SearchResult | null {
  const matches = nameMatcher(text);
  if (!matches) return null;
  const isMatch = Uint8Array.from(tree.names, (name) => (matches(name) ? 1 : 0));
  const count = tree.level.length;
  const hit = new Uint8Array(count);
  const hitsBefore = new Uint32Array(count + 1);
  const nodes: number[] = [];
  for (let i = 0; i < count; i++) {
    hit[i] = i > 0 ? isMatch[tree.name[i]] : 0;
    hitsBefore[i + 1] = hitsBefore[i] + hit[i];
    if (hit[i]) nodes.push(i);
  }
  return { hit, nodes: Int32Array.from(nodes), hitsBefore };
}

/** The part of `top` that lies in stacks with at least one hit; each stack counts once. */
export function matchedShare(result: SearchResult, shape: Shape, total: Float64Array, top: number): number {
  let sum = 0;
  for (let i = top; i < shape.end[top]; ) {
    if (result.hit[i]) sum += total[i];
    i = result.hit[i] || result.hitsBefore[shape.end[i]] === result.hitsBefore[i] ? shape.end[i] : i + 1;
  }
  return total[top] > 0 ? sum / total[top] : 0;
}

/** The hit after (or before) `from` inside `top`'s subtree, round the corner at its ends; -1 for none. */
export function nextHit(result: SearchResult, shape: Shape, top: number, from: number, step: 1 | -1): number {
  const inside = result.nodes.filter((node) => node >= top && node < shape.end[top]);
  if (inside.length === 0) return -1;
  if (step === 1) return inside.find((node) => node > from) ?? inside[0];
  return inside.findLast((node) => node < from) ?? inside[inside.length - 1];
}

/** As much of a name as finds it again and fits an address; cut between characters, never inside one. */
export const searchable = (name: string): string => [...name.slice(0, 400)].slice(0, 200).join("");
