import { place } from "../../lib/location.ts";
import { parseSources, sourceUrl } from "../../flamegraph/analysis/sourceLinks.ts";
import { sourceVersion } from "./sharedView.ts";
import * as strings from "../../strings/applicationStrings.ts";

/** What the collector says of source code; it does not change while a page is open. */
const sources = parseSources(document.querySelector<HTMLMetaElement>('meta[name="sidelight-sources"]')?.content ?? "");

/** The address of a frame's source code, or null. */
export const sourceOf = (frame: string): string | null => sourceUrl(sources, place.value.service, sourceVersion(), frame);

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
