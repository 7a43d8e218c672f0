/** The page about stack depth. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// DepthCharts
export const depthAxis = "stack depth (frames)";
export const ofSamplesAtDepth = (name: Printable, share: Printable, depth: Printable) => `${name}: ${share} of samples at depth ${depth}`;
export const cumulativeAxes = "stack depth (frames), cumulative share of samples";
export const largestGapAtDepth = (gap: Printable, depth: Printable) => `largest gap: ${gap} at depth ${depth}`;

// ChartBrush
export const nothingSelected = "Nothing selected.";
export const brushInstructions = (name: Printable, range: Printable) => `${name}. ${range} Drag or use the arrow keys to select depths. Shift extends, Escape clears.`;

// DepthRangePanel
export const selectedDepths = "Selected depths";
export const samples = (name: ComponentChildren, inside: number, share: string) => <>{name}: {count(inside)} samples, {share}</>;
export const depthFrom = "Depth from";
export const until = "until";
export const showTheseSamples = "Show these samples";
export const allDepths = "All depths";
export const depthRangeHint = "Drag across a chart or enter depths to see the flame graph of those samples.";
export const flameGraphOfThese = "the flame graph of these depths";
export const compareTheseSamples = "Compare these samples";
export const openInProfile = "Open in the profile";
export const noSamplesAtThese = "No samples at these depths.";
export const atLeastFramesDeep = (minDepth: Printable) => `at least ${minDepth} frames deep`;
export const atMostFramesDeep = (maxDepth: Printable) => `at most ${maxDepth} frames deep`;
export const onlySamplesWhoseStacks = (description: Printable) => `Only samples whose stacks are ${description}.`;

// DepthScope
export const samplesHeading = "Samples";
export const allSamples = "All samples";
export const underFocus = "Under focus";
export const withFunction = "With a function";
export const bottomUpGraphHas = "A bottom-up graph has no path from the root.";
export const noFrameFocused = "No frame is focused.";
export const howToFocus = (reason: Printable) => `${reason} Showing all samples. To choose a frame, zoom into it here or on the profile.`;
export const below = (focus: ComponentChildren) => <>Below {focus}</>;
export const functionLabel = "Function";
export const functionFileOrName = "function (file), or a name";
export const show = "Show";
export const showingAllSamplesEnter = "Showing all samples. Enter a function.";

// StackComposition
export const stackComposition = "the stack composition";
export const showingFirstOf = (shown: number, all: number) => `Showing the first ${count(shown)} of ${count(all)}.`;
export const framesPerPackage = "Frames per package";
export const packagesSummary = "Average frames per stack, by package.";
export const framesColumn = (letter: string) => `#Frames ${letter}`;
export const framesDifference = "#Δ frames";
export const framesPerPackageTable = "Frames per package, as a table";
export const packageLabel = "Package";
export const framesWithoutFile = "(frames without a file)";
export const standardLibrary = "standard library";
export const recursion = "Recursion";
export const functionsRecurWithinOne = "Functions that recur within one stack.";
export const noFunctionRecursWithin = "No function recurs within one stack.";
export const functionsRecur = "Functions that recur";
export const avgRepeats = "avg repeats";
export const findInFlameGraph = "Find in the flame graph";
export const deepestNewStacks = "Deepest new stacks";
export const deepestStacks = "Deepest stacks";
export const wholeStacksFromRoot = "Whole stacks from the root; repeated parts are folded.";
export const callPathsOnlyIn = "Call paths only in B, from the root; repeated parts are folded.";
export const noCallPathOnly = "No call path is only in B.";
export const frameCount = (amount: number) => plural(amount, "frame");
export const sampleCount = (amount: number) => plural(amount, "sample");
export const pathInFlameGraph = "This path in the flame graph";
export const open = "open";
export const more = (hidden: Printable) => `… ${hidden} more …`;
export const moreFrames = (frames: Printable) => `… ${frames} more …`;
export const repeatedFrames = (frames: number, times: number) => `${plural(frames, "frame")} in a row, ${count(times)} times`;

// depthRange
export const framesDeep = (depth: Printable) => `${depth} frames deep`;
export const framesDeepRange = (from: Printable, until: Printable) => `${from}–${until} frames deep`;

// distribution
export const bothSidesHaveSame = "Both sides have the same depths.";
export const largestGap = (a: Printable, b: Printable, depth: Printable, points: Printable) => `Largest gap: ${a} of A's samples and ${b} of B's are at most ${depth} frames deep (${points} points apart).`;

// DepthPage
export const stackDepthOf = (service: ComponentChildren) => <>Stack depth of {service}</>;
export const compareAndB = "Compare A and B";
export const oneProfile = "One profile";
export const compareWithPreviousVersion = "Compare with previous version";
export const stackDepths = "stack depths";
export const noSamplesWithOn = (fn: ComponentChildren) => <>No samples with {fn} on the stack</>;
export const noSamplesBelow = (focus: ComponentChildren) => <>No samples below {focus}</>;
export const nameWithoutFileMatches = "A name without a file matches it in any file.";
export const callPathsChangeWith = "Call paths change with deployments: try another range or side.";
export const allSamplesWord = "all samples";
export const depthSummary = (name: Printable, mean: Printable, p50: Printable, p95: Printable, max: Printable) => `${name}: mean ${mean}, median ${p50}, 95th percentile ${p95}, deepest ${max}`;
export const loadingStackDepths = "Loading stack depths…";
export const intervalOf = (alphaSpent: Printable, low: Printable, high: Printable) => `Its ${alphaSpent} is ${low} to ${high}.`;
export const histogram = "Histogram";
export const histogramName = "Histogram of stack depth";
export const histogramDescription = (summary: Printable) => `${histogramName}. ${summary}.`;
export const cumulativeDistribution = "Cumulative distribution";
export const cumulativeDistributionName = "Cumulative distribution of stack depth";
export const cumulativeDistributionDescription = (summary: Printable, gapText: Printable) => `${cumulativeDistributionName}. ${summary}. ${gapText}`;
export const depthNumbers = "Depth numbers";
export const depthColumns = ["#mean", "#p50", "#p95", "#p99", "#max", "#truncated", "#samples"] as const;
export const depthColumn = "#depth";
export const side = "Side";
export const allDepthsAsTable = "All depths as a table";
export const truncationDiffers = (a: Printable, b: Printable, maxDepth: ComponentChildren) => <>Truncation differs (A {a}, B {b}): stacks deeper than the sampler's limit lost their middle, so p99, max and the right end of both charts are not comparable. A higher {maxDepth} of the sidecar reads whole stacks.</>;
export const deeperStacksWereTruncated = "deeper stacks were truncated";
export const samplesByDepth = "Samples by depth";
