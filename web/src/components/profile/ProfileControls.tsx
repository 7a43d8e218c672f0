import { change, place } from "../../lib/location.ts";
import type { ViewName } from "../../lib/viewOptions.ts";
import { SegmentedControl, Toggle } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { FramePicker } from "./TransformBar.tsx";
import * as strings from "../../strings/profileStrings.tsx";

const VIEWS: readonly (readonly [ViewName, string])[] = [["flame", strings.flameGraph], ["table", strings.table], ["sandwich", strings.sandwich]];

/** How a profile is looked at. In a file (`isOffline`) there are no lines. */
export function ProfileControls({ isOffline = false }: { isOffline?: boolean }) {
  const { view, collapse } = place.value;
  return (
    <>
      <SegmentedControl<ViewName> label={strings.view} value={view === "sides" ? "flame" : view} onSelect={(next) => change({ view: next })} options={isOffline ? VIEWS : [...VIEWS, ["lines", strings.lines]]} />
      <Dropdown isText text={strings.moreMenu} label={strings.moreOptions}>
        <FramePicker />
        <Toggle isOn={collapse} title={strings.foldRecursionHint} onToggle={() => change({ collapse: !collapse })}>{strings.foldRecursion}</Toggle>
      </Dropdown>
    </>
  );
}
