/** The result of a comparison of two sides (docs/comparison.md). */

import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type VerdictAnswer = Schemas["VerdictAnswer"];
export type Verdict = Schemas["Verdict"];
export type Direction = Schemas["Direction"];
export type Effect = Schemas["Effect"];
/** Effects as columns. */
export type Effects = Schemas["EffectColumns"];
export type Check = Schemas["Check"];
export type Remedy = NonNullable<Check["remedy"]>;
export type Basis = Verdict["basis"];
export type Culprit = Verdict["culprits"]["rows"][number];
