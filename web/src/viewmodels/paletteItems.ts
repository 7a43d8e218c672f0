/** What the palette offers for a text: services, versions, functions, pages, ranges, saved views, comparisons and actions. */

import type { FunctionsAnswer } from "../api/answers.ts";
import type { SavedView } from "./browserStorage.ts";
import { equals } from "../lib/selectors.ts";
import { CHOSEN_RANGE } from "../lib/sides.ts";
import { formatRange, isRelativeTime, parseTime, parseTypedTime, PRESETS, type Range } from "../lib/times.ts";
import { appearanceOf, onPage, parseAddress, START, type Page, type Place } from "../lib/url.ts";
import * as strings from "../strings/paletteStrings.ts";

export type PaletteAction = "theme" | "utc" | "refresh" | "help" | { readonly capture: string } | { readonly save: string; readonly isPinned: boolean };

export interface PaletteItem {
  readonly id: string;
  readonly kind: string;
  readonly text: string;
  readonly detail?: string;
  /** Where it leads; or else what it does. */
  readonly to?: Place;
  readonly action?: PaletteAction;
}

export interface PaletteContext {
  readonly here: Place;
  readonly services: readonly string[];
  readonly favourites: readonly string[];
  /** The versions of the service that `serviceInText` names, the oldest first. */
  readonly versions: readonly string[];
  readonly functions: FunctionsAnswer | null;
  readonly views: readonly SavedView[];
  /** Whether the page shows a comparison of which both sides are known. */
  readonly canPin: boolean;
  /** Unix seconds. */
  readonly now: number;
}

const MOST = 40;
const SERVICE_PAGES: readonly Page[] = ["service", "compare", "depth", "heatmap"];

/** How well a name fits a text: lower is better; null if it does not. Letters may be left out, as in `cka` for checkout-api. */
export function matchScore(name: string, text: string): number | null {
  const [lower, wanted] = [name.toLowerCase(), text.toLowerCase().trim()];
  if (wanted === "") return 0;
  if (lower === wanted) return -2;
  const at = lower.indexOf(wanted);
  if (at === 0) return -1;
  if (at > 0) return /[^a-z0-9]/.test(lower[at - 1]) ? 0 : 1;
  let from = 0;
  let gaps = 0;
  for (const letter of wanted.replaceAll(" ", "")) {
    const found = lower.indexOf(letter, from);
    if (found < 0) return null;
    gaps += found - from;
    from = found + 1;
  }
  return 2 + gaps;
}

/** Whether a name has a text in it: names of pages and actions are sentences, in which single letters fit by chance. */
const contains = (name: string, text: string): boolean => name.toLowerCase().includes(text.toLowerCase());

/** The names that fit, the best first. */
export function bestMatches(names: readonly string[], text: string, most = MOST): string[] {
  if (text.trim() === "") return names.slice(0, most);
  return names.flatMap((name) => {
    const score = matchScore(name, text);
    return score === null ? [] : [{ name, score }];
  }).sort((a, b) => a.score - b.score || a.name.length - b.name.length || (a.name < b.name ? -1 : 1)).slice(0, most).map(({ name }) => name);
}

/** The service whose versions a text is about: that of `compare checkout v1`, or that of the page. */
export function serviceInText(text: string, services: readonly string[], here: Place): string {
  const words = /^compare\s+(\S+)/i.exec(text);
  return words ? (bestMatches(services, words[1], 1)[0] ?? "") : here.service;
}

/** A range as a person types it: `now-3h`, `last 2 days`, `now-3h to now-1h`, two dates; null if it is none. */
export function parseRange(text: string, now: number): Range | null {
  const last = /^last\s+(\d+)\s*([smhdw])[a-z]*$/i.exec(text.trim());
  if (last) return { from: `-${last[1]}${last[2].toLowerCase()}`, until: "now" };
  const [first, second, ...more] = text.split(/\s+(?:to|–|until)\s+/);
  if (more.length > 0) return null;
  const [from, until] = [parseTypedTime(first, now), second === undefined ? "now" : parseTypedTime(second, now)];
  // A number alone is rather a version than a time.
  if (from === null || until === null || from === "now" || (second === undefined && !isRelativeTime(from) && !/^\d{4}-/.test(first.trim()))) return null;
  return (parseTime(from, now) ?? 0) < (parseTime(until, now) ?? 0) ? { from, until } : null;
}

/** The command at the start of a text, and what follows it. */
export function parseCommand(text: string): { readonly name: "" | "compare" | "capture" | "service" | "save" | "pin"; readonly rest: string } {
  const match = /^(compare|capture|service|save(?= view as )|pin(?= comparison as ))(?: view as| comparison as)?\s+(.*)$/i.exec(text);
  if (!match) return { name: "", rest: "" };
  return { name: match[1].toLowerCase() as "compare", rest: match[2].trim() };
}

/** A page of another service, with nothing of the present one but the type, the times and the appearance. */
function ofService(here: Place, service: string, page: Page = SERVICE_PAGES.includes(here.page) ? here.page : "service"): Place {
  return onPage(here, page, { service, query: "", baseline: "", comparison: "", ...(page === "compare" ? CHOSEN_RANGE : { baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "" }) });
}

export function paletteItems(text: string, context: PaletteContext): PaletteItem[] {
  const typed = text.trim();
  const { name, rest } = parseCommand(text);
  if (name === "compare") return compareItems(rest, context);
  if (name === "capture") return bestMatches(context.services, rest).map((service) => ({ id: `capture ${service}`, kind: strings.action, text: strings.captureService(service), action: { capture: service } }));
  if (name === "service") return bestMatches(orderServices(context), rest).map((service) => serviceItem(service, context));
  const isPinned = name === "pin";
  if (name === "save" || isPinned) return rest === "" || (isPinned && !context.canPin) ? [] : [{ id: name, kind: strings.action, text: isPinned ? strings.pinComparisonAs(rest) : strings.saveViewAs(rest), action: { save: rest, isPinned } }];
  const groups = [
    rangeItems(typed, context),
    viewItems(typed, context),
    bestMatches(orderServices(context), typed, typed === "" ? 8 : 20).map((service) => serviceItem(service, context)),
    versionItems(typed, context),
    pageItems(context).filter(({ text: of }) => contains(of, typed)),
    actionItems(context).filter(({ text: of }) => contains(of, typed)),
    functionItems(context),
  ];
  return groups.flat().slice(0, MOST);
}

const orderServices = ({ services, favourites }: PaletteContext) => [...favourites.filter((one) => services.includes(one)), ...services.filter((one) => !favourites.includes(one))];

const serviceItem = (service: string, { here }: PaletteContext): PaletteItem => ({ id: `service ${service}`, kind: strings.service, text: service, to: ofService(here, service) });

/** "compare checkout v1 v2": versions by their beginnings; without them the two newest. */
function compareItems(rest: string, { here, services, versions }: PaletteContext): PaletteItem[] {
  const [first = "", ...wanted] = rest.split(/\s+/);
  const matching = bestMatches(services, first);
  const service = matching[0];
  if (service === undefined) return [];
  if (wanted.length === 0) return matching.map((one) => ({ id: `compare ${one}`, kind: strings.comparison, text: strings.compareService(one), to: ofService(here, one, "compare") }));
  const newest = versions.toReversed();
  const find = (text: string, not: string) => bestMatches(newest.filter((version) => version !== not), text, 5);
  const pairs = wanted.length === 1
    ? find(wanted[0], "").flatMap((one) => newest.filter((other) => other !== one).slice(0, 3).map((other) => (versions.indexOf(one) < versions.indexOf(other) ? [one, other] as const : [other, one] as const)))
    : find(wanted[0], "").flatMap((a) => find(wanted[1], a).map((b) => [a, b] as const));
  return pairs.slice(0, 10).map(([a, b]) => ({
    id: `compare ${service} ${a} ${b}`, kind: strings.comparison, text: strings.compareVersions(service, a, b), to: { ...ofService(here, service, "compare"), baseline: `version:${a}`, comparison: `version:${b}` },
  }));
}

function rangeItems(typed: string, { here, now }: PaletteContext): PaletteItem[] {
  if (typed === "") return [];
  const range = parseRange(typed, now);
  const ranges = range ? [range] : PRESETS.filter(({ name }) => name.includes(typed.toLowerCase()));
  return ranges.map((one) => ({ id: `range ${one.from} ${one.until}`, kind: strings.timeRange, text: formatRange(one), to: { ...here, from: one.from, until: one.until } }));
}

function viewItems(typed: string, { views }: PaletteContext): PaletteItem[] {
  return views.toReversed().filter(({ name }) => contains(name, typed)).map(({ name, path }) => ({ id: `view ${name}`, kind: strings.savedView, text: name, to: parseAddress(path) }));
}

function versionItems(typed: string, { here, versions }: PaletteContext): PaletteItem[] {
  if (here.service === "" || typed === "") return [];
  return bestMatches(versions, typed, 5).map((version) => ({ id: `version ${version}`, kind: strings.version, text: version, detail: here.service, to: onPage(here, "service", { query: equals("version", version) }) }));
}

function pageItems({ here }: PaletteContext): PaletteItem[] {
  const page = (to: Page, text: string): PaletteItem => ({ id: `page ${to}`, kind: strings.page, text, to: SERVICE_PAGES.includes(to) ? onPage(here, to) : { ...START, ...appearanceOf(here), page: to } });
  const own = here.service === "" || here.page === "captures" ? [] : [page("service", strings.profile), page("compare", strings.compare), page("depth", strings.depth), page("heatmap", strings.pods)];
  return [...own, page("services", strings.services), page("fleet", strings.coverage), page("functions", strings.functions), page("captures", strings.captures), page("files", strings.files), page("settings", strings.settings)];
}

function actionItems({ here }: PaletteContext): PaletteItem[] {
  const action = (id: string, text: string, does: PaletteAction): PaletteItem => ({ id, kind: strings.action, text, action: does });
  return [
    action("capture", here.service === "" ? strings.startCapture : strings.captureService(here.service), { capture: here.service }),
    action("refresh", strings.refresh, "refresh"),
    action("theme", strings.switchTheme, "theme"),
    action("utc", here.utc ? strings.localTime : strings.utc, "utc"),
    action("help", strings.help, "help"),
  ];
}

function functionItems({ here, functions }: PaletteContext): PaletteItem[] {
  if (!functions) return [];
  const { rows, search } = functions;
  const find = (q: string): Place => ({ ...START, ...appearanceOf(here), page: "functions", q });
  const found = rows.function.slice(0, 8).map((name, at): PaletteItem => ({
    id: `function ${name} ${rows.file[at]}`, kind: strings.functionKind, text: name, detail: `${rows.file[at]} · ${strings.inServices(rows.services_total[at])}`,
    to: find(`${name} (${rows.file[at]})`),
  }));
  return found.length === 0 ? [] : [...found, { id: "functions", kind: strings.page, text: strings.allFunctions(search), to: find(search) }];
}
