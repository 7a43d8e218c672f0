import { useLayoutEffect, useRef } from "preact/hooks";
import type { TransformedTree } from "../../flamegraph/tree/transformedTree.ts";
import { MAX_TRANSFORMS, describeTransform, removeTransform, type TransformStatus } from "../../flamegraph/tree/transforms.ts";
import { change, place } from "../../lib/location.ts";
import { percent } from "../../lib/numbers.ts";
import { SegmentedControl } from "../ui/Controls.tsx";
import type { MergeBy } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** How frames are distinguished, where nothing else says so, the active transforms, and their effect on the samples. */
export function TransformBar({ transformed, names, hasPicker }: { transformed: TransformedTree; names: readonly string[]; hasPicker: boolean }) {
  const { t, collapse } = place.value;
  const isTransformed = t !== "" || collapse;
  if (!hasPicker && !isTransformed) return null;
  return <div class="lensbar">{hasPicker && <FramePicker />}{isTransformed && <Breadcrumb transformed={transformed} names={names} />}</div>;
}

/** The entity that a frame stands for. */
export function FramePicker() {
  return (
    <span class="row">
      <span class="quiet" aria-hidden="true">{strings.framesBy}</span>
      <SegmentedControl<MergeBy> label={strings.framesBy} value={place.value.by} onSelect={(next) => change({ by: next, focus: "", fn: "" })}
        options={[["function", strings.functionLabel], ["line", strings.line, strings.separateLinesOfFunction], ["file", strings.file], ["package", strings.packageLabel]]} />
    </span>
  );
}

function Breadcrumb({ transformed, names }: { transformed: TransformedTree; names: readonly string[] }) {
  const { t, collapse } = place.value;
  const row = useRef<HTMLElement>(null);
  const hasRemoved = useRef(false);
  // The button that was pressed is gone: the keyboard goes on from the first that is left.
  useLayoutEffect(() => {
    if (hasRemoved.current) row.current?.querySelector("button")?.focus();
    hasRemoved.current = false;
  }, [t, collapse]);
  const applyTransforms = (next: string, repeats = collapse) => {
    hasRemoved.current = true;
    change({ t: next, collapse: repeats, focus: "" });
  };
  const ineffective = transformed.steps.filter(({ fate }) => fate !== "made");
  return (
    <>
      <nav class="transforms" aria-label={strings.transforms} ref={row}>
        <span class="quiet">{strings.transformsHeading}</span>
        <button type="button" title={strings.removeAllTransforms} onClick={() => applyTransforms("", false)}>{strings.all}</button>
        <ol>
          {transformed.steps.map(({ transform, fate }, at) => (
            <li key={`${at} ${transform.text}`}>
              <button type="button" class={fate} title={`Remove: ${describeTransform(transform).slice(0, 400)}`} onClick={() => applyTransforms(removeTransform(t, at))}>
                <bdi>{describeTransform(transform).slice(0, 200)}</bdi>
                {fate !== "made" && <span>{" "}{strings.noEffect}</span>}
                <span class="unseen">{strings.remove}</span> <span aria-hidden="true">×</span>
              </button>
            </li>
          ))}
          {collapse && (
            <li>
              <button type="button" title={strings.removeFoldRecursion} onClick={() => applyTransforms(t, false)}>
                {strings.foldRecursionEntry(<span class="unseen">{strings.remove}</span>, <span aria-hidden="true">×</span>)}
              </button>
            </li>
          )}
        </ol>
      </nav>
      <p class="left" role="status">{describeOmitted(transformed, names)}</p>
      {ineffective.length > 0 && (
        <ul class="notices">
          {ineffective.map(({ transform, fate }, at) => (
            <li key={`${at} ${transform.text}`}>
              {strings.transformWithoutEffect(<bdi><code>{describeTransform(transform).slice(0, 200)}</code></bdi>, STATUS_TEXT[fate])}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

const STATUS_TEXT: Readonly<Record<TransformStatus, string>> = {
  made: "",
  unknown: strings.unknownTransform,
  missing: strings.matchesNothingInProfile,
  beyond: strings.beyondFirst(MAX_TRANSFORMS),
};

/** What transforms left out, in words; nothing when they left nothing out. */
function describeOmitted({ omitted }: TransformedTree, names: readonly string[]): string {
  if (omitted.every(({ samples }) => samples === 0)) return "";
  const parts = omitted.map(({ samples, total }, side) =>
    strings.hiddenSamples(names.length > 1 ? `${"AB"[side]} ` : "", percent(total > 0 ? samples / total : 0), samples, total));
  return strings.hiddenNote(parts.join(", "));
}
