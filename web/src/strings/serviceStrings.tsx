/** Services, deploys, and the page of one service. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// Sparkline
export const noVersionLabelled = "(no version)";
export const fromLabel = (version: Printable, at: Printable) => `; ${version} from ${at}`;
export const trendDescription = (mean: Printable, maximum: Printable, markers: Printable) => `CPU: mean ${mean}, max ${maximum}${markers}`;

// DeployList
export const analysing = "Analysing";
export const regressed = "▲ regressed";
export const notEnoughData = "not enough data";
export const notComparable = "not comparable";
export const was = (conclusion: Printable) => `, was ${conclusion}`;
export const latestDeployHint = "Latest deploy, and those before";
export const compareWith = (previous: Printable) => `Compare with ${previous}`;
export const inLabel = (namespace: ComponentChildren) => <>in {namespace}</>;

// ServiceTable
export const tableOfServices = "Table of services";
export const service = "Service";
export const cpuCores = "CPU (cores)";
export const perPod = "per pod (m)";
export const perPodUnit = "m/pod";
export const trendHint = "CPU per pod, with a marker at each new version";
export const trend = (range: Printable) => `Trend, ${range}`;
export const versionAge = "Version (age)";
export const vsPrevious = "vs previous";
export const pods = "Pods";
export const lastSeen = "Last seen";
export const podsInRange = (pods: number) => `${plural(pods, "pod")} in the whole range`;
export const podsHaveCurrentVersion = "pods have the current version";
export const stale = "stale";
export const howToAddVersionHint = "How to add a version label";
export const fix = "fix";
export const noVersionLabel = (fix: ComponentChildren) => <>No version label – {fix}</>;
export const firstSeenInRange = (since: Printable) => `first seen in this range ${since}`;
export const rolledBackTo = "rolled back";
export const overAge = (age: string) => `over ${age}`;
export const unchanged = "≈ unchanged";
export const increasedFromZero = "▲ from 0";
export const inconclusive = "… inconclusive";
export const decreasedToZero = "▼ to 0";
export const noVersionWord = "no version";
export const againstCompare = (previous: Printable) => `against ${previous}: compare`;
export const unverifiedHint = (current: Printable, previous: Printable) => `CPU per pod of ${current} against ${previous}, unverified: open the comparison for a verdict.`;
export const noData = "no data";
export const collecting = "Collecting";
export const tooFewSamples = "Too few samples";
export const fromZero = "from 0";
export const unverified = (relative: Printable) => `${relative} unverified`;

export const coresUnit = "cores";
export const podsUnit = "pods";
export const capture = "Capture";
export const captureOf = (service: Printable) => `Capture ${service}`;
export const favourite = (service: Printable) => `Favourite: ${service}`;
export const favouriteHint = "Favourites come first in this browser";
export const onlyThisGroup = "Show only this group";
export const without = (label: Printable) => `no ${label}`;
export const groupSummary = (services: number, cores: Printable, pods: number) => `${plural(services, "service")} · ${cores} cores · ${plural(pods, "pod")}`;

// AttentionCards
export const needsAttention = "What needs attention";
export const regressedTitle = "▲ Regressed";
export const improvedTitle = "▼ Improved";
export const deployedTitle = "New versions, 24 h";
export const unprofiledTitle = "Not profiled";
export const hottestTitle = "Hottest";
export const savedTitle = "Saved views";
export const moreInList = (more: number) => `${count(more)} more`;
export const coresOf = (cores: Printable) => `${cores} cores`;
export const removeSaved = (name: Printable) => `Remove the saved view ${name}`;
export const removeSavedHint = "Remove this saved view";
export const groupBy = "Group by";
export const byLabel = (label: Printable) => `by ${label}`;
export const notGrouped = "no groups";

// Workloads
export const discoveryProblems = (problems: number) => `⚠ Discovery: ${plural(problems, "problem")} ▾`;
export const noSidecar = "no sidecar";
export const podStatus = (status: string, coverer: string | null) => (coverer === "agent" ? `${status} (node agent)` : status);
export const sidecarNotRunning = "sidecar not running";
export const sidecarStale = "sidecar stale";
export const podsWithProblem = (pods: Printable, total: number, problem: Printable) => `${pods}/${plural(total, "pod")}: ${problem}`;
export const discoveryProblem = (problem: string, hint: Printable) => `${problem.charAt(0).toUpperCase()}${problem.slice(1)}: pods without a sidecar may be missing here. ${hint}`;
export const podCount = (amount: number) => plural(amount, "pod");
export const tableOfPods = "Table of pods";
export const podHeading = "Pod";
export const workload = "Workload";
export const version = "Version";
export const status = "Status";
export const whatToDo = "What to do";
export const rollout = (workload: ComponentChildren, revision: Printable, version: ComponentChildren, started: string, ended: string | null) => <>{workload} revision {revision} ({version}): rolled out from {started}{ended !== null && ` to ${ended}`}</>;

// ServicePage
export const aboutService = "About this service";
export const captureNowHint = "Profile at a higher rate for a minute";
export const timeline = "the timeline";
export const profile = "the profile";
export const profileData = (samples: number, pods: number, windows: number, seconds: Printable) => `${plural(samples, "sample")} · ${plural(pods, "pod")} · ${plural(windows, "window")} · sampled time ${seconds}`;
export const ofWallSamplesIdle = (idleShare: Printable) => `· ${idleShare} of wall samples idle`;
export const truncatedStacks = (truncated: Printable) => `· ${truncated} truncated stacks`;
export const why = "why?";
export const showWaitingForGil = "Show GIL wait";
export const compareWithPreviousVersion = "Compare with previous version";
export const noVersionNotice = (version: ComponentChildren) => <>These windows carry no version, so deployments cannot be distinguished. Start the sidecar with {version}, for example the image tag.</>;
export const how = "how?";
export const help = "the help";

// ServicesPage
export const services = "Services";
export const servicesSubject = "services";
export const omittedServices = (services: number) => `${plural(services, "service")} with less CPU time ${services === 1 ? "is" : "are"} not listed. Filter, or raise the collector's --max-rows.`;
export const listOfServices = "List of services";
export const searchServices = "Search services";
export const searchServicesPlaceholder = "Search services  /";
export const servicesShown = (shown: number, all: number) => `${count(shown)} of ${plural(all, "service")}`;
export const serviceCount = (amount: number) => plural(amount, "service");
export const staleServices = (staleCount: number) => ` · ${count(staleCount)} stale`;
export const listSummary = (services: Printable, pods: number, stale: Printable) => `${services} · ${plural(pods, "pod")} now${stale}`;
export const noServiceMatches = (q: ComponentChildren) => <>No service matches “{q}”.</>;
export const showAll = "Show all";
export const noServiceHasWindows = (query: ComponentChildren) => <>No service has windows with {query} in this range.</>;
export const removeFilter = "Remove the filter";
export const any = (label: Printable) => `any ${label}`;

// Welcome
export const theFirstSteps = "the first steps";
export const inPod = (pod: string) => ` in ${pod}`;
export const onNode = (node: string) => ` on ${node}`;
export const done = "done: ";
export const waiting = "waiting: ";
export const noProfilesYet = "No profiles yet";
export const noProfilesInRange = (range: Printable) => `No profiles in this range (${range})`;
export const windowsAcknowledgedNote = (acknowledged: number) => `This collector has acknowledged ${plural(acknowledged, "window")}.`;
export const showThirtyDays = "Show the last 30 days";
export const refreshNote = (seconds: Printable) => `This page refreshes every ${seconds} seconds and lists services as they arrive.`;
export const stepProfileService = "1 · Profile a service";
export const stepSendRecording = "2 · Or send a py-spy recording";
export const command = "the command";
export const showProfileFile = "Or drop a profile file of another tool here, to see it without storing it.";
export const stepOpenDemo = "3 · Or open demo data: four services, profiled and compared, on your machine";
export const sidelightDemo = "sidelight demo";
export const collectorsApiDoesNot = "the collector's API does not answer";
export const collectorsApiAnswersVersion = (version: Printable) => `the collector's API answers (version ${version})`;
export const checkingCollector = "checking the collector…";
export const storeReachable = (kind: Printable) => `store is reachable (${kind})`;
export const storeDoesNotAnswer = (kind: Printable) => `store (${kind}) does not answer: check the collector's log`;
export const checkingStore = "checking the store…";
export const sidecarsSent = (sidecars: number, ago: Printable, sources: Printable) => `${plural(sidecars, "sidecar")} sent windows, the latest ${ago}: ${sources}`;
export const firstProfileComes = "; the first profile comes when its window ends, within about a minute";
export const whichCannotSample = (problem: Printable) => `, which cannot sample: ${problem}`;
export const sidecarsSeen = (sidecars: number, sources: Printable) => `${plural(sidecars, "sidecar")} seen: ${sources}`;
export const noSidecarSeenYet = "no sidecar seen yet";
export const windowsAcknowledged = (acknowledged: number, lastIngest: Printable) => `windows acknowledged: ${count(acknowledged)}; last: ${lastIngest}`;
export const whereServiceRuns = "Where the service runs";
export const onMachine = "On this machine";
export const onePodWithKubectl = "One pod, with kubectl";
export const inItsHelmChart = "In its Helm chart";
export const commands = "the commands";
export const commandSubject = "Command";
export const copy = "Copy";
export const theBreakdown = "the breakdown";
