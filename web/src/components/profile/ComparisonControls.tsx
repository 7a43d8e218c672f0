import type { Verdict } from "../../api/verdict.ts";
import { change, place } from "../../lib/location.ts";
import type { Normalisation, ViewName } from "../../lib/viewOptions.ts";
import { SegmentedControl, Toggle } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { normalisationOf } from "./ProfileView.tsx";
import { FramePicker } from "./TransformBar.tsx";

const VIEWS: readonly (readonly [ViewName, string])[] = [["flame", "Graph"], ["sides", "Side by side"], ["table", "Table"], ["sandwich", "Sandwich"]];

/** How a comparison is looked at. In a file (`isOffline`) there are no lines. */
export function ComparisonControls({ verdict, isOffline = false }: { verdict: Verdict | null; isOffline?: boolean }) {
  const { view, sig, raw, collapse } = place.value;
  return (
    <>
      <SegmentedControl<ViewName> label="View" value={view} onSelect={(next) => change({ view: next })} options={isOffline ? VIEWS : [...VIEWS, ["lines", "Lines"]]} />
      <SegmentedControl<Normalisation> label="Normalise by" value={normalisationOf(verdict)} onSelect={(next) => change({ norm: next })}
        options={[["rate", verdict?.method.unit === "request" ? "Per request" : "Per pod"], ["share", "% of total"]]} />
      <Toggle isOn={sig} title="Hide table rows within noise and draw their frames grey" onToggle={() => change({ sig: !sig })}>Hide noise</Toggle>
      <Dropdown isText text="More ▾" label="More options">
        <FramePicker />
        <Toggle isOn={collapse} title="r: a function directly below itself is drawn once" onToggle={() => change({ collapse: !collapse })}>Fold recursion</Toggle>
        {verdict && <Toggle isOn={raw} title="Colour all differences beyond counting noise; pods and times can differ by as much" onToggle={() => change({ raw: !raw })}>Show all differences</Toggle>}
      </Dropdown>
    </>
  );
}
