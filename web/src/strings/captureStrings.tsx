/** Captures. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// CapturePage
export const captureOf = (service: ComponentChildren) => <>Capture of {service}</>;
export const captureHeading = "Capture";
export const allCapturesOf = (service: ComponentChildren) => <>All captures of {service}</>;
export const allCaptures = "All captures";
export const theCapture = "the capture";
export const progress = "Progress";
export const sampledSoFar = "Sampled so far";
export const sampleCount = (amount: number) => plural(amount, "sample");
export const result = (samples: number, pods: number, duration: string, created: string, by: string | null, expires: string) =>
  `${plural(samples, "sample")} of ${plural(pods, "pod")} in ${duration} · started ${created}${by ? ` by ${by}` : ""} · expires ${expires}`;
export const settings = (seconds: Printable, rate: Printable, mode: Printable) => `${seconds} s at ${rate} Hz, mode ${mode}`;
export const only = (query: ComponentChildren) => <>, only {query}</>;
export const startAnother = "Start another";
export const openFlameGraph = "Open flame graph";
export const compareWithYesterday = "Compare with the same window yesterday";
export const ending = "Ending…";
export const stopAndKeep = "Stop and keep";
export const deleteLabel = "Delete";
export const deleteCapture = "Delete this capture?";
export const deleteRunning = "The capture ends. Its page and timeline recordings are deleted; its windows stay.";
export const deleteOver = "Its page and timeline recordings are deleted; its windows stay.";
export const keepIt = "Keep it";
export const timelineRecordings = "Timeline recordings";
export const noRecordings = "No recordings. The pods below state the reason; older sidecars do not record.";
export const openInSpeedscope = "Open time order in speedscope ↗";
export const firstSamplesDropped = (dropped: number) => ` · first ${count(dropped)} samples dropped`;
export const recordingSummary = (pod: ComponentChildren, pid: Printable, samples: number, seconds: Printable, dropped: Printable) => <>{pod} process {pid}: {plural(samples, "sample")} in {seconds}{dropped}</>;
export const recordingTitle = (source: string, pid: number) => `${source}, process ${pid}`;
export const pods = "Pods";
export const tableOfPods = "Table of pods";
export const pod = "Pod";
export const samplesColumn = "#Samples";
export const podsColumn = "#Pods";
export const secondsColumn = "#Seconds";
export const state = "State";
export const failedTicks = "Failed ticks";
export const whatHappened = "What happened";
export const none = "none";
export const attachedAs = (ephemeralContainer: Printable) => `attached as ${ephemeralContainer}`;
export const hottestFunctions = "Hottest functions (self)";
export const hottestFunctionsSoFar = "Hottest functions (self) so far";

export const compareWithHourBefore = "Compare with the hour before";
export const waitingForSidecar = (service: ComponentChildren, obstacle: string, seconds: number) => <>Waiting for a sidecar of {service}{obstacle !== "" && <> – {obstacle}</>}.{Number.isFinite(seconds) && <> Gives up in {count(seconds)} s.</>}</>;
export const noneConnected = "none connected";
export const cancel = "Cancel";

// CaptureDialog
export const captureService = (service: ComponentChildren) => <>Capture {service}</>;
export const coresOf = (cores: Printable) => `${cores} cores`;
export const choosePods = "Choose pods";
export const moreOptions = "More options";
export const allPods = "all pods";
export const podCount = (pods: number) => plural(pods, "pod");
export const chosenPods = (pods: number) => plural(pods, "chosen pod");

// CaptureProgress
export const capturesInProgress = "Captures in progress";
export const hideProgress = "Hide this capture";
export const details = "Details";
export const progressLine = (state: string, elapsed: number, seconds: number, samples: number) =>
  (state === "sampling" ? `${elapsed.toFixed(0)}/${seconds} s · ${plural(samples, "sample")}` : samples > 0 ? `${state} · ${plural(samples, "sample")}` : state);

// CapturesPage
export const captures = "Captures";
export const capturesOf = (service: ComponentChildren) => <>Captures of {service}</>;
export const capturesIntroduction = "Profile selected pods now, at higher resolution, keeping sample order.";
export const connectedSidecars = "Connected sidecars";
export const sidecars = "sidecars";
export const showAllServices = "Show all services";
export const capturesSubject = "captures";
export const startCapture = "Start a capture";
export const service = "Service";
export const seconds = "Seconds";
export const rateHz = "Rate (Hz)";
export const mode = "Mode";
export const filter = "Filter";
export const filterPlaceholder = "version=\"2\", node!=\"n3\"";
export const keepTimeline = "Keep timeline";
export const attachHint = "Uses the node's agent, or else an ephemeral container, which stays in the pod's list. The collector needs the permission.";
export const attachToPodsWithout = "Attach to pods without a sidecar";
export const podsHint = "Pods: a number (chosen at random), names separated by commas, or all.";
export const start = "Start";
export const command = "Command";
export const copyCliCommand = "Copy CLI command";
export const curl = "curl";
export const copyAsCurl = "Copy as curl";
export const findingBusiestPods = "Looking for the busiest pods…";
export const noSidecarConnectedOf = (service: ComponentChildren) => <>⚠ No sidecar of {service} is connected; the capture would wait.</>;
export const noneCanTakeCapture = (problem: Printable) => `⚠ No sidecar can take a capture now: ${problem}.`;
export const canTakeCapture = (available: number, sidecars: number) => `✓ ${plural(available, "sidecar")} can take a capture now${available < sidecars ? ` (of ${sidecars})` : ""}.`;
export const noSidecarConnected = (isOneService: boolean, collector: ComponentChildren, noCaptures: ComponentChildren) => <>No sidecar {isOneService ? "of this service " : ""}is connected. Start one with {collector} and without {noCaptures}.</>;
export const tableOfSidecars = "Table of sidecars";
export const version = "Version";
export const status = "Status";
export const ready = "✓ ready";
export const lastContact = "Last contact";
export const moreSidecars = (total: number) => `and ${count(total)} more, last seen earlier`;
export const noCapturesYet = "No captures yet.";
export const tableOfCaptures = "Table of captures";
export const started = "Started";

// captureRequest
export const eachPod = "Each pod";
export const theNamedPod = "The pod";
export const eachOfThePods = "Each of the pods";
export const noThreadStops = "No thread stops, so stacks may be wrong.";
export const allThreadsStop = "All threads stop during a tick.";
export const gilThreadStops = "Only the thread with the GIL stops during a tick.";
export const captureCost = (subject: string, rate: number, seconds: number, stop: string) =>
  `${subject} is sampled ${count(rate)} times a second for ${seconds} s: ${count(rate * seconds)} ticks. ${stop} The sidecar lowers the rate to stay within --capture-budget-percent (default: 10 % of a core and of the process's time).`;
export const notReady = "not ready";
export const busyWithAnotherCapture = "busy with another capture";
