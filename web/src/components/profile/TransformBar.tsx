import { useLayoutEffect, useRef } from "preact/hooks";
import type { Looked } from "../../flamegraph/tree/transformedTree.ts";
import { MOST_TRANSFORMS, transformWords, without, type Fate } from "../../flamegraph/tree/transforms.ts";
import { change, place } from "../../lib/location.ts";
import { normWords } from "../../lib/normalisation.ts";
import { count, percent } from "../../lib/numbers.ts";
import { Segments } from "../ui/Controls.tsx";
import type { MergeBy } from "../../lib/viewOptions.ts";

/** What frames are told apart by, what two sides are compared in, the transforms in force, and what they did to the samples. */
export function LensBar({ looked, names, perRequest }: { looked: Looked; names: readonly string[]; perRequest: boolean }) {
  const { by, t, collapse, norm, view } = place.value;
  return (
    <div class="lensbar">
      <span class="quiet" aria-hidden="true">Frames by</span>
      <Segments<MergeBy> label="Frames by" value={by} choose={(next) => change({ by: next, focus: "", fn: "" })}
        options={[["function", "Function"], ["line", "Line", "Tell a function's lines apart"], ["file", "File"], ["package", "Package"]]} />
      {names.length > 1 && <span class="quiet norm">{normWords(norm, view)}{norm === "rate" && view !== "lines" && perRequest && " B is shown as if it had served as many requests as A."}</span>}
      {t === "" && !collapse ? null : <Breadcrumb looked={looked} names={names} />}
    </div>
  );
}

function Breadcrumb({ looked, names }: { looked: Looked; names: readonly string[] }) {
  const { t, collapse } = place.value;
  const row = useRef<HTMLElement>(null);
  const removed = useRef(false);
  // The button that was pressed is gone: the keyboard goes on from the first that is left.
  useLayoutEffect(() => {
    if (removed.current) row.current?.querySelector("button")?.focus();
    removed.current = false;
  }, [t, collapse]);
  const go = (next: string, repeats = collapse) => {
    removed.current = true;
    change({ t: next, collapse: repeats, focus: "" });
  };
  const idle = looked.steps.filter(({ fate }) => fate !== "made");
  return (
    <>
      <nav class="transforms" aria-label="Transforms" ref={row}>
        <span class="quiet">Transforms:</span>
        <button type="button" title="Remove all transforms" onClick={() => go("", false)}>all</button>
        <ol>
          {looked.steps.map(({ transform, fate }, at) => (
            <li key={`${at} ${transform.text}`}>
              <button type="button" class={fate} title={`Remove: ${transformWords(transform).slice(0, 400)}`} onClick={() => go(without(t, at))}>
                <bdi>{transformWords(transform).slice(0, 200)}</bdi>
                {fate !== "made" && <span> · does nothing</span>}
                <span class="unseen">, remove</span> <span aria-hidden="true">×</span>
              </button>
            </li>
          ))}
          {collapse && (
            <li>
              <button type="button" title="Remove: collapse recursion (r)" onClick={() => go(t, false)}>
                collapse recursion<span class="unseen">, remove</span> <span aria-hidden="true">×</span>
              </button>
            </li>
          )}
        </ol>
      </nav>
      <p class="left" role="status">{leftWords(looked, names)}</p>
      {idle.length > 0 && (
        <ul class="notices">
          {idle.map(({ transform, fate }, at) => (
            <li key={`${at} ${transform.text}`}>
              <bdi><code>{transformWords(transform).slice(0, 200)}</code></bdi>{" "}
              {IDLE[fate]}, so it does nothing.
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const IDLE: Readonly<Record<Fate, string>> = {
  made: "",
  unknown: "is no transform that these pages know",
  missing: "finds nothing in this profile",
  beyond: `is beyond the first ${MOST_TRANSFORMS}`,
};

/** What transforms left out, in words; nothing when they left nothing out. */
function leftWords({ left }: Looked, names: readonly string[]): string {
  if (left.every(({ samples }) => samples === 0)) return "";
  const each = left.map(({ samples, of }, side) =>
    `${names.length > 1 ? `${"AB"[side]} ` : ""}${percent(of > 0 ? samples / of : 0)} of the samples (${count(samples)} of ${count(of)})`);
  return `Left out: ${each.join(", ")}. Shares are of the rest.`;
}
