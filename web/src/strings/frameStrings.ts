/** Frames, transforms and what a graph says about them. */

import { plural, type Printable } from "./counts.ts";

// frameDescription
export const keepTooltipHint = "t keeps this, with links";
export const changeInB = (direction: string, subject: string, size: string) => `${direction} ${subject} in B (${size})`;
export const withinCountingNoise = "within counting noise";
export const notJudged = "not judged";
export const notComparableOneSide = "not comparable: one side has no samples";
export const newInB = "new in B";
export const removedInB = "removed in B";
export const takesMore = "▲ takes more";
export const takesLess = "▼ takes less";
export const noSamples = "no samples";
export const total = (prefix: Printable) => `${prefix}total`;
export const sample = (rate: Printable, share: Printable, us: Printable, samples: number) => `${rate}${share} · ${us} · ${plural(samples, "sample")}`;
export const onAverage = (prefix: Printable) => `${prefix}on average`;
export const tasksHere = (tasks: Printable) => `${tasks} tasks here per pod`;
export const self = (prefix: Printable) => `${prefix}self`;
export const sampleText = (self: Printable, samples: number) => `${self} · ${plural(samples, "sample")}`;
export const states = (us: Printable) => `${us}states`;
export const stateShare = (state: Printable, share: Printable) => `${state} ${share}`;
export const ofProfile = "of the profile";
export const ofCaller = "of caller";
export const ofZoomedFrame = "of zoomed frame";
export const change = "change";
export const difference = "Δ";
export const ofCountingNoise = ", counting noise";
export const points = (delta: Printable) => `${delta} points`;
export const wholeFunction = "Δ of function";
export const ownPackage = "package";
export const line = "line";
export const depth = "depth";

// regularExpression
export const invalidExpression = (problem: string) => `invalid regular expression: ${problem}`;
export const unexpectedParenthesis = "unexpected )";
export const missingParenthesis = "missing )";
export const missingBracket = "missing ]";
export const nestedTooDeeply = "nested too deeply";
export const nothingToRepeat = "nothing to repeat";
export const expressionTooLarge = "too large";
export const invalidRepetition = (text: string) => `invalid repetition ${text}`;
export const unsupportedEscape = (character: string) => `\\${character} is not supported`;
export const rangeOutOfOrder = "range out of order";
export const noLookaround = "lookaround is not supported";
export const nothingAfterBackslash = "nothing after \\";

// significance
export const notComparable = "not comparable";
export const withinNoise = "within noise";

// colourSchemes
export const otherFramesWithoutFile = "(other), frames without a file";
export const stateNames = {
  gil: "holding the GIL",
  running: "running without the GIL",
  cpu_wait: "waiting for a CPU",
  gil_wait: "waiting for the GIL",
  lock: "waiting for a lock",
  poll: "waiting in poll",
  io: "waiting for I/O",
  sleep: "sleeping",
  idle: "waiting, reason unknown",
  task_running: "running task",
  task_ready: "task ready to run",
  task_waiting: "waiting task",
} as const;
export const most = (name: string) => `most: ${name}`;
export const noSelfTime = "no self time";

// minimap
export const partInView = "Part of the whole graph in view";
export const viewedPart = (width: string, from: string, until: string) => `${width} % of the width, from ${from} % to ${until} %`;

// flameGraphView
export const roleDescription = "flame graph";

// pictureFile
export const rowsOf = (first: number, last: number, all: number) => `Rows ${first} to ${last} of ${all}.`;

// transforms
export const packageSubject = (name: string) => `package ${name}`;
export const focusTransform = (what: string) => `focus ${what}`;
export const pathTransform = (what: string) => `path ${what}`;
export const withTransform = (what: string) => `with ${what}`;
export const withoutTransform = (what: string) => `without ${what}`;
export const foldTransform = (what: string) => `fold ${what}`;
export const calleesOf = (what: Printable) => `callees of ${what}`;
export const oneFrameFor = (what: Printable) => `one frame for ${what}`;
export const stateTransform = (state: string) => `only ${state}`;
export const recursionOf = (what: Printable) => `recursion of ${what}`;

// frameActions
export const callersAndCallees = "Callers and callees";
export const lines = "Lines";
export const focusOn = (subject: Printable) => `Focus on ${subject}`;
export const focusOnCallPath = "Focus on this call path";
export const keepStacksContainingIt = "Keep stacks containing it";
export const hideStacksContainingIt = "Hide stacks containing it";
export const mergeIntoCallers = "Merge into callers";
export const mergeCallees = "Merge callees";
export const foldRecursion = "Fold recursion";
export const keepStacksContainingPackage = (short: Printable) => `Keep stacks containing package ${short}`;
export const hideStacksContainingPackage = (short: Printable) => `Hide stacks containing package ${short}`;
export const mergePackageIntoCallers = (short: Printable) => `Merge package ${short} into callers`;
export const groupPackage = (short: Printable) => `Group package ${short}`;
export const groupFile = "Group file";
