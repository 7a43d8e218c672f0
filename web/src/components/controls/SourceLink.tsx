import { place } from "../../lib/location.ts";
import { parseSources, sourceUrl } from "../../flamegraph/analysis/sourceLinks.ts";
import { signal } from "../../lib/signals.ts";
import { sourceVersion } from "./sharedView.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** What the collector says of source code; it does not change while a page is open. */
const sources = parseSources(document.querySelector<HTMLMetaElement>('meta[name="sidelight-sources"]')?.content ?? "");

/** The URL of source code that pods of a service name in their annotation. */
export const annotatedSource = signal({ service: "", url: "" });

/** The address of a frame's source code, or null. */
export function sourceOf(frame: string): string | null {
  const { service } = place.value;
  const { service: annotated, url } = annotatedSource.value;
  return sourceUrl(sources, service, sourceVersion(), frame, annotated === service ? url : "");
}

/** The item of a frame's menu that opens its source code in another tab; none where it has none. */
export function sourceItems(frame: string): readonly { readonly label: string; readonly act: () => void }[] {
  const url = sourceOf(frame);
  return url === null ? [] : [{ label: strings.openSource, act: () => void window.open(url, "_blank", "noopener,noreferrer") }];
}

/** A link to a frame's source code; nothing where it has none. */
export function SourceLink({ frame, isButton = false }: { frame: string; isButton?: boolean }) {
  const url = sourceOf(frame);
  return url === null ? null : <a href={url} target="_blank" rel="noopener noreferrer" class={isButton ? "button" : "source"} title={url}>{strings.source} ↗</a>;
}
