/** The timeline, time ranges and filters. */

import type { ComponentChildren } from "preact";
import { count, plural, type Printable } from "./counts.ts";

// Filters
export const profileType = "Profile type";
export const cpu = "CPU";
export const cpuHint = "Time on a CPU";
export const wall = "Wall";
export const wallHint = "All time of all threads, waiting included";
export const gil = "GIL";
export const gilHint = "Time holding the global interpreter lock";
export const gilWait = "GIL wait";
export const gilWaitHint = "Time waiting for the global interpreter lock";
export const tasks = "Tasks";
export const tasksHint = "Time of asyncio tasks by what they await";
export const tasksPerPod = "asyncio tasks, per pod";
export const offCpu = "Off-CPU";
export const offCpuHint = "Time waiting for locks, descriptors, I/O, timers or unknown reasons";
export const operatorIsNot = "is not";
export const operatorDoesNotMatch = "does not match";
export const filters = "Filters";
export const edit = (matcher: Printable) => `${matcher}: edit`;
export const removeFilter = (matcher: Printable) => `Remove the filter ${matcher}`;
export const addFilter = "+ filter";
export const editAsQueryHint = "Edit all filters as text";
export const editAsQuery = "Edit as query";
export const filterByLabels = "Filter by labels";
export const filterPlaceholder = "filter, e.g. pod=~\"web-.*\", node!=\"n3\"";
export const apply = "Apply";
export const clear = "Clear";
export const backToFilters = "Back to filters";

// MatcherEditor
export const editFilter = "Edit the filter";
export const newFilter = "New filter";
export const label = "Label";
export const loading = "loading…";
export const labelPlaceholder = "label…";
export const operator = "Operator";
export const valueOfLabel = "Value of the label";
export const regularExpressionHint = "regular expression (RE2), whole value";
export const valueHint = "value; empty: without the label";
export const valuesInRange = "Values in this range";
export const loadingValues = "loading values…";
export const noSuchValueIn = "no such value in this range";
export const moreValues = (more: number) => `and ${count(more)} more: type to narrow them down`;
export const cancel = "Cancel";

// RangePicker
export const automaticTimes = "automatic times";
export const timeRange = (name: Printable) => `Time range: ${name}`;
export const fromLabel = "from";
export const until = "until";
export const typedTimesHint = (zone: Printable) => `now-3h, or a date and time in ${zone}.`;
export const notATime = "Type times such as now-3h, now, or 2026-11-26 21:30.";
export const endsBeforeItBegins = "The range ends before it begins.";
export const earlier = "Earlier range of the same length";
export const later = "Later range of the same length";
export const autoRefresh = "Auto-refresh";
export const off = "off";
export const every = (seconds: number) => (seconds < 60 ? `every ${seconds} s` : `every ${seconds / 60} min`);
export const showRange = "Show this range";

// Timeline
export const cpuPerPod = "CPU per pod";
export const threadsPerPodForGil = "Threads per pod waiting for the GIL";
export const threadsPerPodOffCpu = "Off-CPU threads per pod";
export const threadsPerPodWaiting = "Threads per pod (waiting or working)";
export const shareOfCoreHolding = "Share of a core holding the GIL, per pod";
export const noData = "no data";
export const stepData = (rate: Printable, pods: number, samples: number) => `${rate} · ${plural(pods, "pod")} · ${plural(samples, "sample")}`;
export const readyTasks = (tasks: Printable, longest: Printable) => `${tasks} ready tasks, which waited up to ${longest} for the event loop`;
export const longestLag = (longest: Printable) => ` · line: event-loop lag, up to ${longest}`;
export const noTasksRead = "no tasks were read";
export const boostAt = (trigger: Printable, pods: number) => `trigger ${trigger}: ${plural(pods, "pod")} sampled at a higher rate`;
export const noteAt = (text: Printable) => `note: ${text}`;
export const overheadPaused = (stoppedShare: Printable) => `overhead: paused ${stoppedShare}`;
export const noVersionLabelled = "(no version)";
export const gap = (emptySpans: number) => `, ${plural(emptySpans, "gap")}`;
export const timelineDescription = (unit: Printable, mean: Printable, maximum: Printable, rates: number, step: Printable, emptySpans: Printable, versions: Printable) => `${unit}: mean ${mean}, max ${maximum}, over ${plural(rates, "step")} of ${step}${emptySpans}; versions seen: ${versions}.`;
export const timeline = "Timeline";
export const unfoldTimeline = "Unfold the timeline";
export const foldTimeline = "Fold the timeline";
export const podCount = (pods: number) => plural(pods, "pod");
export const timelineCaption = (mean: Printable, maximum: Printable, start: Printable) => `mean ${mean} · max ${maximum} · drag to select · times in ${start}`;
export const storedCoarsely = (every: Printable, until: Printable) => `stored per ${every} until ${until}: one bar is one ${every}`;
export const ranBefore = (text: Printable) => `${text}: ran before this range`;
export const firstSeen = (text: Printable, at: Printable) => `${text}: first seen ${at}`;
export const rolledOutFrom = (from: string, until: string | null) => `rolled out from ${from}${until === null ? "" : ` to ${until}`}`;
export const selectedSpan = (from: Printable, until: Printable) => `; selected ${from} to ${until}`;
export const nothingSelected = "nothing selected";
export const timelineKeys = "Arrow keys move, Shift selects a range, Enter zooms to it, Escape clears it.";
export const timelineAsTable = "Timeline as a table";
export const fromZone = (zone: string) => `from (${zone})`;
export const timelineColumns = (unit: string) => [`#rate, ${unit}`, "#samples", "#pods", "#coverage", "#paused"];
export const noVersionWord = "none";
export const noDataHeading = "No data:";

// TimelineSelection
export const addNote = "Add note";
export const addNoteHint = "Write a note on this range";
export const backTo = (range: Printable) => `← back to ${range}`;
export const selectedVersions = "Selected versions";
export const seenBetween = (firstSeen: Printable, lastSeen: Printable) => `first seen ${firstSeen}, last ${lastSeen}`;
export const zoomToThisAndLater = "Zoom to this and later";
export const close = "Close";
export const selectedRange = "Selected range";
export const sampleCount = (amount: number) => plural(amount, "sample");
export const zoomToRange = "Zoom to range";
export const makeSideA = "Make this side A of a comparison";
export const sideAWord = "side A";
export const useAs = (side: ComponentChildren, spoken: ComponentChildren) => <>Use as {side}{spoken}</>;
export const makeSideB = "Make this side B of a comparison";
export const sideBWord = "side B";
export const clearSide = (letter: Printable) => `Clear side ${letter}`;
export const selectOtherSide = (baseline: Printable) => `Select side ${baseline} the same way, or`;
export const compareAndB = "Compare A and B";
export const compareWithEverything = "compare with everything shown";

// times
export const last = (duration: string) => `last ${duration}`;
export const lastHour = "last hour";
export const ago = (duration: Printable) => `${duration} ago`;
export const sAgo = (elapsed: Printable) => `${elapsed} s ago`;
export const minAgo = (elapsed: Printable) => `${elapsed} min ago`;
export const hAgo = (elapsed: Printable) => `${elapsed} h ago`;
export const daysAgo = (elapsed: Printable) => `${elapsed} days ago`;

// NotesDialog
export const notes = "Notes";
export const notesOn = (subject: ComponentChildren) => <>Notes on {subject}</>;
export const noNotes = "There are no notes yet.";
export const newNote = "New note:";
export const changeNote = "Change the note:";
export const namespace = "Namespace of its readers";
export const noNamespace = "(none)";
export const save = "Save";
export const saveChange = "Save change";
export const discardChange = "Discard change";
export const editNote = "Edit";
export const deleteNote = "Delete";
export const reallyDelete = "Really delete?";
export const showNotedRange = "Show range";
export const showFunction = "Show function";
export const anonymous = "anonymous";
export const changedBy = (user: ComponentChildren, ago: Printable) => <>changed by {user} {ago}</>;
export const notesNeedToken = "Only users with a token may write notes here.";
