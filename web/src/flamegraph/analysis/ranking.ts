import { changeOf, type Change } from "../tree/compare.ts";
import { packageOf } from "../tree/packages.ts";
import type { FunctionSums } from "./functionSums.ts";

/** The change of one function between two sides, in its own time or with what it calls. */
export function functionChange(sums: FunctionSums, row: number, divisor: readonly number[], of: "self" | "total"): Change {
  const samples = of === "self" ? sums.selfSamples : sums.totalSamples;
  const us = sums[of];
  return changeOf([us[0][row], us[1][row]], [samples[0][row], samples[1][row]], divisor);
}

/**
 * The rows of a table of functions that are kept, in the order that `sort` names: a column after `-` (largest
 * first) or `+`. Columns are `name`, `package`, `self` and `total`; of two sides these are the sizes of the
 * differences, and `selfa`, `selfb`, `totala`, `totalb` are the sides'. Equal rows stand by name.
 */
export function rankFunctions(
  sums: FunctionSums, names: readonly string[], divisor: readonly number[], sort: string, isIncluded: (row: number) => boolean = () => true,
): Int32Array {
  const byName = Int32Array.from(sums.name.keys()).filter(isIncluded).sort((a, b) => compareNames(names[sums.name[a]], names[sums.name[b]]));
  const sign = sort.startsWith("-") ? -1 : 1;
  const column = sort.slice(1);
  if (column === "name") return sign === 1 ? byName : byName.reverse();
  if (column === "package") {
    const owner = names.map((name) => packageOf(name).name);
    return byName.sort((a, b) => sign * compareNames(owner[sums.name[a]], owner[sums.name[b]]));
  }
  const value = valueOf(sums, divisor, column);
  return byName.sort((a, b) => sign * (value[a] - value[b]));
}

function valueOf(sums: FunctionSums, divisor: readonly number[], column: string): Float64Array {
  const isComparison = sums.self.length === 2;
  if (isComparison && column === "selfa") return sums.self[0];
  if (isComparison && column === "selfb") return sums.self[1];
  if (isComparison && column === "totala") return sums.total[0];
  if (isComparison && column === "totalb") return sums.total[1];
  const of = column === "total" ? "total" : "self";
  return isComparison ? Float64Array.from(sums.name, (_, row) => Math.abs(functionChange(sums, row, divisor, of).delta)) : sums[of][0];
}

const compareNames = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
