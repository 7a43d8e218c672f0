/** Loading, failures and empty answers. */

import type { ComponentChildren } from "preact";
import { plural, type Printable } from "./counts.ts";

// captures
export const collectorDoesNotAnswer = "The collector does not answer.";
export const checkWhetherItHappened = "The change may have happened: check once the collector answers.";
export const capturesNeedToken = "Only users with a token may start and end captures here.";

// request
export const somethingElseAnsweredIn = "Another server answered instead of the collector.";
export const perhapsSignInPage = "It may be a sign-in page: reload this page.";
export const checkThatItRuns = "Check that it runs and that this page was opened from it.";
export const browserOffline = "This browser is offline.";
export const pageReconnectsAutomatically = "The page reconnects automatically.";
export const profilesNeedToken = "This collector shows profiles only to readers with a token.";
export const howToSendToken = "A browser sends no token. Use sidelight's commands with --token-file, or a proxy that adds one or signs you in.";
export const answeredWithStatus = (status: Printable, statusText: Printable) => `The collector answered ${status} ${statusText}.`;

// useAnswer
export const youStoppedWaiting = "You stopped waiting.";
export const howToBeFaster = "A shorter range or a narrower filter is faster. Back returns to the previous view.";

// AnswerView
export const selector = (selector: ComponentChildren) => <>Selector: {selector}</>;
export const reason = (code: ComponentChildren) => <>reason: {code}</>;
export const editFilterThere = "Edit the filter there";
export const tryAgain = "Try again";

// EmptyState
export const cpu = "CPU";
export const gil = "GIL";
export const gilWait = "GIL wait";
export const offCpu = "off-CPU";
export const tasks = "task";
export const noTasks = "Tasks are read only of services that use asyncio, on CPython 3.11 and later, with --tasks-rate above 0.";
export const samples = (type: Printable) => `${type} samples`;
export const noneInRange = (what: Printable) => `No ${what} in this range`;
export const range = (range: Printable) => `Range: ${range}`;
export const filter = (query: ComponentChildren) => <>· filter: {query}</>;
export const showRange = (name: Printable) => `Show the ${name}`;
export const removeFilter = "Remove the filter";
export const showWallTime = "Show wall time";
export const lookingForLastData = "Looking for the last data…";
export const showAllServices = "Show all services";
export const noDataInThirtyDays = (service: ComponentChildren, showAllServices: ComponentChildren) => <>No data for {service} in 30 days – check the name. {showAllServices}</>;
export const lastSeen = (ago: Printable, moment: Printable, advice: string) => `Last seen ${ago} (${moment}).${advice && ` ${advice}`}`;
export const jumpToLastData = (clock: Printable) => `Jump to last data (${clock})`;

// Loading
export const receiving = "The answer is arriving.";
export const merging = "The collector is reading and merging stored windows.";
export const slowFirstQuery = "The first query of a range is slow; later ones use the cache.";
export const loading = (what: string, details: readonly string[]) => [`Loading ${what}…`, ...details].join(" ");
export const stopWaiting = "Stop waiting";
export const showingDataFrom = (receivedAt: Printable) => `Showing data from ${receivedAt}.`;
export const showingPreviousResult = "Showing the previous result.";
export const waitingForCollector = (what: Printable) => `Waiting for the collector to load ${what}.`;
export const retrying = (countdown: ComponentChildren) => <>Retrying {countdown}.</>;
export const retryNow = "Retry now";
export const inSeconds = (seconds: number) => `in ${seconds} s`;
export const now = "now";
export const connection = "Connection";
export const itMayBeRestarting = "It may be restarting: check that it runs and that this page was opened from it.";
export const outage = (cause: string, since: string) => `${cause} Showing data from before ${since}. The page reconnects automatically.`;
export const nextTry = (countdown: ComponentChildren) => <>Next try {countdown}</>;
export const collectorWasUpdated = (loaded: ComponentChildren, served: ComponentChildren) => <>The collector was updated: this page is build {loaded}, the collector is build {served}. Reload the page to avoid wrong numbers.</>;
export const reload = "Reload";
export const notNow = "Not now";

// OnDemand
export const scriptDidNotLoad = (what: string) => `The script of ${what} did not load.`;
export const uiMayHaveBeenUpdated = "The collector may be unreachable or updated. Reload the page.";

// Notices
export const sampleCount = (amount: number) => plural(amount, "sample");
export const podCount = (amount: number) => plural(amount, "pod");
export const windowCount = (amount: number) => plural(amount, "window");
export const sampledTime = (sampled: Printable) => `· sampled time ${sampled}`;
export const beforeYouRead = "Before you read this";

// PrunedNotice
export const groupedPaths = (nodes: number, other: ComponentChildren) => <>{plural(nodes, "tiny call path")} grouped into {other}; totals are exact.</>;
export const showAll = "Show all";

// DataQuality
export const dataGood = "● Data quality: good ▾";
export const dataWarnings = (warnings: number) => `⚠ Data quality: ${plural(warnings, "warning")} ▾`;

// QualityLine
export const whatTheseWordsMean = "What these words mean";
export const quality = "Quality:";
