/** Heatmaps of pods, hours and recordings. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// cellSelection
export const otherPodsAtSame = "the other pods at the same time";
export const timeBeforeIt = "the time before it";
export const timeAfterIt = "the time after it";

// HeatmapGrid
export const hoverHint = "Hover a cell for its value, drag to select cells. Click a name for its row, a time for its column.";
export const tapHint = "Tap a cell for its value, drag to select cells. Tap a name for its row, a time for its column.";
export const legend = "Legend";
export const noData = (swatch: ComponentChildren) => <>{swatch} no data</>;
export const newVersion = (swatch: ComponentChildren) => <>{swatch} new version</>;
export const heatmap = "heatmap";
export const gridDescription = (title: Printable, rows: Printable, columns: Printable, maximum: Printable, unit: Printable) => `${title}: ${rows} rows, ${columns} columns, max ${maximum} ${unit}. Arrow keys move, Shift extends, Enter opens the selection, Escape clears it.`;
export const extendHint = "The next cell you tap becomes the other corner";
export const extendSelection = "Extend selection";
export const clear = "Clear";
export const selectionOutOfView = "The selected cells are not in view. Change the range or the filters.";

// HeatmapRows
export const cpuPerPod = "CPU per pod";
export const threadsPerPod = "threads per pod";
export const gilPerPod = "of a core holding the GIL, per pod";
export const gilWaitPerPod = "threads waiting for the GIL, per pod";
export const tasksPerPod = "asyncio tasks, per pod";
export const offCpuPerPod = "off-CPU threads, per pod";
export const orderOfPods = "Order of pods";
export const byCost = "By cost";
export const byName = "By name";
export const hoursOf = (zone: Printable) => `hours of ${zone}`;
export const showSevenDays = "Show 7 days";
export const theHeatmap = "the heatmap";
export const noDataWord = "no data";
export const sample = (rate: Printable, samples: number) => `${rate} · ${plural(samples, "sample")}`;
export const noNamespace = "(no namespace)";
export const noPod = "(no pod)";
export const byPodAndTime = (unit: Printable) => `${unit}, by pod and time`;
export const version = (began: Printable) => ` · version ${began}`;
export const podCount = (amount: number) => plural(amount, "pod");
export const sameNameNotice = "Includes pods of the same name in other namespaces. Filter by namespace.";
export const hiddenPods = (rows: number) => `${plural(rows, "cheaper pod")} hidden. A comparison with the rest includes them. Filter by labels to see them.`;
export const pod = "pod";
export const byHourAndDay = (unit: Printable) => `${unit}, by hour and day`;
export const sameHoursOfDay = "the same hours of the day before";
export const hourOfDay = (rows: number, last: number) => `${plural(rows, "hour")} of ${plural(last, "day")}`;
export const oneRangeOnly = "A profile covers one time range: select hours of one day, or";
export const theseDaysWhole = "use whole days";
export const hour = "hour";
export const tooManyPods = "Too many pods for one URL. Select fewer, or all.";
export const enter = "Enter";
export const openFlameGraph = "Open flame graph";
export const compareSelectionHint = (name: Printable) => `A: ${name}; B: the selection`;
export const compareWith = (name: Printable) => `Compare with ${name}`;
export const nothingLeft = "Everything is selected. Nothing is left to compare with.";
export const cellsAsTable = (rows: number, columns: number) => `Cells as a table (${count(rows)} × ${count(columns)})`;
export const tableNote = (unit: Printable, start: Printable) => `${unit}; times in ${start}; – means no data`;
export const cellsAsATable = "Cells as a table";

// SubsecondHeatmap
export const whereInEachSecond = "Where in each second";
export const process = "Process";
export const all = "all";
export const heatMap = "the heat map";
export const spanInUrlInvalid = "The span in this URL is invalid.";
export const clearSpan = "Clear span";
export const noRecordedSamples = "These recordings hold no samples.";
export const subsecondHint = (start: Printable, step: Printable) => `One column per second from ${start}, one row per ${step} ms, from the bottom up. Drag or use the arrow keys to select a span: Shift extends, Enter picks.`;
export const noSamplesOfType = "no samples of this type";
export const sampleInMs = (maximum: number, step: Printable) => `${plural(maximum, "sample")} in ${step} ms`;
export const emptyNoData = "· empty: no data";
export const busiestCellsAsTable = "The busiest cells as a table";
export const busiestColumns = ["second", "offset", "#samples", "#% of samples", "~Pick"] as const;
export const pickS = (grid: Printable) => `Pick ${grid} s`;
export const pick = "Pick";
export const nothingWasSampled = "nothing was sampled";
export const sampleOf = (samples: number, sampled: number) => `${plural(samples, "sample")} of ${count(sampled)}`;
export const describeCell = (second: Printable, from: Printable, until: Printable, samples: Printable) => `second ${second}, ${from} to ${until} ms: ${samples}`;
export const heatMapWord = "heat map";
export const subsecondDescription = (columns: number, rows: Printable, maximum: number) => `Samples by second and offset: ${plural(columns, "second")} of ${rows} cells each, at most ${plural(maximum, "sample")} in one. Arrow keys walk, Shift extends, Enter picks.`;
export const fromSecond = "From second";
export const untilSecond = "Until second";
export const spanError = "Enter two times in seconds, the earlier one first, such as 12.34 and 12.56.";
export const spanSummary = (from: Printable, until: Printable, duration: Printable, start: Printable) => `${from} to ${until} s: ${duration} from ${start}`;
export const compareWithRestHint = "A: all of the capture that is outside this span; B: the span";
export const compareWithRest = "Compare with the rest";
export const view = "View";
export const differential = "Differential";
export const flameGraph = "Flame graph";
export const sideBySide = "Side by side";
export const table = "Table";
export const sandwich = "Sandwich";
export const theFlameGraph = "the flame graph";
export const butNot = " but not";
export const spanStates = (gil: number, running: number, cpuWait: number, gilWait: number, offCpu: number) => `${plural(gil, "sample")} held the GIL, ${count(running)} ran, ${count(cpuWait)} waited for a CPU, ${count(gilWait)} for the GIL, ${count(offCpu)} for something else`;
export const noSamplesInSpan = (type: Printable, states: Printable) => `No ${type} samples in this span: ${states}.`;
export const showWaitingToo = "Show waiting too";
export const spanData = (samples: number, sampled: Printable, states: Printable) => `${plural(samples, "sample")} · sampled time ${sampled} · ${states}`;
export const sideARest = "A the rest";
export const sideBSpan = "B this span";

// HeatmapPage
export const heatmapOf = (service: ComponentChildren) => <>Heatmap of {service}</>;
export const rows = "Rows";
export const podsTime = "Pods × time";
export const hourDay = "Hour × day";
export const capturePods = "Capture these pods";
