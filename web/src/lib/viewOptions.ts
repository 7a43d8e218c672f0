/** The choices of a view: each is a parameter of the address. */

export type ProfileType = "wall" | "cpu" | "gil" | "gil_wait" | "off_cpu" | "tasks";

/** Whether samples of a type have more than one state to tell apart by colour. */
export const hasStateColours = (type: ProfileType): boolean => type === "wall" || type === "off_cpu" || type === "tasks";
/** Whether a type is the time of threads, and not of CPUs. */
export const isThreadTime = (type: ProfileType): boolean => type !== "cpu" && type !== "gil";
export type ViewName = "flame" | "table" | "both" | "tree" | "sides" | "sandwich" | "lines" | "breakdown";
/** The order of the callees of a frame; empty for the usual one of the direction. */
export type ChildOrder = "" | "weight" | "name";
/** The order of a table beside a graph, where both have one: A comes first, or the largest. */
export const linkedSort = (sort: string): string => (sort.endsWith("name") ? "+name" : sort.includes("total") ? "-total" : "-self");
/** Where a graph has its roots. */
export type Roots = "top" | "bottom";
export type ColourBy = "package" | "state" | "self";
export type HeatRows = "pods" | "hours";
export type Scope = "" | "focus" | "function";
/** Whether pods are profiled, or why not; `unknown`: no sidecar is expected. */
export type CoverageState = "" | "no_sidecar" | "dead" | "stale" | "starting" | "profiled";
export type Theme = "" | "light" | "dark";
/** What a comparison tests (docs/comparison.md); empty for the collector's choice. */
export type BasisName = "" | "concurrent" | "per_request" | "composition" | "equal_load";

/** How two sides are normalised (see flamegraph/tree/compare). */
export type Normalisation = "rate" | "share";

/** The entity that a frame stands for. The collector distinguishes lines; the pages merge the others. */
export type MergeBy = "function" | "line" | "file" | "package";
