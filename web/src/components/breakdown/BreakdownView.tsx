import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { FlameAnswer, TimelineAnswer } from "../../api/answers.ts";
import type { HeatmapAnswer } from "../../api/grids.ts";
import { apiUrl } from "../../api/request.ts";
import { useAnswer } from "../../api/useAnswer.ts";
import { joinTrees, packageGroup, packageShares, stateGroup } from "../../flamegraph/analysis/groupTrees.ts";
import { transformTree } from "../../flamegraph/tree/transformedTree.ts";
import { appendTransform, transform } from "../../flamegraph/tree/transforms.ts";
import { OFF_CPU_STATES, sum, treeOf, type Tree } from "../../flamegraph/tree/tree.ts";
import { change, place } from "../../lib/location.ts";
import { percent, signedPercent } from "../../lib/numbers.ts";
import { formatRate, rateUnit } from "../../lib/quantities.ts";
import { hasSampleFilter, sampleFilterParameters, treeParameters } from "../../lib/queryParameters.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { timelineStepSeconds, type Range } from "../../lib/times.ts";
import { pageRange } from "../../lib/url.ts";
import type { ProfileType } from "../../lib/viewOptions.ts";
import { GROUPINGS, groupQuery, groupSide, inOrder, meanRate, readGroups, type Group } from "../../charts/stackedGroups.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { SetSideButtons } from "../timeline/TimelineSelection.tsx";
import { groupClass, StackedTimeline } from "./StackedTimeline.tsx";
import { SmallGraph } from "./SmallGraph.tsx";
import { stateNames } from "../../strings/frameStrings.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** The graphs that are drawn at once: each asks the collector. */
const FIRST_GROUPS = 8;
/** The call paths of a small graph. */
const NODES = "1500";

/** A profile in groups: a stacked timeline, and a small graph of each in the colours of its difference to the mean. */
export function BreakdownView({ tree }: { tree: Tree }) {
  const { group } = place.value;
  const range = pageRange(place.value);
  const by = group || "version";
  return (
    <section class="panel breakdown" aria-label={strings.breakdown}>
      <div class="tools">
        <label>{strings.breakDownBy}{" "}
          <select value={by} onChange={(event) => change({ group: event.currentTarget.value })}>
            {GROUPINGS.map((name) => <option key={name} value={name}>{strings.groupingNames[name]}</option>)}
            {!(GROUPINGS as readonly string[]).includes(by) && <option value={by}>{by.slice(0, 60)}</option>}
          </select>
        </label>
      </div>
      {by !== "package" && hasSampleFilter({ ...place.value, scope: "" }) && <p class="quiet">{strings.timelineOfAllStacks}</p>}
      {by === "state" ? <StateGroups tree={tree} range={range} /> : by === "package" ? <PackageGroups tree={tree} range={range} /> : <LabelGroups key={by} label={by} range={range} />}
    </section>
  );
}

const scopeOf = (range: Range) => ({ query: selectorOf(place.value.service, place.value.query), ...range, type: place.value.type });

function LabelGroups({ label, range }: { label: string; range: Range }) {
  const here = place.value;
  const step = String(timelineStepSeconds(range, Date.now() / 1000));
  const rows = useAnswer<HeatmapAnswer>(apiUrl("heatmap", { ...scopeOf(range), rows: label, step, limit: "40" }));
  const all = useAnswer<FlameAnswer>(apiUrl("flamegraph", { ...scopeOf(range), ...treeParameters({ ...here, nodes: "", colour: "package" }), ...sampleFilterParameters({ ...here, scope: "" }), nodes: NODES }));
  const whole = useTree(all.answer);
  const unit = rateUnit(here.type);
  return (
    <AnswerView request={rows} what={strings.theGroups}>
      {(answer) => {
        const groups = readGroups(answer, strings.otherGroups);
        const total = groups.reduce((sum, each) => sum + each.total, 0);
        // Parts of processes share the time of their pods.
        const mean = label !== "thread" && label !== "endpoint" ? meanRate(answer) : null;
        if (groups.length === 0) return <p class="quiet">{strings.noGroups}</p>;
        return (
          <>
            {groups.length === 1 && <p class="quiet">{strings.oneGroup(label)}</p>}
            <StackedTimeline groups={mergeBeyond(groups)} start={answer.start} step={answer.step_seconds ?? Number(step)} label={strings.stackedTimeline(label)} unit={unit} />
            <Cards groups={groups.filter(({ name }) => name !== strings.otherGroups)}>
              {(each, at) => (
                <Card key={each.name} at={at} name={each.name || strings.without(label)} facts={[strings.shareOfAll(percent(each.total / total)), ...(mean !== null && each.rate !== null ? [strings.groupRate(formatRate(each.rate, unit), signedPercent(each.rate / mean - 1))] : [])]}
                  actions={<>
                    <button type="button" title={strings.filterGroupHint(each.name.slice(0, 100))} onClick={() => change({ query: groupQuery(place.peek().query, label, each.name), view: "flame", focus: "" })}>{strings.filterGroup}</button>
                    <SetSideButtons to={{ side: groupSide(label, each.name), from: "", until: "" }} />
                  </>}>
                  <LabelGraph whole={whole} label={label} value={each.name} range={range} />
                </Card>
              )}
            </Cards>
          </>
        );
      }}
    </AnswerView>
  );
}

/** The groups with colours of their own, and the others as one. */
function mergeBeyond(groups: readonly Group[]): readonly Group[] {
  if (groups.length <= FIRST_GROUPS) return groups;
  const rest = groups.slice(FIRST_GROUPS);
  return [...groups.slice(0, FIRST_GROUPS), {
    name: strings.otherGroups, rate: null, total: rest.reduce((sum, { total }) => sum + total, 0),
    seconds: rest[0].seconds.map((_, step) => rest.reduce((sum, { seconds }) => sum + seconds[step], 0)),
  }];
}

/** A tree as the transforms of the address leave it. */
function useTree(answer: FlameAnswer | null): Tree | null {
  const { t, by, app } = place.value;
  return useMemo(() => answer && transformTree(treeOf(answer), t, by, app).tree, [answer, t, by, app]);
}

function LabelGraph({ whole, label, value, range }: { whole: Tree | null; label: string; value: string; range: Range }) {
  const here = place.value;
  const query = selectorOf(here.service, groupQuery(here.query, label, value));
  const request = useAnswer<FlameAnswer>(apiUrl("flamegraph", { ...scopeOf(range), query, ...treeParameters({ ...here, colour: "package" }), ...sampleFilterParameters({ ...here, scope: "" }), nodes: NODES }));
  const part = useTree(request.answer);
  const both = useMemo(() => whole && part && joinTrees(whole, part), [whole, part]);
  return <AnswerView request={request} what={strings.theGroup}>{() => both && <SmallGraph tree={both} name={value} />}</AnswerView>;
}

type StateGroup = keyof typeof strings.stateNames;
const STATE_GROUPS = Object.keys(strings.stateNames) as StateGroup[];

/** The page with one state alone: its profile type, or the part of wall time. */
const statePlace = (state: StateGroup) =>
  state === "running" || state === "cpu_wait" ? { type: "wall" as const, t: appendTransform(place.peek().t, transform("state", "function", state)) } : { type: state };

function StateGroups({ tree, range }: { tree: Tree; range: Range }) {
  const here = place.value;
  const step = String(timelineStepSeconds(range, Date.now() / 1000));
  const timelineOf = (type: ProfileType) => useAnswer<TimelineAnswer>(apiUrl("timeline", { ...scopeOf(range), type, step }));
  const [wall, cpu, gil, gilWait, offCpu] = [timelineOf("wall"), timelineOf("cpu"), timelineOf("gil"), timelineOf("gil_wait"), timelineOf("off_cpu")];
  const withStates = useAnswer<FlameAnswer>(here.type === "wall" ? apiUrl("flamegraph", { ...scopeOf(range), ...treeParameters(here), nodes: NODES, states: "1" }) : null);
  const whole = useTree(withStates.answer) ?? tree;
  return (
    <AnswerView request={wall} what={strings.theGroups}>
      {({ start, step_seconds: seconds, seconds: all, samples }) => {
        const at = (answer: TimelineAnswer | null, column: number) => answer?.seconds[answer.start.indexOf(start[column])] ?? 0;
        const group = (name: string, values: readonly number[]): Group => ({ name, seconds: values, rate: null, total: values.reduce((sum, value) => sum + value, 0) });
        const timeIn: Readonly<Record<StateGroup, (column: number) => number>> = {
          gil: (column) => at(gil.answer, column),
          running: (column) => at(cpu.answer, column) - at(gil.answer, column),
          cpu_wait: (column) => all[column] - at(cpu.answer, column) - at(gilWait.answer, column) - at(offCpu.answer, column),
          gil_wait: (column) => at(gilWait.answer, column),
          off_cpu: (column) => at(offCpu.answer, column),
        };
        const groups = STATE_GROUPS.map((state) => group(state, all.map((_, column) => Math.max(timeIn[state](column), 0))));
        const total = groups.reduce((sum, each) => sum + each.total, 0);
        if (samples.every((count) => count === 0)) return <p class="quiet">{strings.noGroups}</p>;
        return (
          <>
            <StackedTimeline groups={groups} start={start} step={seconds} label={strings.stackedTimeline("state")} unit={rateUnit("wall")} />
            {here.type !== "wall" && <p class="notices single">{strings.needsWall}{" "}<button type="button" onClick={() => change({ type: "wall" })}>{strings.showWallTime}</button></p>}
            <Cards groups={groups}>
              {(each, index) => {
                const state = each.name as StateGroup;
                const part = stateGroup(whole, state === "off_cpu" ? OFF_CPU_STATES : [state]);
                return (
                  <Card key={state} at={index} name={strings.stateNames[state]} facts={[strings.shareOfAll(percent(total > 0 ? each.total / total : 0)), ...(state === "off_cpu" ? waitReasons(whole) : [])]}
                    actions={<button type="button" title={strings.filterGroupHint(strings.stateNames[state])} onClick={() => change({ ...statePlace(state), view: "flame", focus: "" })}>{strings.filterGroup}</button>}>
                    {part && <SmallGraph tree={part} name={strings.stateNames[state]} />}
                  </Card>
                );
              }}
            </Cards>
          </>
        );
      }}
    </AnswerView>
  );
}

/** What threads wait for that use no CPU, and how long, as parts of that time. */
function waitReasons({ states: sides }: Tree): string[] {
  const states = sides?.[0];
  if (!states) return [];
  const times = OFF_CPU_STATES.map((state) => ({ state, us: sum(states[state]) }));
  const whole = sum(times.map(({ us }) => us));
  return times.filter(({ us }) => us > 0).map(({ state, us }) => strings.reasonShare(stateNames[state], percent(us / whole)));
}

function PackageGroups({ tree, range }: { tree: Tree; range: Range }) {
  const { t, app, type } = place.value;
  const step = String(timelineStepSeconds(range, Date.now() / 1000));
  const groups = useMemo(() => packageShares(tree), [tree]);
  const hasTimeline = groups.length > 0 && t === "" && !app && !tree.by && !hasSampleFilter(place.value);
  const rows = useAnswer<HeatmapAnswer>(hasTimeline ? apiUrl("heatmap", { ...scopeOf(range), rows: "package", step, limit: "40" }) : null);
  return (
    <>
      {hasTimeline && (
        <AnswerView request={rows} what={strings.theGroups}>
          {(answer) => <StackedTimeline groups={mergeBeyond(inOrder(readGroups(answer, strings.otherGroups), groups))} start={answer.start} step={answer.step_seconds ?? Number(step)} label={strings.stackedTimeline("package")} unit={rateUnit(type)} />}
        </AnswerView>
      )}
      <p class="quiet">{groups.length === 0 ? strings.noGroups : hasTimeline ? strings.selfTimeShares : strings.noTransformedTimeline}</p>
      <Cards groups={groups}>
        {({ name, share }, at) => <PackageCard key={name} tree={tree} at={at} name={name} share={share} />}
      </Cards>
    </>
  );
}

function PackageCard({ tree, at, name, share }: { tree: Tree; at: number; name: string; share: number }) {
  const both = useMemo(() => packageGroup(tree, name), [tree, name]);
  return (
    <Card at={at} name={name || strings.without("package")} facts={[strings.shareOfAll(percent(share))]}
      actions={name !== "" && <button type="button" onClick={() => change({ t: appendTransform(place.peek().t, transform("with", "package", name)), view: "flame", focus: "" })}>{strings.showPackage}</button>}>
      <SmallGraph tree={both} name={name} />
    </Card>
  );
}

/** The first groups, the others on demand. */
function Cards<One>({ groups, children }: { groups: readonly One[]; children: (group: One, at: number) => ComponentChildren }) {
  const [shown, setShown] = useState(FIRST_GROUPS);
  return (
    <>
      <ul class="groups">{groups.slice(0, shown).map(children)}</ul>
      {groups.length > shown && <button type="button" onClick={() => setShown(shown + FIRST_GROUPS)}>{strings.showMore(Math.min(groups.length - shown, FIRST_GROUPS))}</button>}
    </>
  );
}

function Card({ at, name, facts, actions, children }: { at: number; name: string; facts: readonly string[]; actions: ComponentChildren; children: ComponentChildren }) {
  return (
    <li class="group-card" aria-label={name.slice(0, 100)}>
      <h2><span class={`swatch ${groupClass(at)}`} aria-hidden="true" /><bdi>{name.slice(0, 200)}</bdi></h2>
      <p>{facts.join(" · ")}</p>
      {children}
      <p class="row">{actions}</p>
    </li>
  );
}
