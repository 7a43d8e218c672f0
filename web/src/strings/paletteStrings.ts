/** The palette: one search for services, versions, functions, pages, ranges, views and actions. */

import { plural, type Printable } from "./counts.ts";

export const title = "Find";
export const placeholder = "Service, version, function, page, now-3h, compare checkout v1 v2";
export const results = "Results";
export const nothingFound = "Nothing found.";
export const searching = "Searching functions…";
export const hint = "compare <service> <A> <B> · capture <service> · now-3h · save view as <name>";
export const service = "service";
export const version = "version";
export const page = "page";
export const action = "action";
export const timeRange = "time range";
export const savedView = "saved view";
export const comparison = "comparison";
export const functionKind = "function";
export const captureService = (name: Printable) => `Capture ${name}`;
export const startCapture = "Start a capture";
export const saveViewAs = (name: Printable) => `Save this view as “${name}”`;
export const compareService = (name: Printable) => `Compare ${name}: the newest versions`;
export const compareVersions = (name: Printable, a: Printable, b: Printable) => `Compare ${name}: ${a} with ${b}`;
export const inServices = (services: number) => plural(services, "service");
export const allFunctions = (search: Printable) => `All functions that match “${search}”`;
export const profile = "Profile";
export const compare = "Compare";
export const depth = "Stack depth";
export const pods = "Pods and hours";
export const services = "Services";
export const coverage = "Coverage";
export const functions = "Functions of all services";
export const captures = "Captures";
export const settings = "Settings and help";
export const refresh = "Refresh the data";
export const switchTheme = "Switch between light and dark";
export const utc = "Show times in UTC";
export const localTime = "Show times in local time";
export const help = "Keyboard and help";
