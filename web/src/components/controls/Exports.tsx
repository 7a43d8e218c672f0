import { apiUrl, failureOf, type Failure } from "../../api/request.ts";
import type { Side } from "../../api/answers.ts";
import { commandLine, curl, pinned, type Question } from "../../viewmodels/shellCommands.ts";
import { place, PREFIX } from "../../lib/location.ts";
import { count } from "../../lib/numbers.ts";
import { signal } from "../../lib/signals.ts";
import { absolute, rfc3339, epoch } from "../../lib/times.ts";
import { formatPlace, rangeOf, type Place } from "../../lib/url.ts";
import { Choices } from "../ui/Dropdown.tsx";
import { copy, CopyButton } from "../ui/CopyButton.tsx";
import { pickedBy } from "../../lib/queryParameters.ts";

/** What speedscope takes without a long wait. */
const SPEEDSCOPE_NODES = 100_000;

type Format = readonly [format: string, text: string, ending: string];
const HTML: Format = ["html", "HTML page, opens offline", "html"];
const CSV: Format = ["csv", "CSV table of functions", "csv"];
const FOLDED: Format = ["folded", "Folded text", "folded"];
const ALONE: readonly Format[] = [FOLDED, ["speedscope", "Speedscope file", "speedscope.json"], ["pprof", "pprof profile", "pb.gz"], ["svg", "SVG flame graph", "svg"]];

/** Files that take away exactly the profile in view: the range the answer covered, not "the last hour". */
export function Exports({ side, name, drawn = 0 }: { side: Side; name: string; drawn?: number }) {
  const { type } = place.value;
  const parameters = sideParameters(side);
  const file = `${encodeURIComponent(name)}.speedscope.json`;
  const profile = apiUrl(`export/${file}`, { ...parameters, nodes: String(SPEEDSCOPE_NODES) });
  const title = encodeURIComponent(`${name} (${type})`);
  const much = drawn > SPEEDSCOPE_NODES;
  return (
    <span class="exports">
      <Choices text="Export ▾">
        {[HTML, CSV, ...ALONE].map((format) => <File key={format[0]} path="export" parameters={parameters} format={format} name={name} />)}
      </Choices>
      <Preparing />
      <a class="button" target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=left-heavy`}>Open in speedscope ↗</a>
      {much && <span class="quiet">speedscope gets the {count(SPEEDSCOPE_NODES)} heaviest of {count(drawn)} call paths; its file has all.</span>}
    </span>
  );
}

/** The same for a comparison: both sides in one file, or each alone. */
export function ExportsOfTwo({ sides, question, name }: { sides: readonly Side[]; question: Question; name: string }) {
  const [, { states: _, ...both }] = pinned(question, sides, 0);
  return (
    <span class="exports">
      <Choices text="Export ▾">
        <strong>A and B</strong>
        {[HTML, CSV, FOLDED].map((format) => <File key={format[0]} path="export/compare" parameters={both} format={format} name={`${name}-compare`} />)}
        {sides.map((side, at) => (
          <div key={at} class="group" role="group" aria-label={`${"AB"[at]} alone`}>
            <strong>{"AB"[at]} alone</strong>
            {ALONE.map((format) => <File key={format[0]} path="export" parameters={sideParameters(side)} format={format} name={`${name}-${"ab"[at]}`} />)}
          </div>
        ))}
      </Choices>
      <Preparing />
    </span>
  );
}

const sideParameters = (side: Side) =>
  ({ query: side.selector, from: moment(side.from), until: moment(side.until), type: place.value.type, ...pickedBy({ ...place.value, scope: "" }) });

const moment = (time: string | number) => rfc3339(epoch(time));

const preparing = signal<string | Failure>("");

/** A link to a file that says why there is none, where the collector refuses it. */
function File({ path, parameters, format: [format, text, ending], name }: {
  path: string; parameters: Readonly<Record<string, string>>; format: Format; name: string;
}) {
  const lines = place.value.by === "line" ? "1" : "";
  const about = format === "folded" || format === "csv" ? "1" : "";
  const url = apiUrl(path, { lines, ...parameters, about, format });
  return (
    <a href={url} download={`${name}.${ending}`} onClick={(event) => {
      event.preventDefault();
      void save(url, `${name}-${place.peek().type}.${ending}`);
    }}>{text}</a>
  );
}

async function save(url: string, file: string): Promise<void> {
  preparing.value = "Preparing the file…";
  try {
    const response = await fetch(url);
    if (!response.ok) {
      preparing.value = await failureOf(response);
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = file;
    link.click();
    // Long enough for any browser to have taken it.
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    preparing.value = "";
  } catch {
    preparing.value = "The collector does not answer. Check that it runs, then export again.";
  }
}

function Preparing() {
  const said = preparing.value;
  return <span class="preparing" role="status">{typeof said === "string" ? said : `${said.message} ${said.hint}`}</span>;
}

/**
 * Copies a short link to the view, its relative times nailed down, so that it shows the same thing tomorrow; behind
 * it the long address, which needs no store, and the question of the page as commands.
 */
export function Share({ question, answered = null }: { question: Question; answered?: readonly Side[] | null }) {
  const collector = () => window.location.origin + PREFIX.slice(0, -1);
  const long = () => collector() + path();
  const short = async () => {
    const link = await linkTo(path());
    await copy(link === null ? long() : collector() + link, link === null ? "Long link" : "Link");
  };
  const asked = () => pinned(question, answered, Date.now() / 1000);
  return (
    <span class="exports">
      <button type="button" onClick={() => void short()} title="Copy a short link to this view, with fixed times">Share</button>
      <Choices text="▾" label="More ways to share">
        <CopyButton text={long} what="Long link">Copy the long link</CopyButton>
        <CopyButton text={() => curl(collector(), asked())} what="curl command">Copy as curl</CopyButton>
        <CopyButton text={() => commandLine(collector(), asked())} what="Command">Copy as CLI</CopyButton>
      </Choices>
    </span>
  );
}

/** The view with absolute times, behind the path prefix. */
function path(): string {
  const here = place.peek();
  const now = Date.now() / 1000;
  const fixed: Place = { ...here, ...absolute(rangeOf(here), now) };
  const fix = (text: string) => (text === "" ? "" : absolute({ from: text, until: text }, now).from);
  return formatPlace({ ...fixed, a_from: fix(here.a_from), a_until: fix(here.a_until), b_from: fix(here.b_from), b_until: fix(here.b_until) });
}

/** A short link; null where the collector keeps none, or cannot now. */
async function linkTo(view: string): Promise<string | null> {
  try {
    const response = await fetch(apiUrl("links"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ path: view }) });
    return response.ok ? ((await response.json()) as { path: string }).path : null;
  } catch {
    return null;
  }
}
