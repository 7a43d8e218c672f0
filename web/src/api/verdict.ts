/** What the collector found of two sides (docs/api.md). Numbers that cannot be had are null. */

export type Direction = "increased" | "decreased" | "new" | "removed" | "unchanged" | "inconclusive" | "no_data" | "not_comparable";

/** A number of the baseline and of the comparison, with the interval of their difference. */
export interface Effect {
  readonly baseline: number;
  readonly comparison: number;
  readonly delta: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly direction: Direction;
}

/** Effects as columns; `pods_agreeing` of `pods_total` pods of the comparison changed the same way. */
export interface Effects {
  readonly baseline: readonly number[];
  readonly comparison: readonly number[];
  readonly delta: readonly number[];
  readonly low: readonly (number | null)[];
  readonly high: readonly (number | null)[];
  readonly direction: readonly Direction[];
  readonly q: readonly (number | null)[];
  readonly pods_agreeing: readonly number[];
  readonly pods_total: readonly number[];
}

export interface Check {
  readonly name: string;
  readonly state: "match" | "mismatch" | "unknown";
  readonly severity: "ok" | "warn" | "blocking";
  readonly text: string;
  readonly hint: string;
}

export interface Verdict {
  readonly summary: string;
  readonly direction: Direction;
  readonly rate: Effect;
  /** The same from samples, which is what call paths add up to; absent from older collectors. */
  readonly sampling_only?: Effect;
  readonly idle: Effect | null;
  readonly depth: Readonly<Record<"mean" | "p50" | "p95" | "p99", Effect>> & { readonly gap: { readonly low: number; readonly high: number } } | null;
  /** Absent from older collectors. */
  readonly loop?: null | {
    readonly busy: Effect;
    readonly blockers: readonly { readonly function: string; readonly file: string; readonly effect: Effect }[];
  };
  readonly thread_kinds: readonly { readonly thread: string; readonly idle: Effect }[];
  readonly checks: readonly Check[];
  readonly explanation: {
    readonly share: number | null;
    /** Frames from the root on, without the root; `share` is negative where a path went the other way. */
    readonly paths: readonly { readonly names: readonly string[]; readonly delta: number; readonly share: number }[];
  };
  /** Those that changed first, then the others, the largest change first. */
  readonly functions: {
    readonly function: readonly string[];
    readonly file: readonly string[];
    readonly renamed_from: readonly (string | null)[];
    readonly self: Effects;
    readonly total: Effects;
  };
  readonly functions_total: number;
  /**
   * `alpha_spent` is the part of all cases in which an interval may be wrong; `rate_source` is whether the whole rate was taken from
   * samples (as where it is absent) or from the kernel's count of CPU time.
   */
  readonly method: {
    readonly unit: string;
    readonly alpha_spent: number;
    readonly rate_source?: "clock" | "samples";
    /** What is known of the sides' load; absent from older collectors. */
    readonly load?: "concurrent" | "assumed_equal" | "unknown";
  };
}
