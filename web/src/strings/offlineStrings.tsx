/** The page inside an HTML export, and the page for profile files of other tools. */

import type { ComponentChildren } from "preact";
import { plural, type Printable } from "./counts.ts";

// LinesUnavailable
export const linesOfOneFunction = "The lines of one function are not in this file";
export const collectorHasThemOpen = "The collector has them: open the same view there. A file that was exported with frames by line has all lines in its graph.";
export const back = "Back";

// offlineMain
export const sidelight = "Sidelight";
export const profileFileExportedBy = (exporter: Printable) => `profile file, exported by ${exporter}`;
export const dark = "Dark";
export const light = "Light";
export const whyMenu = "Why ▾";
export const whyAndHowSure = "Why, and how sure";
export const tinyCallPathGrouped = (nodes: number, other: ComponentChildren) => <>{plural(nodes, "tiny call path")} grouped into {other}; totals are exact.</>;
export const view = "View";
export const flameGraph = "Flame graph";
export const table = "Table";
export const sandwich = "Sandwich";
export const noSamplesInFile = (type: Printable) => `No ${type} samples in this file`;
export const exportAnotherTypeSelector = "Export another type, selector or range.";
export const keyboard = "Keyboard";
export const fileCannotBeShown = "This file cannot be shown";
export const profileDamagedOrIncomplete = "The profile is damaged or incomplete, or this browser is too old. Export it again, or open it in a newer browser.";

// FilesPage
export const verdict = "Verdict";
export const profileFiles = "Profile files";
export const howToChoose = "Drop a profile file here, or paste folded text. Two files compare.";
export const notStored = "The collector reads the files for this page and does not store them.";
export const formats = "pprof, speedscope, folded text, perf script, Chrome trace, Firefox Profiler, and Austin";
export const chooseFiles = "Choose files…";
export const profileFile = "Profile file";
export const addFile = "Compare with another file…";
export const closeFiles = "Close the files";
export const swapSides = "Swap the sides";
export const swapSidesHint = "Swap the sides (x)";
export const pastedText = "pasted text";
export const readingFiles = (names: Printable) => `Reading ${names}…`;
export const damagedParts = (name: Printable, count: number) => `${name}: the collector left out ${plural(count, "damaged or unrelated part")}.`;
export const noSamples = "These files have no samples of this type";
export const fileTools = "Profile files";
export const noAnswer = "The collector did not read the files";
export const perhapsUnreadable = "Check that it runs, and that the file still exists.";
