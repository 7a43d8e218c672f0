import type { components } from "./schema.ts";

type Schemas = components["schemas"];

/** Every service, in columns. */
export type OverviewAnswer = Schemas["ServiceOverview"];
export type VersionColumns = Schemas["VersionColumns"];

/** Cells by row, then column; null where nothing was watched. */
export type HeatmapAnswer = Schemas["Heatmap"];
export type VersionSighting = Schemas["Version"];
