import { changeAt, type TreeMetrics } from "./treeMetrics.ts";
import { childrenOf, pathTo, type Shape } from "../tree/tree.ts";

/** A row of an expandable call tree. */
export interface TreeRow {
  readonly node: number;
  /** Its place among the callees of its caller, from 1, and how many they are. */
  readonly position: number;
  readonly siblings: number;
}

/** A comparison of two nodes, as `Array.sort` takes it. */
export type NodeOrder = (a: number, b: number) => number;

/** The rows of a call tree whose `expanded` nodes show their callees, in the order of `compare`. The root is no row of its own. */
export function treeRows(shape: Shape, expanded: ReadonlySet<number>, compare: NodeOrder): TreeRow[] {
  const rows: TreeRow[] = [];
  const pending: TreeRow[] = [];
  const open = (node: number) => {
    const callees = childrenOf(shape, node).sort(compare);
    for (let at = callees.length - 1; at >= 0; at--) pending.push({ node: callees[at], position: at + 1, siblings: callees.length });
  };
  open(0);
  for (let row = pending.pop(); row; row = pending.pop()) {
    rows.push(row);
    if (expanded.has(row.node)) open(row.node);
  }
  return rows;
}

/** What sorts the callees of a frame: a column of the table of functions after `-` or `+`. Equal ones stand by name. */
export function nodeOrder(metrics: TreeMetrics, sort: string): NodeOrder {
  const { tree, us, total } = metrics;
  const sign = sort.startsWith("-") ? -1 : 1;
  const column = sort.slice(1);
  const names = (a: number, b: number) => compareTexts(tree.names[tree.name[a]], tree.names[tree.name[b]]);
  if (column === "name") return (a, b) => sign * names(a, b);
  const value = column === "self" ? (node: number) => tree.self[0][node] + (tree.self[1]?.[node] ?? 0)
    : column === "totala" ? (node: number) => us[0][node]
    : column === "totalb" ? (node: number) => us[us.length - 1][node]
    : column === "delta" ? (node: number) => Math.abs(changeAt(metrics, node).delta)
    : (node: number) => total[node];
  return (a, b) => sign * (value(a) - value(b)) || names(a, b);
}

/** What is open at first: the way to a frame, and from there the heaviest way down to where time divides. */
export function firstExpanded({ shape, total }: TreeMetrics, focus: number): Set<number> {
  const expanded = new Set(pathTo(shape, focus).slice(0, -1));
  let node = focus;
  for (let steps = 0; steps < MAX_FIRST_STEPS; steps++) {
    const callees = childrenOf(shape, node);
    if (callees.length === 0) break;
    expanded.add(node);
    const heaviest = callees.reduce((most, callee) => (total[callee] > total[most] ? callee : most), callees[0]);
    if (total[heaviest] < total[focus] * MIN_FIRST_SHARE) break;
    node = heaviest;
  }
  return expanded;
}

const MAX_FIRST_STEPS = 60;
const MIN_FIRST_SHARE = 0.5;

const compareTexts = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
