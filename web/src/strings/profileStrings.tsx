/** Views of a profile: graph, table, sandwich, lines. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// ColourPicker
export const colour = "Colour";
export const colourBy = "Colour by";
export const packageLabel = "Package";
export const packageColourHint = "Application, third party, standard library";
export const state = "State";
export const stateColourHint = "The largest state of each frame: running, holding the GIL or a wait. Paler means a smaller share";
export const self = "Self";
export const selfTime = "Self time";
export const noStates = "This answer has no states. Colours show packages.";
export const onlyWallHasStates = "Only wall and off-CPU time have several states, such as running or waiting for a lock. Colours show packages.";
export const showWallTime = "Show wall time";

// ProfileControls
export const view = "View";
export const table = "Table";
export const graph = "Graph";
export const both = "Both";
export const bothHint = "Table and graph, linked";
export const tree = "Tree";
export const treeHint = "Call tree with rows that expand";
export const sandwichHint = "Callers and callees of one function";
export const breakdown = "Breakdown";
export const breakdownHint = "By version, pod, endpoint, state and more";
export const appOnly = "My code only";
export const appOnlyHint = "Fold each run of standard library and third-party frames into one frame";
export const direction = "Direction";
export const directionMenu = (name: string) => `${name} ▾`;
export const directionAndOrder = (name: string) => `Direction and order: ${name}`;
export const topDown = "Top-down";
export const topDownHint = "Callers above, callees below";
export const flame = "Flame";
export const flameHint = "Callers below, callees above";
export const order = "Order";
export const heaviestFirst = "Heaviest first";
export const byName = "By name";
export const moreMenu = "More ▾";
export const moreOptions = "More options";

// Notes
export const notesButton = (notes: number) => (notes === 0 ? "Notes" : plural(notes, "note"));
export const notesHint = "Notes on this time and on functions";
export const noteRow = (number: number | null) => (number === null ? "note" : `note ${number}`);
export const notesMenu = "Notes …";

// FlamePanel
export const keepTooltip = "Keep tooltip";
export const closeTooltip = "Close";
export const stack = "Stack";
export const zoomIn = "Zoom in";
export const resetZoom = "Reset zoom";
export const esc = "Esc";
export const highlightAll = "Highlight all";
export const hideDetailsPanel = "Hide details panel";
export const showDetailsPanel = "Show details panel";
export const copyFunction = "Copy function";
export const functionLabel = "Function";
export const copyStack = "Copy stack";
export const copyFile = "Copy file";
export const copyFileAndLine = "Copy file and line";
export const file = "File";
export const flameGraph = "Flame graph";
export const focusMissing = (focusKey: ComponentChildren) => <>The zoomed frame, {focusKey}, is not in this profile. Showing the whole graph.</>;
export const clearZoom = "Clear zoom";
export const enter = "Enter";
export const sandwich = "Sandwich";
export const lines = "Lines";
export const actionsFor = (title: Printable) => `Actions for ${title}`;
export const bottomUpHint = "i: functions by self time, callers below each function. Groups under 0.025 % of the total stay closed.";
export const packagesBySelfTime = "Packages by self time";
export const states = "States";
export const callersOfTheseFrames = "Callers of these frames";
export const frameCount = (amount: number) => plural(amount, "frame");
export const noMatch = "no match";
export const frame = (frames: number, share: Printable) => `${plural(frames, "frame")} · ${share}`;
export const previousMatch = "Previous match";
export const nextMatch = "Next match";
export const graphTools = "Graph tools";
export const bottomUp = "Bottom-up";
export const foldRecursionHint = "r: repeated frames, also of indirect cycles, are drawn once";
export const foldRecursion = "Fold recursion";

// FlameGraph
export const zoomHint = "Ctrl + wheel or pinch to zoom, drag to move.";
export const zoomTouchHint = "Pinch to zoom, drag to move.";

// FrameDetails
export const calledThrough = (callers: number) => `Called through ${plural(callers, "frame")}`;
export const detailsPanel = "Details panel";

// CallTree
export const callTree = "Call tree";
export const expandAll = "Expand all";
export const collapseAll = "Collapse all";
export const showInGraph = "Show in the graph";
export const changeHeading = "Change";
export const countingIntervalHint = "Δ ± twice the counting noise, 2√n of n samples";

// FunctionTable
export const nameLabel = "Name";
export const largestChangesByFunction = "Largest changes by function";
export const functions = "Functions";
export const below = (focusKey: ComponentChildren) => <>below {focusKey}</>;
export const wholeProfile = "Whole profile";
export const tableOf = (unit: Printable) => `Table of ${unit}`;
export const selectInBoth = "Select in the table and the graph";
export const deltaSelf = "Δ self";
export const deltaTotal = "Δ total";
export const intervalHeading = "Interval";
export const intervalHint = "Confidence interval of Δ total, from the verdict";
export const pointsUnit = "points";
export const noSamplesCell = "no samples";
export const selfA = "Self A";
export const selfB = "Self B";
export const totalA = "Total A";
export const totalB = "Total B";
export const changeHint = "Change of total time, relative to A";
export const changePercent = "Change %";
export const podsHint = "Pods of B that changed in the same direction";
export const pods = "Pods";
export const fdrHint = "Expected share of false findings (false-discovery rate)";
export const fdrQ = "FDR q";
export const percentSelf = "% self";
export const total = "Total";
export const percentTotal = "% total";
export const callersAndCalleesHint = "Callers and callees (s)";
export const sandwichLink = "sandwich";
export const more = "More";
export const noSamplesHere = "No samples here.";
export const noMatchSearch = (unit: Printable) => `No ${unit} match the search.`;
export const clearSearch = "Clear search";
export const copyName = "Copy name";
export const chooseFunction = "Choose this function";
export const findInFlameGraph = "Find in the flame graph";
export const minor = "minor";
export const ofProfile = "of the profile";
export const withinNoise = "within noise";
export const notJudged = "not judged";

// Legends
export const application = "Application";
export const thirdParty = "Third party";
export const standardLibrary = "Standard library";
export const applicationHint = "Packages that are neither third party nor in the standard library";
export const thirdPartyHint = "Packages in site-packages, or known from PyPI by their name";
export const standardLibraryHint = "Modules that come with Python";
export const halfOrLess = "▼ half or less in B";
export const twiceOrMore = "▲ twice or more in B";
export const newInB = "new in B";
export const removedInB = "removed in B";
export const perPod = "per pod";
export const ofShare = "of share";
export const meanPerPod = "mean of A and B per pod";
export const meanShare = "mean share of A and B";
export const scaleDescription = (norm: Printable, isByShare: Printable) => `width: ${norm}; colour: change ${isByShare}`;
export const newInBEntry = (swatch: ComponentChildren) => <>{swatch} new in B</>;
export const removedInBEntry = (swatch: ComponentChildren) => <>{swatch} removed in B</>;
export const withinNoiseEntry = (swatch: ComponentChildren) => <>{swatch} within noise</>;
export const notJudgedEntry = (swatch: ComponentChildren) => <>{swatch} not judged</>;

// LinesView
export const linesAreOfOneFunction = "Lines are of one function";
export const howToChooseFunction = (rowKey: ComponentChildren, frameKey: ComponentChildren) => <>Choose it in the table ({rowKey} on a row) or in the flame graph ({frameKey} on a frame).</>;
export const openTable = "Open the table";
export const linesOfOneFunction = "Lines of one function";
export const callersAndCallees = "Callers and callees";
export const otherFunction = "Other function";
export const theLines = "the lines";
export const hasNoSamplesHere = (fn: ComponentChildren) => <>{fn} has no samples here. Choose another function, type or range.</>;
export const linesTotals = (side: string, share: string, time: string, samples: number, self: string) => `${side}total ${share} of all (${time}, ${plural(samples, "sample")}), self ${self}. `;
export const transformsDoNotChange = "Transforms do not change this table.";
export const heaviestOfLines = (shown: number, all: number) => `The ${count(shown)} heaviest of ${count(all)} lines.`;
export const linesNote = "Shares are of the function's total. Line numbers are of the version that ran. No source code is stored.";
export const tableOfLines = "Table of lines";
export const line = "Line";
export const changeOfTotal = "Change of total";
export const copy = "Copy";
export const lineUnknown = " (line unknown)";
export const selfText = (of: Printable) => `Self${of}`;
export const totalText = (of: Printable) => `Total${of}`;

// PictureButtons
export const pictureOfView = "Picture of the view";
export const picture = "Picture";
export const savePngHint = "p: save the view as PNG";
export const png = "PNG";
export const saveSvgHint = "P: save the view as SVG, with numbers";
export const svg = "SVG";
export const onWhite = "on white";
export const cpuTime = "CPU time";
export const wallTime = "wall time";
export const timeHoldingGil = "time holding the GIL";
export const timeWaitingForGil = "time waiting for the GIL";
export const timeOfTasks = "asyncio tasks";
export const timeOffCpu = "off-CPU time";
export const changeTitle = (quantity: string, from: string, to: string, scale: string) => `${quantity}, ${from} to ${to}: ${scale}`;
export const fromTo = (from: string, until: string) => `${from} to ${until}`;
export const sideBySide = (quantity: Printable, side: Printable) => `${quantity}, side by side, ${side}`;
export const ofWhole = (side: Printable) => ` (${side} of the whole)`;
export const inView = (focus: Printable, shares: Printable) => `In view: ${focus}, ${shares}`;
export const searchFrame = (q: Printable, frames: number, share: Printable) => `Search: ${q}, ${plural(frames, "frame")}, ${share}`;
export const bottomUpNote = "Bottom-up: callers are below";
export const recursionFolded = "Recursion is folded";
export const capture = (capture: Printable) => `Capture ${capture}`;
export const sideData = (letter: Printable, selector: Printable, from: Printable, until: Printable, samples: number) => `${letter}${selector} · ${from} to ${until} · ${plural(samples, "sample")}`;

// ProfileView
export const theTable = "the table";
export const theSandwich = "the sandwich";
export const theCallTree = "the call tree";
export const everySampleHidden = "These transforms hide every sample";
export const removeOneOfThem = "Remove one of them above, or all.";
export const removeAllTransforms = "Remove all transforms";

// SandwichView
export const seeWhoCallsIt = "see who calls it and what it calls";
export const notInProfile = (fn: ComponentChildren, isTransformed: boolean) => <>{fn} is not in this profile{isTransformed ? " as these transforms leave it" : ""}.</>;
export const chooseFunctionTo = (what: Printable) => `Choose a function to ${what}.`;
export const sandwichNote = (whole: Printable) => `${whole} Shares below are of its total. A stack counts once, even if the function recurs.`;
export const calledBy = "Called by";
export const itsCallersNearestFirst = "its callers, the nearest first";
export const calls = "Calls";
export const whatItCalls = "what it calls";
export const sandwichOfFunction = "Sandwich of this function";
export const caller = "Caller";
export const callee = "Callee";
export const halfDescription = (title: Printable, hint: Printable, paths: Printable, deepest: Printable) => `${title}, ${hint}: ${paths} call paths, ${deepest} deep. Arrow keys walk, Enter zooms.`;
export const noCallers = "no callers: stacks begin here";
export const noCallees = "no callees: all time is self time";
export const halfFocusMissing = "The zoomed frame is not here. Showing the whole graph.";
export const functionTotals = (side: string, share: string, time: string, samples: number, self: string) => `${side}total ${share} of all (${time}, ${plural(samples, "sample")}), self ${self}.`;

// TransformBar
export const framesBy = "Frames by";
export const separateLinesOfFunction = "Separate the lines of a function";
export const transforms = "Transforms";
export const transformsHeading = "Transforms:";
export const all = "all";
export const noEffect = "· no effect";
export const remove = ", remove";
export const removeFoldRecursion = "Remove: fold recursion (r)";
export const foldRecursionEntry = (remove: ComponentChildren, cross: ComponentChildren) => <>fold recursion{remove} {cross}</>;
export const transformWithoutEffect = (transform: ComponentChildren, problem: Printable) => <>{transform} {problem}, so it has no effect.</>;
export const unknownTransform = "is an unknown transform";
export const matchesNothingInProfile = "matches nothing in this profile";
export const beyondFirst = (most: Printable) => `is beyond the first ${most}`;
export const hiddenSamples = (side: string, share: string, samples: number, total: number) => `${side}${share} of the samples (${count(samples)} of ${count(total)})`;
export const hiddenNote = (parts: Printable) => `Hidden: ${parts}. Shares are of the rest.`;

// makePicture
export const differentialGraph = "Differential flame graph, A to B";
export const flameGraphOf = (side: Printable) => `Flame graph of ${side}`;
export const graphDescription = (title: Printable, paths: Printable, deepest: Printable) => `${title}: ${paths} call paths, ${deepest} deep. Arrow keys walk, Enter zooms. The Table view has the same numbers.`;

// gilContention
export const gilContention = (share: string, interval: readonly [string, string] | null) =>
  `GIL contention ${share}${interval ? ` (95 % interval ${interval[0]} to ${interval[1]})` : ""}: threads that want to run wait for the GIL. More threads will not help, more processes will.`;

// BreakdownView
export const breakDownBy = "Break down by";
export const groupingNames = {
  version: "Version", pod: "Pod", node: "Node", zone: "Zone", namespace: "Namespace", thread: "Thread kind", endpoint: "Endpoint", state: "State", package: "Package",
} as const;
export const otherGroups = "(others)";
export const without = (label: string) => `(no ${label})`;
export const theGroups = "the groups";
export const theGroup = "the graph of this group";
export const noGroups = "No samples to break down.";
export const oneGroup = (label: string) => `All samples have one ${label}.`;
export const showMore = (more: number) => `Show ${more} more`;
export const shareOfAll = (share: Printable) => `${share} of all`;
export const groupRate = (rate: Printable, change: Printable) => `${rate} (${change} vs the mean)`;
export const filterGroup = "Filter";
export const filterGroupHint = (name: Printable) => `Show ${name} alone`;
export const showPackage = "Keep stacks containing it";
export const needsWall = "Only wall time has states.";
export const selfTimeShares = "Shares are of self time.";
export const noTransformedTimeline = "Shares are of self time. Filtered and transformed profiles have no timeline.";
export const timelineOfAllStacks = "The timeline and the shares are of all stacks. The graphs are of those that the filter keeps.";
export const stackedTimeline = (label: string) => `Time by ${label}, stacked`;
export const stateNames = {
  gil: "Holding the GIL",
  running: "Running without the GIL",
  cpu_wait: "Waiting for a CPU",
  gil_wait: "Waiting for the GIL",
  off_cpu: "Waiting off-CPU",
} as const;
export const reasonShare = (state: Printable, share: Printable) => `${state} ${share}`;

// StackedTimeline
export const mostRate = (rate: Printable) => `max ${rate}`;

// SmallGraph
export const likeTheMean = "no difference beyond counting noise";
export const differs = (delta: Printable, name: Printable) => `${name} ${delta} points`;
export const comparedWithMean = (text: Printable) => `Compared with the mean: ${text}.`;
export const smallGraphOf = (name: Printable, text: Printable) => `Flame graph of ${name}. Compared with the mean: ${text}.`;
