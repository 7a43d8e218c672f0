/** The comparison: sides, verdict, checks and culprits. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// CapturePicker
export const captureOfSide = (letter: Printable) => `Capture of side ${letter}`;
export const chooseCapture = "choose a capture…";
export const loadingCaptures = "loading captures…";
export const noCaptures = "no captures of this service in this range";

// ComparedTimes
export const bothRan = "both ran ";
export const comparedTimes = (sides: Printable) => `Compared times: ${sides}`;
export const chooseTimesAutomatically = "Choose the times automatically";

// SidePickers
export const swapSidesHint = "Swap the sides (x)";
export const swapSides = "Swap the sides";
export const side = (letter: Printable) => `Side ${letter}`;
export const versionOfSide = (letter: Printable) => `Version of side ${letter}`;
export const noVersionLabelled = "(no version)";
export const sincePod = (firstSeen: Printable, pods: number) => ` · since ${firstSeen} · ${plural(pods, "pod")}`;
export const captureNamed = (id: string) => `capture ${id}`;
export const captureOption = "a capture…";
export const otherLabelsOption = "other labels…";
export const detailsOfSide = (letter: Printable) => `Details of side ${letter}`;
export const openSideHint = "This side alone, with the same focus";
export const open = (letter: Printable) => `Open ${letter}`;
export const matchersOfSide = (letter: Printable) => `Matchers of side ${letter}`;
export const matchersPlaceholder = "e.g. node=\"n3\" (empty: everything)";
export const set = "Set";
export const addLabel = "+ label";
export const sideData = (samples: number, pods: number, windows: number, seconds: Printable) => `${plural(samples, "sample")} · ${plural(pods, "pod")} · ${plural(windows, "window")} · sampled time ${seconds}`;
export const idle = (idleShare: Printable) => `· ${idleShare} idle`;
export const noWindowsInRange = "No windows in this range.";
export const fromLabel = "from";
export const until = "until";
export const setRange = "Set range";
export const usePagesRange = "Use the page's range";
export const rangeSyntax = "now, -15m, -1d, or 2026-11-20T10:00:00Z; empty follows the page's range.";

// ComparisonControls
export const graph = "Graph";
export const sideBySide = "Side by side";
export const table = "Table";
export const both = "Both";
export const tree = "Tree";
export const sandwich = "Sandwich";
export const view = "View";
export const lines = "Lines";
export const normaliseBy = "Normalise by";
export const perRequest = "Per request";
export const perPod = "Per pod";
export const percentOfTotal = "% of total";
export const hideNoiseHint = "Hide table rows within noise and draw their frames grey";
export const hideNoise = "Hide noise";
export const moreMenu = "More ▾";
export const moreOptions = "More options";
export const foldRecursionHint = "r: repeated frames, also of indirect cycles, are drawn once";
export const foldRecursion = "Fold recursion";
export const showAllDifferencesHint = "Colour all differences beyond counting noise; pods and times can differ by as much";
export const showAllDifferences = "Show all differences";

// ComparabilityChecks
export const beforeYouCompare = "Before you compare";
export const checksPassed = (passed: number, unknown: number) => `${plural(passed, "check")} passed${unknown > 0 ? `, ${unknown} unknown` : ""}`;
export const totalFromClock = (baseline: Printable, comparison: Printable) => `total from the kernel's clock; call path samples add up to ${baseline} → ${comparison}`;
export const inSamples = "in samples";
export const warning = (warnings: number) => `⚠ ${plural(warnings, "warning")} ▾`;
export const beforeYouRead = "Before you read this";

// CulpritTable
export const showFewer = "Show fewer";
export const showMoreRows = (more: number) => `Show ${plural(more, "more row")}`;
export const allFunctions = (total: number) => `All ${count(total)} functions`;
export const whatChanged = "What changed";
export const functionsWhereChangeStarts = "Functions where the change starts";
export const deltaSharePoints = "Δ share (points)";
export const deltaPerRequest = "Δ per request";
export const deltaPerPod = "Δ per pod";
export const partHint = "Part of all changes in this direction";
export const part = "Part";
export const changeHint = "Relative to all of the function in A, with its interval";
export const change = "Change";
export const fdrHint = "Expected share of false findings (false-discovery rate)";
export const fdrQ = "FDR q";
export const podsHint = "Pods of B that changed in the same direction";
export const pods = "Pods";
export const openInGraph = (path: Printable) => `${path}: open in the graph`;
export const was = (renamedFrom: ComponentChildren) => <>was {renamedFrom}</>;

// EffectCells
export const minor = "minor";

// SecondaryEffects
export const points = (delta: Printable) => `${delta} points`;
export const otherEffects = "Other effects";
export const mainThreads = "main threads";
export const others = "others";
export const heldBy = ", held by ";

// VerdictCard
export const verdictTools = "About the verdict";
export const noVerdict = "This answer has no verdict. Colours mark differences beyond counting noise; pods and times can differ by more.";
export const whyMenu = "Why ▾";
export const whyAndHowSure = "Why, and how sure";
export const verdict = "Verdict";
export const loadingComparison = "Loading the comparison…";
export const whatCompared = "What is compared";
export const automatic = "Automatic";
export const interval = "interval";
export const functions = "functions";
export const falseDiscoveryRate = (fdr: Printable) => `false-discovery rate ${fdr}`;
export const smallestRelevant = "smallest relevant";
export const smallestRelevantValues = (share: Printable, depth: Printable) => `${share} of the profile, ${depth} frames`;
export const detectable = "detectable";
export const changeOrMore = (detectable: Printable) => `a change of ${detectable} or more`;
export const data = "data";
export const testedData = (podsA: number, blocksA: number, podsB: number, blocksB: number) =>
  `A ${plural(podsA, "pod")} · ${plural(blocksA, "time block")}, B ${plural(podsB, "pod")} · ${plural(blocksB, "time block")}`;
export const requestsOf = (letter: Printable) => `Requests of ${letter}`;
export const comparePerRequest = "Compare per request";
export const cancel = "Cancel";

// sides
export const justBefore = "just before";
export const dayBefore = "the day before";
export const weekBefore = "the week before";

// ComparePage
export const comparedSides = "Compared sides";
export const compare = (service: ComponentChildren) => <>Compare {service}</>;
export const comparison = "the comparison";
export const noSamplesOf = (type: Printable, sides: Printable) => `No ${type} samples of ${sides}`;
export const neitherSideHasWindows = "neither side has windows in these times";
export const notColourCoded = "Not colour-coded: A and B are not comparable.";
export const colourAllDifferences = "Colour all differences";

// EmptyComparison
export const compareWithYesterday = "Compare with the same time yesterday";
export const chooseTwoSidesBy = "Choose two sides by label";
export const showWallTime = "Show wall time";
export const removeFilter = "Remove the filter";
export const noVersionLabel = "Nothing to compare yet: no version label";
export const onlyOneVersion = "Nothing to compare yet: one version";
export const howToAddVersion = (version: ComponentChildren, sidelightVersion: ComponentChildren) => <>Start the sidecar with {version} (or set {sidelightVersion}), for example to the image tag.</>;
export const waitForDeployment = "The next deployment appears here by itself.";

// verdictText
export const cpu = "CPU";
export const wallTime = "Wall time";
export const gilTime = "GIL time";
export const gilWaitTime = "time waiting for the GIL";
export const offCpuTime = "off-CPU time";
export const taskTime = "number of asyncio tasks";
export const concurrent = "Concurrent";
export const composition = "Composition";
export const equalLoad = "Equal load";
export const podCount = (amount: number) => plural(amount, "pod");
export const notComparable = (name: Printable, verdict: Printable) => `${name} not comparable: ${verdict}`;
export const mayBeLoad = (name: Printable, values: Printable, relative: Printable) => `${name} ${values}${relative} – may be load`;
export const inconclusive = (name: Printable, effect: Printable) => `${name} inconclusive: ${effect}`;
export const unchanged = (name: Printable, effect: Printable) => `${name} unchanged${effect}`;
export const minorText = (name: Printable, effect: Printable) => `${name} ${effect}, minor`;
export const newInB = "new in B";
export const removedInB = "removed in B";
export const sidesDiffer = "the sides differ";
export const podsDifferTooMuch = (size: Printable) => `pods differ too much to detect ${size}`;
export const moreMinutes = (minutes: number) => `${plural(minutes, "more minute")} of both sides`;
export const podsPerSide = (pods: number) => `${plural(pods, "pod")} per side`;
export const wouldDetect = (data: Printable, size: Printable) => `${data} would detect ${size}`;
export const noFunctionTested = "No function could be tested: too little data.";
export const smallerChangesMinor = " Smaller changes are minor.";
export const noFunctionChanged = (found: Printable, anyMinor: Printable) => `No function changed. A change of ${found} of the profile would have shown.${anyMinor}`;
export const noFunctionChangedBeyond = (anyMinor: Printable) => `No function changed beyond noise.${anyMinor}`;
export const stacksDeeper = "Stacks deeper";
export const stacksShallower = "Stacks shallower";
export const stackDepthUnchanged = "Stack depth unchanged";
export const stackDepth = "Stack depth";
export const threadsWaitMore = "Threads wait more";
export const threadsWaitLess = "Threads wait less";
export const waitTimeUnchanged = "Wait time unchanged";
export const waitTime = "Wait time";
export const eventLoopBusier = "Event loop busier";
export const eventLoopLessBusy = "Event loop less busy";
export const eventLoopUnchanged = "Event loop unchanged";
export const eventLoop = "Event loop";
export const minorChange = "minor change";
export const notJudged = "not judged";
export const frames = (a: Printable) => `${a} frames`;

// markdownSummary
export const markdownHeads = "| What changed | Δ per pod | Change | q | Pods |";
export const markdownLink = (link: Printable) => `[Comparison in Sidelight](${link})`;
