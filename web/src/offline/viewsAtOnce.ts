/** The views of ../components/profile/viewsOnDemand.ts, whose name this module takes in the build of a page on a disk: it can load nothing. */
export { FunctionTable } from "../components/tables/FunctionTable.tsx";
export { SandwichView } from "../components/profile/SandwichView.tsx";
export { CallTree } from "../components/tables/CallTree.tsx";
export { LinesView } from "./LinesUnavailable.tsx";
