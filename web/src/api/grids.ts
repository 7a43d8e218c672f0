import type { AnswerBasis, Quality } from "./answers.ts";

type Column<Value> = readonly Value[];

/** Columns about one version of each service; null where a service has none such. */
export interface VersionColumns {
  readonly version: Column<string | null>;
  readonly first_seen: Column<number | null>;
  readonly pods_now: Column<number>;
  readonly samples: Column<number>;
  readonly seconds: Column<number>;
  readonly pod_seconds: Column<number>;
}

/** /api/v1/overview: every service, in columns. */
export interface OverviewAnswer {
  readonly service: Column<string>;
  readonly first_seen: Column<number>;
  readonly last_seen: Column<number>;
  readonly samples: Column<number>;
  readonly seconds: Column<number>;
  readonly pod_seconds: Column<number>;
  readonly cores: Column<number | null>;
  readonly pods: Column<number>;
  readonly pods_now: Column<number>;
  readonly versions: Column<number>;
  readonly current: VersionColumns;
  readonly previous: VersionColumns;
  readonly omitted: number;
  readonly from: number;
  readonly until: number;
  readonly basis: AnswerBasis;
}

/** Columns of one row of a heatmap; null where nothing was watched. */
export interface HeatmapCells {
  readonly seconds: Column<number | null>;
  readonly pod_seconds: Column<number | null>;
  readonly samples: Column<number | null>;
}

export interface VersionSighting {
  readonly version: string;
  readonly first_seen: number;
  readonly last_seen: number;
}

/** /api/v1/heatmap: cells by row, then column. */
export interface HeatmapAnswer {
  readonly rows: string;
  readonly zone: string;
  readonly step_seconds: number | null;
  readonly start: Column<number>;
  readonly row: Column<string>;
  readonly namespace: Column<string>;
  readonly seconds: Column<HeatmapCells["seconds"]>;
  readonly pod_seconds: Column<HeatmapCells["pod_seconds"]>;
  readonly samples: Column<HeatmapCells["samples"]>;
  readonly versions: Column<readonly VersionSighting[]>;
  readonly others: HeatmapCells & { readonly rows: number };
  readonly from: number;
  readonly until: number;
  readonly modes: readonly string[];
  readonly quality: Quality;
  readonly basis: AnswerBasis;
}
