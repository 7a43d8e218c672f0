/** The header, settings, sharing and dialogs. */

import { count, plural, type Printable } from "./counts.ts";

// App
export const skipToGraph = "Skip to the graph";
export const skipToContent = "Skip to content";
export const thisPage = "this page";
export const noSuchPage = "No such page";
export const showAllServices = "Show all services";
export const services = "Services";
export const compareTitle = (service: Printable) => `Compare ${service}`;
export const depthTitle = (service: Printable) => `Stack depth of ${service}`;
export const heatmapTitle = (service: Printable) => `Heatmap of ${service}`;
export const coverage = "Coverage";
export const functions = "Functions";
export const files = "Profile files";
export const theCaptureForm = "the capture form";
export const theCaptureProgress = "the captures in progress";
export const theNotes = "the notes";
export const thePalette = "the search";
export const captures = "Captures";
export const captureTitle = (capture: Printable) => `Capture ${capture}`;
export const settingsAndHelp = "Settings and help";

// Exports
export const htmlPageOpensOffline = "HTML page, opens offline";
export const csvTableOfFunctions = "CSV table of functions";
export const foldedText = "Folded text";
export const speedscopeFile = "Speedscope file";
export const pprofProfile = "pprof profile";
export const svgFlameGraph = "SVG flame graph";
export const exportMenu = "Export ▾";
export const openInSpeedscope = "Open in speedscope ↗";
export const heaviestInSpeedscope = (shown: number, all: number) => `speedscope shows the ${count(shown)} heaviest of ${count(all)} call paths. The file has all.`;
export const bothSides = "A and B";
export const alone = (side: Printable) => `${side} alone`;
export const preparingFile = "Preparing the file…";
export const exportUnanswered = "The collector does not answer. Check that it runs, then export again.";
export const fullUrl = "Full URL";
export const link = "Link";
export const copyShortLinkTo = "Copy a short link to this view, with fixed times";
export const share = "Share";
export const moreWaysToShare = "More ways to share";
export const copyFullUrl = "Copy full URL";
export const curlCommand = "curl command";
export const copyAsCurl = "Copy as curl";
export const copyAsMarkdown = "Copy as Markdown";
export const markdownSummary = "Summary";
export const command = "Command";
export const copyCliCommand = "Copy CLI command";

// Header
export const sidelight = "Sidelight";
export const pages = "Pages";
export const pagesOfService = "Pages of this service";
export const profile = "Profile";
export const compare = "Compare";
export const depth = "Depth";
export const podsTab = "Pods";
export const viewTools = "View tools";
export const captureAction = "Capture";
export const captureHint = "Profile at a higher rate for a minute";
export const find = "Find";
export const findWithKey = "Find (Ctrl K)";
export const paletteHint = "Find services, versions, functions, pages and actions (Ctrl K)";
export const saveView = "Save this view…";
export const saveViewCommand = "save view as ";
export const pinComparison = "Pin this comparison…";
export const pinComparisonHint = "Save this comparison with its sides and times";
export const pinComparisonCommand = "pin comparison as ";
export const useUtc = "Show times in UTC";
export const useLocalTime = "Show times in local time";
export const switchService = (service: Printable) => `${service}: switch to another service`;
export const moreMenu = "More";
export const refreshData = "Refresh the data";
export const refresh = "Refresh";
export const keyboardAndHelp = "Keyboard and help";
export const keyboardAndHelpHint = "Keyboard and help (?)";
export const useTheme = (theme: Printable) => `Use the ${theme} theme`;

// HelpDialog
export const shortcuts = "the shortcuts";
export const singleKeyShortcutsOn = "Single-key shortcuts on";
export const keyboard = "Keyboard";
export const settingsAndNumbers = "Settings, and how to read the numbers";
export const close = "Close";

// Hint
export const hideHint = "Hide this hint";

// CopyButton
export const copied = (what: Printable) => `${what} copied`;
export const copyText = "Copy this text";
export const textToCopy = "Text to copy";

// SearchBox
export const searchFrames = "Search frames";
export const searchFramesPlaceholder = "Search frames  /";
export const textOrRegularExpression = "Text, or /regular expression/";

// SettingsPage
export const appearance = "Appearance";
export const theme = "Theme";
export const system = "System";
export const light = "Light";
export const dark = "Dark";
export const collector = "This collector";
export const collectorsState = "the collector's state";
export const howToReadNumbers = "How to read the numbers";
export const help = "the help";
export const more = "More";
export const version = "Version";
export const uiBuild = "UI build";
export const store = "Store";
export const storeDoesNotAnswer = "does not answer; check the collector's log";
export const retention = "Retention";
export const retentionDays = (window: number, hour: number, day: number) => `${plural(window, "day")} in full, ${plural(hour, "day")} hourly, ${plural(day, "day")} daily; services can differ`;
export const ingested = "Ingested";
export const windowsSinceStart = (windows: number, last: Printable) => `${count(windows)} windows since start; last: ${last}`;
export const sidecarsSeen = "Sidecars seen";
export const orMore = " or more";

// SourceLink
export const source = "Source";
export const openSource = "Open source code";
