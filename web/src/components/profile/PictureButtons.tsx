import { useState } from "preact/hooks";
import type { Side } from "../../api/answers.ts";
import { pictureSvg, picturePng, type Caption } from "../../flamegraph/render/pictureFile.ts";
import type { VisibleGraph } from "../../flamegraph/render/picture.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { place } from "../../lib/location.ts";
import { microseconds, percent } from "../../lib/numbers.ts";
import { toAbsolute, rfc3339, toEpochSeconds } from "../../lib/times.ts";
import { theme } from "../../lib/theme.ts";
import { describeScale } from "./Legends.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { pageRange } from "../../lib/url.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** What of an answer's side a picture says. */
export type PictureSide = Pick<Side, "selector" | "from" | "until" | "samples">;

const BACKGROUNDS = { light: { ground: 0xffffff, text: 0x16191f }, dark: { ground: 0x171a20, text: 0xe8eaef } } as const;

/** Saves what is in view as files that say by themselves what they show: one for each graph. */
export function PictureButtons({ views, captionFor, sides, legend }: {
  views: () => readonly VisibleGraph[];
  /** The title and lines of one of them, without the sides. */
  captionFor: (at: number) => { readonly title: string; readonly lines: readonly string[] };
  sides: readonly PictureSide[]; legend: () => Caption["legend"];
}) {
  const [light, setLight] = useState(false);
  const save = async (kind: "svg" | "png") => {
    const all = views();
    for (const [at, view] of all.entries()) {
      const { title, lines } = captionFor(at);
      const caption = { title, lines: [...lines, ...sideLines(sides)], legend: legend(), ...BACKGROUNDS[light ? "light" : theme.peek()] };
      const svg = pictureSvg(view, caption);
      const blob = kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await picturePng(svg);
      const name = place.peek().service.replace(/[^\w.-]+/g, "_").slice(0, 80) || "profile";
      download(blob, `${name}${all.length > 1 ? `-${"ab"[at]}` : ""}.${kind}`);
    }
  };
  useKeys({ p: () => void save("png"), P: () => void save("svg") });
  return (
    <span class="picture-files" role="group" aria-label={strings.pictureOfView}>
      <span class="quiet">{strings.picture}</span>
      <button type="button" title={strings.savePngHint} onClick={() => void save("png")}>{strings.png}</button>
      <button type="button" title={strings.saveSvgHint} onClick={() => void save("svg")}>{strings.svg}</button>
      {theme.value === "dark" && (
        <label class="check"><input type="checkbox" checked={light} onChange={(event) => setLight(event.currentTarget.checked)} />{" "}{strings.onWhite}</label>
      )}
    </span>
  );
}

/** What a picture is of: its title, its units, what is zoomed into, searched for and changed. */
export function buildCaption(metrics: TreeMetrics, names: readonly string[], focus: number, at: number, matched: { frames: number; share: number } | null) {
  const { service, capture, type, query, view, q, invert, collapse } = place.peek();
  const { tree, us } = metrics;
  const isComparison = names.length === 2;
  const quantity = { cpu: strings.cpuTime, wall: strings.wallTime, gil: strings.timeHoldingGil, gil_wait: strings.timeWaitingForGil, off_cpu: strings.timeOffCpu, tasks: strings.timeOfTasks }[type];
  const title = !isComparison ? quantity : view === "sides" ? strings.sideBySide(quantity, names[at])
    : strings.changeTitle(quantity, names[0], names[1], describeScale(metrics));
  const shares = us.map((side, at) => `${isComparison ? `${"AB"[at]} ` : ""}${microseconds(side[focus])}${side[0] > 0 ? strings.ofWhole(percent(side[focus] / side[0])) : ""}`);
  const lines = [
    strings.inView(focus === 0 ? "all" : tree.names[tree.name[focus]], shares.join(", ")),
    ...(query === "" ? [] : [`Filter: ${query}`]),
    ...(matched ? [strings.searchFrame(q, matched.frames, percent(matched.share))] : []),
    ...(invert ? [strings.bottomUpNote] : []),
    ...(collapse ? [strings.recursionFolded] : []),
  ];
  return { title: `${service || strings.capture(capture)}: ${title}`, lines };
}

function sideLines(sides: readonly PictureSide[]): string[] {
  if (sides.length === 0) {
    const { from, until } = toAbsolute(pageRange(place.peek()), Date.now() / 1000);
    return [strings.fromTo(from, until)];
  }
  return sides.map(({ selector, from, until, samples }, at) =>
    strings.sideData(sides.length > 1 ? `${"AB"[at]}: ` : "", selector, rfc3339(toEpochSeconds(from)), rfc3339(toEpochSeconds(until)), samples));
}

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
