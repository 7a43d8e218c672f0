import { groupOf } from "../tree/groups.ts";
import { frameParts } from "../tree/packages.ts";

/** Where source code is: URLs by service, "" for all others, and starts of paths that repositories lack. */
export interface Sources {
  readonly urls: Readonly<Record<string, string>>;
  readonly strip: readonly string[];
}

/** Reads what the collector says of source code; null where it says nothing. */
export function parseSources(text: string): Sources | null {
  // The placeholder of a page that no collector serves.
  if (!text.startsWith("{")) return null;
  const { urls, strip } = JSON.parse(text) as Sources;
  return { urls, strip };
}

/** What images and installations add in front of a file's path in its repository. */
const PREFIXES = /^.*\/(site|dist)-packages\/|^\/?(usr\/src\/app|srv\/app|home\/app|app|code|workspace|src\/app)\/(?=.*\/)|^\/+/;

/** The path of a file in its repository. */
export function repositoryPath(file: string, strip: readonly string[]): string {
  const own = [...strip].sort((a, b) => b.length - a.length).find((start) => file.startsWith(start));
  return own === undefined ? file.replace(PREFIXES, "") : file.slice(own.length).replace(/^\/+/, "");
}

/**
 * The URL of a frame's source code; null for code that is not the application's, and where no URL is set. That of the
 * service comes before the one that its pods name. Without a version it is that of the default branch, and without a
 * line that of the whole file.
 */
export function sourceUrl(sources: Sources | null, service: string, version: string, frame: string, ofPods = ""): string | null {
  const { urls, strip } = sources ?? { urls: {}, strip: [] };
  const template = Object.hasOwn(urls, service) ? urls[service] : ofPods || urls[""];
  const { file, line } = frameParts(frame);
  if (!template || file === "" || groupOf(frame) !== "application") return null;
  const path = repositoryPath(file, strip);
  if (path.split("/").includes("..")) return null;
  const values: Readonly<Record<string, string>> = {
    service: encodeURIComponent(service), version: version === "" ? "HEAD" : version.split("/").map(encodeURIComponent).join("/"),
    file: path.split("/").map(encodeURIComponent).join("/"), line: line || "1",
  };
  const text = (line === "" ? template.replace(/#.*\{line\}.*$/, "") : template).replace(/\{(service|version|file|line)\}/g, (_, name: string) => values[name]);
  return /^https?:\/\//.test(text) ? text : null;
}
