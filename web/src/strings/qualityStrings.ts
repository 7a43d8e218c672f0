/** Data quality. */

import { plural, type Printable } from "./counts.ts";

/** A sentence about one side, or about the only one: "A: stacks …", "Stacks …". */
const beginWith = (side: string, sentence: string): string => (side === "" ? sentence.charAt(0).toUpperCase() + sentence.slice(1) : `${side}: ${sentence}`);

// dataQualityNotices
export const unreadableSegments = (unreadableSegments: number) => `${plural(unreadableSegments, "stored segment")} could not be read: values are too low. The collector's log names them.`;
export const unresolvedWindows = (windows: number) => `${plural(windows, "window")} ${windows === 1 ? "is" : "are"} missing: their stacks are stored merged with others. Filter by service, version, process or thread alone.`;
export const coarseWindows = (windows: number, from: string, until: string) =>
  `Coarse: ${plural(windows, "window")} from ${from} to ${until} are stored as daily sums. A day counts in the range in which it began, and its pods and nodes are merged.`;
export const sampledWithDifferent = (what: Printable, values: Printable, why: Printable) => `Sampled with different ${what} (${values}): ${why}`;
export const frameNamesCanDiffer = "frame names can differ between them.";
export const samplingModes = "sampling modes";
export const theyDifferInWaiting = "they differ in waiting threads and in overhead.";
export const doubtDifferenceBeginsWith = "a difference can come from the reader.";
export const pythonVersions = "Python versions";
export const libraryFramesDiffer = "the standard library's frames can differ.";
export const stacksMayBeWrong = (side: string) => beginWith(side, `stacks may be wrong. Mode nonblocking reads them while the program runs, so some mix two moments.`);
export const missingStates = (side: string, states: Printable, types: Printable) => beginWith(side, `the sampler did not record ${states} samples: ${types} too low.`);
export const truncatedShare = (side: string, truncatedSamples: Printable) => beginWith(side, `${truncatedSamples} of all samples were deeper than the sampler's limit and carry a (truncated) frame.`);
export const noWindowsInRange = (side: string) => beginWith(side, `no windows in this range: nothing can be compared.`);
export const wallTime = "wall time";
export const gilTime = "GIL time";
export const typesNeedThemRead = "types that need them read";

// qualitySummary
export const gilMode = "At most the thread that held the GIL was stopped while stacks were read, so no stack could change.";
export const blockingMode = "Every thread was stopped while stacks were read, so no stack could change.";
export const nonblockingMode = "Nothing was stopped while stacks were read: a stack may mix frames of different moments, and these cannot be identified.";
export const commandMode = "py-spy record ran once per window, without the sampler's extension: gaps between windows, waiting threads not recorded, overhead unknown.";
export const wrongStacksNote = ": stacks may be wrong";
export const cpuBudget = "CPU budget";
export const stopBudget = "stop budget";
export const cpuLimit = "CPU limit";
export const switchedOff = "switched off";
export const modeUnknown = "mode unknown";
export const modeUnknownMeaning = "The sender did not report the sampling mode.";
export const reader = (readers: Printable) => `, ${readers} reader`;
export const unfamiliarMode = "This UI does not know the mode.";
export const rateMeaning = "Ticks per second of each process; time is samples × period, so different rates add up.";
export const fewerTicksThanRequested = (reasons: Printable) => `fewer ticks than requested (${reasons})`;
export const fewerTicksMeaning = "The sidecar lowered its rate or skipped windows. The samples are correct, but there are fewer.";
export const coverageUnknown = "coverage unknown";
export const coverageUnknownMeaning = "The windows do not report their ticks. They count as sampled all the time.";
export const coverageMeaning = (isLow: boolean) => `Share of time with successful ticks. Rates are divided by it${isLow ? "; the missed time may differ from the sampled time" : ""}.`;
export const overheadUnknown = "overhead unknown";
export const overheadUnknownMeaning = "This sampler stops the process but does not report for how long.";
export const overheadPausedMax = (part: Printable, longest: Printable) => `overhead: paused ${part}, max ${longest}`;
export const overheadNoPauses = "overhead: no pauses";
export const overheadMeaning = (stood: Printable, stops: number) => `Processes paused for ${stood} in ${plural(stops, "stop")} while their stacks were read.`;
export const sampleCount = (amount: number) => plural(amount, "sample");
export const ofTicksFailed = (failed: Printable) => `${failed} of ticks failed`;
export const kindsUnknown = "kinds unknown";
export const failedTicksMeaning = (kinds: Printable) => `They gave no stacks and lower the coverage: ${kinds}.`;
export const truncated = (cut: Printable) => `${cut} truncated`;
export const truncatedMeaning = "These stacks were deeper than the sampler's limit and lost their middle.";
export const underOther = (other: Printable) => `${other} under (other)`;
export const otherMeaning = "Windows had more different stacks than the sidecar keeps; the rest is counted as (other).";
export const preemptedMeaning = "Time without samples between windows: a capture ran, or the rate was 0.";

// staleness
export const troubleshooting = "Check that its pods run, that their sidecar is ready (/readyz names the problem), and that the sidecar's log shows no refusals by the collector.";
export const staleService = (ago: Printable, moment: Printable, advice: Printable) => `Last seen ${ago} (${moment}): nothing newer has arrived. ${advice}`;
