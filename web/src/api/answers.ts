/** The collector's answers, by the names that the UI has for them. The fields are described in schema.ts. */

import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type AnswerBasis = Schemas["Basis"];
export type Quality = Schemas["Quality"];
export type Side = Schemas["Side"];
/** Which times are compared, and why. */
export type Ranges = Schemas["Ranges"];

export type ServicesAnswer = Schemas["Services"];
export type VersionSummary = Schemas["VersionSummary"];

export type TimelineAnswer = Schemas["Timeline"];

export type WorkloadsAnswer = Schemas["Workloads"];
export type Workload = Schemas["Workload"];

/** Sidecars in columns. */
export type SidecarsAnswer = Schemas["SidecarHealth"];
/** Functions of all services, the costliest first. */
export type FunctionsAnswer = Schemas["FleetFunctions"];
/** Endpoints in columns, by service. */
export type EndpointsAnswer = Schemas["EndpointCosts"];

export type FlameAnswer = Schemas["Flame"];
export type FlameSide = Schemas["FlameSide"];

export type TopAnswer = Schemas["Top"];

export type LinesAnswer = Schemas["Lines"];
export type LinesSide = Schemas["LinesSide"];

export type DepthAnswer = Schemas["Depth"];
export type DepthSide = Schemas["DepthSide"];

export type StackCompositionAnswer = Schemas["StackComposition"];

export type LabelsAnswer = Schemas["Labels"];
export type ValuesAnswer = Schemas["Values"];

export type StatusAnswer = Schemas["Status"];

/** A note of a user on a time range or a function of a service. */
export type Note = Schemas["Note"];
export type NotesAnswer = Schemas["Notes"];
