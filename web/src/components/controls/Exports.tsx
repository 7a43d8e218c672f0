import { apiUrl, Failure, parseFailure, requestJson } from "../../api/request.ts";
import type { VerdictAnswer } from "../../api/verdict.ts";
import type { Side } from "../../api/answers.ts";
import type { components } from "../../api/schema.ts";
import { cliCommand, curlCommand, pinTimes, type ApiQuery } from "../../viewmodels/shellCommands.ts";
import { place, PREFIX } from "../../lib/location.ts";
import { signal } from "../../lib/signals.ts";
import { sideInForce } from "../../lib/sides.ts";
import { toAbsolute, rfc3339, toEpochSeconds } from "../../lib/times.ts";
import { formatPlace, isRangeChosen, pageRange, type Place } from "../../lib/url.ts";
import { Dropdown } from "../ui/Dropdown.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { sampleFilterParameters } from "../../lib/queryParameters.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** What speedscope takes without a long wait. */
const SPEEDSCOPE_NODES = 100_000;

type Format = readonly [format: string, text: string, ending: string];
const HTML: Format = ["html", strings.htmlPageOpensOffline, "html"];
const CSV: Format = ["csv", strings.csvTableOfFunctions, "csv"];
const FOLDED: Format = ["folded", strings.foldedText, "folded"];
const SINGLE_PROFILE_FORMATS: readonly Format[] = [FOLDED, ["speedscope", strings.speedscopeFile, "speedscope.json"], ["pprof", strings.pprofProfile, "pb.gz"], ["svg", strings.svgFlameGraph, "svg"]];

/** Files that take away exactly the profile in view: the range the answer covered, not "the last hour". */
export function Exports({ side, name, nodeCount = 0 }: { side: Side; name: string; nodeCount?: number }) {
  const { type } = place.value;
  const parameters = sideParameters(side);
  const file = `${encodeURIComponent(name)}.speedscope.json`;
  const profile = apiUrl(`export/${file}`, { ...parameters, nodes: String(SPEEDSCOPE_NODES) });
  const title = encodeURIComponent(`${name} (${type})`);
  const isTooLarge = nodeCount > SPEEDSCOPE_NODES;
  return (
    <span class="exports">
      <Dropdown text={strings.exportMenu}>
        {[HTML, CSV, ...SINGLE_PROFILE_FORMATS].map((format) => <ExportLink key={format[0]} path="export" parameters={parameters} format={format} name={name} />)}
        <a target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=left-heavy`}>{strings.openInSpeedscope}</a>
        {isTooLarge && <span class="quiet">{strings.heaviestInSpeedscope(SPEEDSCOPE_NODES, nodeCount)}</span>}
      </Dropdown>
      <ExportStatus />
    </span>
  );
}

/** The same for a comparison: both sides in one file, or each alone. */
export function ComparisonExports({ sides, query, name }: { sides: readonly Side[]; query: ApiQuery; name: string }) {
  const [, { states: _, ...parameters }] = pinTimes(query, sides, 0);
  return (
    <span class="exports">
      <Dropdown text={strings.exportMenu}>
        <strong>{strings.bothSides}</strong>
        {[HTML, CSV, FOLDED].map((format) => <ExportLink key={format[0]} path="export/compare" parameters={parameters} format={format} name={`${name}-compare`} />)}
        {sides.map((side, at) => (
          <div key={at} class="group" role="group" aria-label={strings.alone("AB"[at])}>
            <strong>{strings.alone("AB"[at])}</strong>
            {SINGLE_PROFILE_FORMATS.map((format) => <ExportLink key={format[0]} path="export" parameters={sideParameters(side)} format={format} name={`${name}-${"ab"[at]}`} />)}
          </div>
        ))}
      </Dropdown>
      <ExportStatus />
    </span>
  );
}

const sideParameters = (side: Side) =>
  ({ query: side.selector, from: formatTime(side.from), until: formatTime(side.until), type: place.value.type, ...sampleFilterParameters({ ...place.value, scope: "" }) });

const formatTime = (time: string | number) => rfc3339(toEpochSeconds(time));

const exportStatus = signal<string | Failure>("");

/** A link to a file that says why there is none, where the collector refuses it. */
function ExportLink({ path, parameters, format: [format, text, ending], name }: {
  path: string; parameters: Readonly<Record<string, string>>; format: Format; name: string;
}) {
  const lines = place.value.by === "line" ? "1" : "";
  const about = format === "folded" || format === "csv" ? "1" : "";
  const url = apiUrl(path, { lines, ...parameters, about, format });
  return (
    <a href={url} download={`${name}.${ending}`} onClick={(event) => {
      event.preventDefault();
      void saveExport(url, `${name}-${place.peek().type}.${ending}`);
    }}>{text}</a>
  );
}

async function saveExport(url: string, file: string): Promise<void> {
  exportStatus.value = strings.preparingFile;
  try {
    const response = await fetch(url);
    if (!response.ok) {
      exportStatus.value = await parseFailure(response);
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = file;
    link.click();
    // Long enough for any browser to have taken it.
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    exportStatus.value = "";
  } catch {
    exportStatus.value = strings.exportUnanswered;
  }
}

function ExportStatus() {
  const status = exportStatus.value;
  return <span class="preparing" role="status">{typeof status === "string" ? status : `${status.message} ${status.hint}`}</span>;
}

/**
 * Copies a short link to the view, its relative times nailed down, so that it shows the same thing tomorrow; behind
 * it the long address, which needs no store, and the query of the page as commands.
 */
export function Share({ query, sides = null }: { query: ApiQuery; sides?: readonly Side[] | null }) {
  const collector = () => window.location.origin + PREFIX.slice(0, -1);
  const longLink = () => collector() + absolutePath(sides);
  const copyShortLink = async () => {
    const link = await createShortLink(absolutePath(sides));
    await copy(link === null ? longLink() : collector() + link, link === null ? strings.fullUrl : strings.link);
  };
  const pinnedQuery = () => pinTimes(query, sides, Date.now() / 1000);
  return (
    <span class="exports">
      <button type="button" onClick={() => void copyShortLink()} title={strings.copyShortLinkTo}>{strings.share}</button>
      <Dropdown text="▾" label={strings.moreWaysToShare}>
        <CopyButton text={longLink} what={strings.fullUrl}>{strings.copyFullUrl}</CopyButton>
        {sides?.length === 2 && <button type="button" onClick={() => void copyMarkdown(query, sides)}>{strings.copyAsMarkdown}</button>}
        <CopyButton text={() => curlCommand(collector(), pinnedQuery())} what={strings.curlCommand}>{strings.copyAsCurl}</CopyButton>
        <CopyButton text={() => cliCommand(collector(), pinnedQuery())} what={strings.command}>{strings.copyCliCommand}</CopyButton>
      </Dropdown>
    </span>
  );
}

/** Copies a comparison as Markdown. The verdict is requested for the sides that the page shows, and comes from the cache. */
async function copyMarkdown([, parameters]: ApiQuery, sides: readonly Side[]): Promise<void> {
  exportStatus.value = strings.preparingFile;
  try {
    // A verdict has no graph, so it takes no parameters of one.
    const { lines: _, states: __, ...judged } = parameters;
    const [, pinned] = pinTimes(["verdict", judged], sides, 0);
    const [{ toMarkdown }, { verdict }, link] = await Promise.all([
      import("../../viewmodels/markdownSummary.ts"),
      requestJson<VerdictAnswer>(apiUrl("verdict", pinned), new AbortController().signal),
      createShortLink(absolutePath(sides)),
    ]);
    const collector = window.location.origin + PREFIX.slice(0, -1);
    const { service, type } = place.peek();
    const shown = sides.map(({ selector, from, until }) => ({ selector, from: formatTime(from), until: formatTime(until) }));
    await copy(toMarkdown(verdict, { service, type, sides: shown, link: collector + (link ?? absolutePath(sides)) }), strings.markdownSummary);
    exportStatus.value = "";
  } catch (error) {
    exportStatus.value = error instanceof Failure ? error : strings.exportUnanswered;
  }
}

/** The view with absolute times, and with the sides and times that the collector chose, behind the path prefix. */
export function absolutePath(sides: readonly Side[] | null): string {
  const here = place.peek();
  const now = Date.now() / 1000;
  const resolve = (text: string) => (text === "" ? "" : toAbsolute({ from: text, until: text }, now).from);
  const own = { baseline_from: resolve(here.baseline_from), baseline_until: resolve(here.baseline_until), comparison_from: resolve(here.comparison_from), comparison_until: resolve(here.comparison_until) };
  if (sides?.length !== 2) return formatPlace({ ...here, ...toAbsolute(pageRange(here), now), ...own });
  const [a, b] = sides;
  const chosen: Partial<Place> = isRangeChosen(here)
    ? { baseline_from: formatTime(a.from), baseline_until: formatTime(a.until), comparison_from: formatTime(b.from), comparison_until: formatTime(b.until) }
    : { ...toAbsolute(pageRange(here), now), ...own };
  return formatPlace({ ...here, baseline: sideInForce(here, "baseline", a.selector), comparison: sideInForce(here, "comparison", b.selector), ...chosen });
}

/** A short link; null where the collector keeps none, or cannot now. */
async function createShortLink(view: string): Promise<string | null> {
  try {
    const response = await fetch(apiUrl("links"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ path: view }) });
    return response.ok ? ((await response.json()) as components["schemas"]["Link"]).path : null;
  } catch {
    return null;
  }
}
