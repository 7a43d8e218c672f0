/** The collector's answers, as /api/v1/openapi.json describes them. Times are RFC 3339 or epoch seconds as noted. */

import type { Verdict } from "./verdict.ts";

export interface AnswerBasis {
  readonly windows: number;
  readonly pods: number;
  readonly samples: number;
  /** Stored segments that should have been added up and could not be read. */
  readonly unreadable_segments?: number;
  /** Windows that match and are only kept added up with others that do not. */
  readonly unresolved_windows?: number;
  /** How finely the windows are kept that were counted. */
  readonly resolutions?: readonly { readonly resolution: string; readonly windows: number; readonly from: number; readonly until: number }[];
}

export interface VersionSummary extends AnswerBasis {
  readonly version: string;
  readonly first_seen: string | number;
  readonly last_seen: string | number;
  readonly cpu_cores: number | null;
}

export interface ServicesAnswer {
  readonly services: readonly (AnswerBasis & { readonly service: string; readonly last_seen: string | number; readonly versions: readonly VersionSummary[] })[];
  readonly basis: AnswerBasis;
}

/** How well was watched; null where no window tells. */
export interface Quality {
  readonly readers: readonly string[];
  readonly coverage: number | null;
  readonly failed_share: number | null;
  readonly errors: Readonly<Record<string, number>>;
  readonly stops: number;
  readonly stopped_seconds: number;
  readonly stopped_share: number | null;
  readonly longest_stop_seconds: number;
  readonly other_samples: number;
  readonly preempted_seconds: number;
  readonly reduced: readonly string[];
}

export interface TimelineAnswer {
  readonly step_seconds: number;
  readonly start: readonly number[];
  readonly seconds: readonly number[];
  readonly pod_seconds: readonly number[];
  readonly samples: readonly number[];
  readonly windows: readonly number[];
  readonly pods: readonly number[];
  readonly coverage: readonly (number | null)[];
  readonly stopped_share: readonly (number | null)[];
  readonly modes: readonly string[];
  readonly quality: Quality;
  readonly versions: readonly {
    readonly version: string; readonly first_seen: string | number; readonly last_seen: string | number;
    /** Absent from older collectors. */
    readonly rollouts?: readonly Rollout[];
  }[];
  readonly basis: AnswerBasis;
}

/** When a revision was rolled out, in epoch seconds. */
export interface Rollout {
  readonly revision: number;
  readonly version: string;
  readonly started: number;
  readonly ended: number | null;
}

export interface Workload {
  readonly namespace: string;
  readonly workload: string;
  readonly service: string;
  readonly profiling_expected: boolean;
  readonly pod_counts: Readonly<Record<"total" | "no_sidecar" | "dead" | "stale", number>>;
  readonly rollouts: readonly Rollout[];
  readonly pods: readonly { readonly pod: string; readonly version: string; readonly status: string; readonly problem: string; readonly hint: string }[];
}

export interface WorkloadsAnswer {
  readonly discovery: { readonly state: string; readonly problem: string; readonly hint: string };
  readonly workloads: readonly Workload[];
  readonly total: number;
}

export interface Side extends AnswerBasis {
  readonly selector: string;
  readonly from: string | number;
  readonly until: string | number;
  readonly seconds: number;
  readonly pod_seconds: number;
  readonly states: { readonly idle: number; readonly running: number; readonly gil: number };
  readonly idle_share: number | null;
  readonly target_cpu_seconds: number;
  readonly truncated_samples: number;
  readonly modes: readonly string[];
  readonly samplers: readonly string[];
  readonly python_versions: readonly string[];
  readonly missing_states: readonly string[];
  readonly sampling_periods_us: readonly number[];
  readonly quality: Quality;
}

export interface FlameAnswer {
  readonly names: readonly string[];
  readonly level: readonly number[];
  readonly name: readonly number[];
  readonly sides: readonly (Side & {
    readonly self_us: readonly number[];
    readonly self_samples: readonly number[];
    readonly self_us_by_state?: Readonly<Record<"idle" | "running" | "gil", readonly number[]>>;
  })[];
  readonly pruned: { readonly nodes: number; readonly limit: number | null };
  readonly basis: AnswerBasis;
  /** Of two sides: what was found of them, and of each node whether it is outside noise. Absent where nobody looked. */
  readonly verdict?: Verdict | null;
  readonly changed?: readonly number[];
}

export interface LinesSide extends Side {
  readonly self_us: readonly number[];
  readonly total_us: readonly number[];
  readonly self_samples: readonly number[];
  readonly total_samples: readonly number[];
  readonly whole: { readonly self_us: number; readonly total_us: number; readonly self_samples: number; readonly total_samples: number };
}

export interface LinesAnswer {
  readonly file: string;
  readonly line: readonly number[];
  readonly sides: readonly LinesSide[];
  readonly lines_total: number;
}

export interface DepthSide extends Side {
  readonly depth: readonly number[];
  readonly samples_at: readonly number[];
  readonly mean: number | null;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
  readonly max: number | null;
}

export interface DepthAnswer {
  readonly sides: readonly DepthSide[];
  readonly largest_gap: { readonly depth: number; readonly gap: number } | null;
  readonly basis: AnswerBasis;
}

export interface LabelsAnswer {
  readonly labels: readonly string[];
}

export interface ValuesAnswer {
  readonly values: readonly string[];
}

export interface StatusAnswer {
  readonly version: string;
  readonly store: { readonly kind: string; readonly ok: boolean };
  /** Absent from older collectors. */
  readonly retention_days?: { readonly window: number; readonly hour: number; readonly day: number } | null;
  readonly windows_acknowledged: number;
  readonly last_ingest: string | null;
  readonly sidecars: readonly { readonly pod: string; readonly service: string; readonly last_seen: string | number }[];
}
