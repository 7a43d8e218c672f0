import { change, place } from "../../lib/location.ts";
import { linkedSort, type ChildOrder, type ViewName } from "../../lib/viewOptions.ts";
import { SegmentedControl, Toggle } from "../ui/Controls.tsx";
import { Dropdown } from "../ui/Dropdown.tsx";
import { FramePicker } from "./TransformBar.tsx";
import * as strings from "../../strings/profileStrings.tsx";

const VIEWS: readonly (readonly [ViewName, string, string?])[] = [
  ["flame", strings.graph], ["table", strings.table], ["both", strings.both, strings.bothHint], ["tree", strings.tree, strings.treeHint], ["sandwich", strings.sandwich, strings.sandwichHint],
];

/** How a profile is looked at. In a file (`isOffline`) there are no lines; groups are of a service (`hasGroups`). */
export function ProfileControls({ isOffline = false, hasGroups = false }: { isOffline?: boolean; hasGroups?: boolean }) {
  const { view } = place.value;
  return (
    <>
      <SegmentedControl<ViewName> label={strings.view} value={view === "sides" ? "flame" : view} onSelect={(next) => change({ view: next })} options={isOffline ? VIEWS : [...VIEWS, ["lines", strings.lines], ...(hasGroups ? [["breakdown", strings.breakdown, strings.breakdownHint] as const] : [])]} />
      <AppOnlyToggle />
      <MoreMenu />
    </>
  );
}

/** Folds the frames of libraries in one press. */
export function AppOnlyToggle() {
  const { app } = place.value;
  return <Toggle isOn={app} title={strings.appOnlyHint} onToggle={() => change({ app: !app, focus: "" })}>{strings.appOnly}</Toggle>;
}

/** What few choose: the entity of a frame, and recursion. */
export function MoreMenu() {
  const { collapse } = place.value;
  return (
    <Dropdown isText text={strings.moreMenu} label={strings.moreOptions}>
      <FramePicker />
      <Toggle isOn={collapse} title={strings.foldRecursionHint} onToggle={() => change({ collapse: !collapse })}>{strings.foldRecursion}</Toggle>
    </Dropdown>
  );
}

type Direction = "down" | "up" | "flame";

const DIRECTIONS: readonly (readonly [Direction, string, string])[] = [
  ["down", strings.topDown, strings.topDownHint], ["up", strings.bottomUp, strings.bottomUpHint], ["flame", strings.flame, strings.flameHint],
];

/** Which way calls go, and the order of callees. A call tree has no roots to put at the bottom. */
export function DirectionMenu({ hasRoots = true }: { hasRoots?: boolean }) {
  const { invert, roots, view } = place.value;
  const direction: Direction = invert ? "up" : roots === "bottom" && hasRoots ? "flame" : "down";
  const name = DIRECTIONS.find(([each]) => each === direction)?.[1] ?? "";
  const usual = invert ? "weight" : "name";
  return (
    <Dropdown isText text={strings.directionMenu(name)} label={strings.directionAndOrder(name)} class="direction">
      <SegmentedControl<Direction> label={strings.direction} value={direction} options={hasRoots ? DIRECTIONS : DIRECTIONS.slice(0, 2)}
        onSelect={(next) => change({ invert: next === "up", roots: next === "flame" ? "bottom" : "top", ...((next === "up") === invert ? {} : { focus: "" }) })} />
      {hasRoots && (
        <SegmentedControl<ChildOrder> label={strings.order} value={orderInForce()} onSelect={(next) => change({ order: next === usual ? "" : next, ...(view === "both" && { sort: next === "name" ? "+name" : "-total" }) })}
          options={[["weight", strings.heaviestFirst], ["name", strings.byName]]} />
      )}
    </Dropdown>
  );
}

/** The order of callees: beside a table that of its rows. */
function orderInForce(): ChildOrder {
  const { order, invert, view, sort } = place.value;
  if (view === "both") return linkedSort(sort) === "+name" ? "name" : "weight";
  return order || (invert ? "weight" : "name");
}

/** Whether the heaviest callees come first. */
export const isByWeight = (): boolean => orderInForce() === "weight";
