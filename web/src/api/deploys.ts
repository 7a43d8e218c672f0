import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type Deploy = Schemas["Deploy"];
/** The deploys, the newest first. */
export type DeploysAnswer = Schemas["Deploys"];
