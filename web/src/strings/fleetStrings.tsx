/** Coverage of the fleet, functions of all services, and endpoints. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// CoveragePage
export const coverage = "Coverage";
export const coverageSubject = "the coverage";
export const sidecarsSubject = "the sidecars";
export const podsProfiled = (profiled: number, total: number, share: Printable) => `${count(profiled)} of ${plural(total, "pod")} profiled (${share})`;
export const inWorkloads = (workloads: number, services: number) => `${plural(workloads, "workload")} · ${plural(services, "service")}`;
export const noPods = "No pod or sidecar is known yet.";
export const clusterNotWatched = "The collector does not watch a cluster, so pods without a sidecar are missing here.";
export const podsOmitted = (pods: number) => `${plural(pods, "pod")} beyond --discovery-max-pods ${pods === 1 ? "is" : "are"} missing here.`;
export const workloadsOmitted = (workloads: number) => `${plural(workloads, "more workload")} ${workloads === 1 ? "is" : "are"} not listed.`;
export const states = { profiled: "profiled", starting: "starting", stale: "stale", dead: "not running", no_sidecar: "no sidecar" } as const;
export const allStates = "all pods";
export const byNamespace = "By namespace";
export const cluster = "Cluster";
export const namespace = "Namespace";
export const workload = "Workload";
export const service = "Service";
export const podsHead = "#Pods";
export const profiledHead = "#Profiled";
export const missingHead = "Not profiled";
export const sidecar = "Sidecar";
export const byAgent = (pods: number) => `${plural(pods, "pod")} by node agent`;
export const overheadHead = "#Overhead";
export const overheadHint = "Share of time that processes were stopped to be read, and the longest stop";
export const failedTicksHead = "#Failed ticks";
export const lastWindowHead = "#Last window";
export const whatToDo = "What to do";
export const workloadsTitle = "Workloads";
export const tableOfWorkloads = "Table of workloads";
export const tableOfNamespaces = "Table of namespaces";
export const tableOfSidecars = "Table of sidecar versions";
export const sidecarVersions = "Sidecar versions";
export const versionHead = "Version";
export const modeHead = "Mode";
export const none = "–";
export const noNamespace = "no namespace";
export const notExpected = "no sidecar expected";
export const reportedBySidecars = "from sidecars";
export const searchWorkloads = "Search workloads";
export const searchWorkloadsPlaceholder = "Search workloads  /";
export const podState = "State of pods";
export const podsInState = (state: string, pods: number) => `${state} (${count(pods)})`;
export const copyCommand = "Copy command";
export const command = "Command";
export const attachNow = "Attach now";
export const attachHint = "Profile one pod for a minute, by its node's agent or an attached sidecar";
export const showAllRows = (rows: number) => `Show all ${count(rows)}`;
export const noWorkloadMatches = "No workload matches.";
export const removeFilters = "Show all workloads";
export const overheadOf = (share: Printable, longest: Printable) => `${share}, max ${longest}`;

// FunctionsPage
export const functionsSubject = "functions";
export const functionsOfServices = "Functions of all services";
export const searchFunctions = "Search functions of all services";
export const searchFunctionsPlaceholder = "json.dumps  /";
export const orderOfFunctions = "Order of functions";
export const total = "Total";
export const totalHint = "With everything that the function calls";
export const self = "Self";
export const selfHint = "The function's own code";
export const fleetSentence = (name: ComponentChildren, cores: Printable, unit: Printable, services: number, share: Printable, cost: string) => <>{name}: <strong>{cores} {unit}</strong> in {plural(services, "service")}, {share} of the fleet{cost !== "" && <>, <strong>{cost}</strong></>}</>;
export const cores = "cores";
export const tasks = "tasks";
export const threads = "threads";
export const perMonth = (amount: Printable) => `${amount} per month`;
export const noFunctionMatches = (search: ComponentChildren) => <>No function matches “{search}” in this range.</>;
export const functionsSummary = (functions: number, services: number) => `${plural(functions, "function")} · ${plural(services, "service")}`;
export const tableOfFunctions = "Table of functions";
export const functionHead = "Function";
export const coresHead = "#Cores";
export const threadsHead = "#Threads";
export const shareHead = "#% of fleet";
export const servicesHead = "#Services";
export const costHead = "#Cost per month";
export const setPrice = "Set the collector's --core-hour-price to see costs.";
export const servicesOf = (name: Printable) => ` services of ${name}`;
export const moreServices = (more: number) => `and ${plural(more, "more service")}`;

// EndpointTable
export const endpoints = "Endpoints ▾";
export const endpointsHint = "CPU per endpoint, found in the stacks";
export const tableOfEndpoints = "Table of endpoints";
export const endpointHead = "Endpoint";
export const frameworkHead = "Framework";
export const shareOfService = "#% of service";
export const noEndpoints = "No known framework handles requests in this range.";
export const groupByEndpoint = "Group the graph by endpoint";
export const withoutEndpoint = "no endpoint";
export const restOfEndpoints = "other endpoints";
export const endpointsSubject = "the endpoints";
/** As the collector names stacks without an endpoint. */
export const noEndpointRow = "(no endpoint)";
