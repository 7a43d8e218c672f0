import type { AnswerBasis, Side } from "../api/answers.ts";
import { percent } from "../lib/numbers.ts";
import { totalSamples } from "./qualitySummary.ts";
import { formatClock } from "../lib/times.ts";
import * as strings from "../strings/qualityStrings.ts";

/** Limits of the data that a reader must know, one sentence each. The checks of a verdict cover comparability. */
export function dataQualityNotices(sides: readonly Side[], names: readonly string[], basis: AnswerBasis): string[] {
  const notices: string[] = [];
  if (basis.unreadable_segments) {
    notices.push(strings.unreadableSegments(basis.unreadable_segments));
  }
  if (basis.unresolved_windows) {
    notices.push(strings.unresolvedWindows(basis.unresolved_windows));
  }
  const byDay = basis.resolutions?.find(({ resolution }) => resolution === "day");
  if (byDay) {
    notices.push(strings.coarseWindows(byDay.windows, formatClock(byDay.from), formatClock(byDay.until)));
  }
  const mixed = (what: string, pick: (side: Side) => readonly string[], why: string) => {
    if (sides.some((side) => pick(side).length > 1)) notices.push(strings.sampledWithDifferent(what, [...new Set(sides.flatMap(pick))].sort().join(", "), why));
  };
  mixed("samplers", (side) => side.samplers, strings.frameNamesCanDiffer);
  mixed(strings.samplingModes, (side) => side.modes, strings.theyDifferInWaiting);
  mixed("readers", (side) => side.quality.readers, strings.doubtDifferenceBeginsWith);
  mixed(strings.pythonVersions, (side) => side.python_versions, strings.libraryFramesDiffer);
  sides.forEach((side, at) => {
    const name = sides.length > 1 ? names[at] : "";
    if (side.modes.includes("nonblocking")) notices.push(strings.stacksMayBeWrong(name));
    const missing = side.missing_states.filter((state) => state === "idle" || state === "gil");
    if (missing.length > 0) {
      notices.push(strings.missingStates(name, missing.join(" and "), affectedTypes(missing)));
    }
    if (side.truncated_samples > 0) {
      notices.push(strings.truncatedShare(name, percent(side.truncated_samples / Math.max(totalSamples(side.states), side.truncated_samples))));
    }
    if (sides.length > 1 && side.pods === 0) notices.push(strings.noWindowsInRange(name));
  });
  return notices;
}

/** The types that lack samples when these states were not recorded. */
function affectedTypes(missing: readonly string[]): string {
  const types = [...(missing.includes("idle") ? [strings.wallTime] : []), ...(missing.includes("gil") ? [strings.gilTime] : [])];
  return types.length > 0 ? `${types.join(" and ")} ${types.length > 1 ? "read" : "reads"}` : strings.typesNeedThemRead;
}
