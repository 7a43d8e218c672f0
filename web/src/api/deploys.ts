import type { Effect } from "./verdict.ts";

/** /api/v1/deploys: the versions that came, the newest first, and what was found of each. */
export interface DeploysAnswer {
  readonly deploys: readonly Deploy[];
}

export interface Deploy {
  readonly id: string;
  readonly service: string;
  readonly namespace: string;
  readonly version: string;
  readonly previous: string;
  readonly first_seen: string;
  readonly state: string;
  /** The state by the last conclusive analysis. */
  readonly conclusion: string | null;
  readonly summary: string;
  readonly analyses: readonly { readonly state: string; readonly rate: (Effect & { readonly relative: number | null; readonly relative_low: number | null; readonly relative_high: number | null }) | null }[];
  readonly finished: { readonly reason: string } | null;
  readonly links: { readonly view: string };
}
