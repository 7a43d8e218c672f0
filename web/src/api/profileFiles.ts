import { signal } from "../lib/signals.ts";
import type { FlameAnswer } from "./answers.ts";
import { apiUrl, parseFailure } from "./request.ts";

/** The most files that a page shows: two sides of a comparison. */
export const MOST_FILES = 2;

/** The files that were chosen, in the order of their sides. They are only in this page's memory. */
export const chosenFiles = signal<readonly File[]>([]);

/** The files after more were chosen: the last two, as the sides of a comparison. */
export const addFiles = <Each>(files: readonly Each[], more: readonly Each[]): readonly Each[] =>
  (more.length >= MOST_FILES ? more.slice(0, MOST_FILES) : [...files, ...more].slice(-MOST_FILES));

/** The path and the parameters of the request, and the fields of its form. */
export function fileRequest(names: readonly string[], { nodes, withLines }: { nodes: string; withLines: boolean }): { path: string; parameters: Record<string, string>; fields: readonly string[] } {
  const fields = names.length === 1 ? ["file"] : ["baseline", "comparison"];
  const parameters = Object.fromEntries(fields.map((field, at) => [`${field}_name`, names[at].slice(0, 200)]));
  return { path: names.length === 1 ? "files/flamegraph" : "files/compare", fields, parameters: { ...parameters, nodes, ...(withLines && names.length === 1 && { lines: "1" }) } };
}

/** A pasted text as a file. */
export const pastedFile = (text: string, name: string): File => new File([text], name, { type: "text/plain" });

/** Sends files, and returns the answer on them. Throws Failure. */
export async function sendFiles(files: readonly File[], nodes: string, withLines: boolean, signal: AbortSignal): Promise<FlameAnswer> {
  const { path, parameters, fields } = fileRequest(files.map(({ name }) => name), { nodes, withLines });
  const form = new FormData();
  fields.forEach((field, at) => form.append(field, files[at]));
  const response = await fetch(apiUrl(path, parameters), { method: "POST", body: form, signal, headers: { Accept: "application/json" } });
  if (!response.ok) throw await parseFailure(response);
  return (await response.json()) as FlameAnswer;
}
