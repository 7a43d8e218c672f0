import type { Verdict } from "../../api/verdict.ts";
import { change, place } from "../../lib/location.ts";
import type { Normalisation, ViewName } from "../../lib/viewOptions.ts";
import { SegmentedControl, Toggle } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { ColourPicker } from "./ColourPicker.tsx";
import { AppOnlyToggle } from "./ProfileControls.tsx";
import { normalisationOf } from "./ProfileView.tsx";
import { FramePicker } from "./TransformBar.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

const VIEWS: readonly (readonly [ViewName, string])[] = [
  ["flame", strings.graph], ["sides", strings.sideBySide], ["table", strings.table], ["both", strings.both], ["tree", strings.tree], ["sandwich", strings.sandwich],
];

/** How a comparison is looked at. In a file (`isOffline`) there are no lines. */
export function ComparisonControls({ verdict, isOffline = false }: { verdict: Verdict | null; isOffline?: boolean }) {
  const { view, sig, raw, collapse } = place.value;
  return (
    <>
      <SegmentedControl<ViewName> label={strings.view} value={view} onSelect={(next) => change({ view: next })} options={isOffline ? VIEWS : [...VIEWS, ["lines", strings.lines]]} />
      <SegmentedControl<Normalisation> label={strings.normaliseBy} value={normalisationOf(verdict)} onSelect={(next) => change({ norm: next })}
        options={[["rate", verdict?.method.unit === "request" ? strings.perRequest : strings.perPod], ["share", strings.percentOfTotal]]} />
      <Toggle isOn={sig} title={strings.hideNoiseHint} onToggle={() => change({ sig: !sig })}>{strings.hideNoise}</Toggle>
      <AppOnlyToggle />
      <Dropdown isText text={strings.moreMenu} label={strings.moreOptions}>
        {view === "sides" && <ColourPicker />}
        <FramePicker />
        <Toggle isOn={collapse} title={strings.foldRecursionHint} onToggle={() => change({ collapse: !collapse })}>{strings.foldRecursion}</Toggle>
        {verdict && <Toggle isOn={raw} title={strings.showAllDifferencesHint} onToggle={() => change({ raw: !raw })}>{strings.showAllDifferences}</Toggle>}
      </Dropdown>
    </>
  );
}
