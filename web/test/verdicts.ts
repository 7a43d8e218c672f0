import type { Check, Effect, Effects, Verdict, Direction } from "../src/api/verdict.ts";

/** Verdicts as a collector gives them, with the parts that a test is about changed. */

/** B minus A with an interval of so much on either side; the direction follows unless given. */
export function effect(a: number, b: number, half: number, direction?: Direction): Effect {
  const delta = b - a;
  const resolved: Direction = direction ?? (Math.abs(delta) <= half ? "unchanged" : delta > 0 ? "increased" : "decreased");
  const part = (value: number) => (a === 0 ? null : value / a);
  return {
    baseline: a, comparison: b, delta, low: delta - half, high: delta + half, direction: resolved,
    relative: part(delta), relative_low: part(delta - half), relative_high: part(delta + half), p: resolved === "unchanged" ? 0.5 : 0.001, min_detectable_effect: part(half),
  };
}

export const columns = (effects: readonly Effect[], agree: readonly (readonly [number, number])[], q: readonly number[]): Effects => ({
  baseline: effects.map((of) => of.baseline), comparison: effects.map((of) => of.comparison), delta: effects.map((of) => of.delta), low: effects.map((of) => of.low),
  high: effects.map((of) => of.high), relative: effects.map((of) => of.relative), relative_low: effects.map((of) => of.relative_low),
  relative_high: effects.map((of) => of.relative_high), p: effects.map((of) => of.p), min_detectable_effect: effects.map((of) => of.min_detectable_effect),
  direction: effects.map((of) => of.direction), q, pods_agreeing: agree.map(([some]) => some), pods_total: agree.map(([, of]) => of),
});

export const check = (name: string, changes: Partial<Check> = {}): Check => ({ name, state: "match", severity: "ok", reason: "", text: "", hint: "", remedy: null, ...changes });

/** Depths of which the mean moved so. */
export const depthOf = (mean: Effect): Verdict["depth"] => ({ mean, p50: mean, p95: mean, p99: mean, max: [60, 66], gap: { depth: 40, gap: 0.2, low: 0, high: 0 } });

const METHOD: Verdict["method"] = {
  alpha: 0.05, analysis_index: 1, alpha_spent: 0.05, min_effect: 0.05, fdr: 0.05, unit: "pod-second", pods: [6, 6], pod_groups: [6, 6], time_blocks: [10, 10],
  frequencies: 1, paired: "", same_pods: false, over_dispersion: [1, 1], rate_source: "samples",
};

/** `render` took 40 ms/s more and `query` the same. */
export function verdict(changes: Partial<Verdict> = {}): Verdict {
  const total = columns([effect(0.02, 0.06, 0.004), effect(0.06, 0.06, 0.004)], [[5, 6], [3, 6]], [0.0004, 0.61]);
  return {
    summary: "B takes 45.5 % more CPU time than A.", basis: "concurrent", basis_reason: "Both sides ran 10:00–11:00 UTC.", available_bases: ["concurrent", "composition"], min_relevant_share: 0.01, min_relevant_depth: 0.1, direction: "increased", rate: effect(0.11, 0.16, 0.01), sampling_only: effect(0.11, 0.16, 0.01), idle: effect(0.58, 0.62, 0.01),
    depth: depthOf(effect(40.7, 46.1, 0.5)), loop: null, thread_kinds: [],
    checks: [check("mode", { text: "gil on both sides" }), check("load", { state: "unknown", text: "requests are not counted" })],
    culprits: { share: 0.8, rows: [culprit(0)] },
    functions: { function: ["render", "query"], file: ["jinja2/runtime.py", "shop/db.py"], renamed_from: [null, null], total, self: total },
    functions_total: 2, method: METHOD, required: null, conditions: [], ...changes,
  };
}

/** A function where 40 ms/s more start. */
export const culprit = (at: number): Verdict["culprits"]["rows"][number] => ({
  function: `f${at}`, file: "app.py", folded: at > 0 ? ["deepcopy"] : [], self_or_total: at > 0 ? "total" : "self", delta: 0.04, share: 0.8, relative: 0.5, low: 0.03, high: 0.05,
  direction: "increased", q: 0.001, pods_agreeing: 6, pods_total: 6, names: ["main (app.py)", `f${at} (app.py)`],
});
