import { onDemand } from "../answer/OnDemand.tsx";
import * as strings from "../../strings/profileStrings.tsx";

/** The views beside the graph, which comes first: their scripts are loaded when they are chosen. A file has them at once. */
export const FunctionTable = onDemand(async () => (await import("../tables/FunctionTable.tsx")).FunctionTable, strings.theTable);
export const SandwichView = onDemand(async () => (await import("./SandwichView.tsx")).SandwichView, strings.theSandwich);
export const LinesView = onDemand(async () => (await import("./LinesView.tsx")).LinesView, strings.theLines);
export const CallTree = onDemand(async () => (await import("../tables/CallTree.tsx")).CallTree, strings.theCallTree);
