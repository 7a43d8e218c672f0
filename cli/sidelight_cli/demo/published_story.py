"""Compare a run's measurements with the published story about Tornado and aiohttp.

The published claims are: stacks of an aiohttp service were about 15 frames deep and mostly idle. Stacks of
its predecessor, a Tornado service, were about 30 frames deep and less idle. The move halved the CPU time.
This module checks each claim against the measurements of a run and reports only what they support.

Two mean depths, or two idle shares, differ if their difference exceeds 1.96 times its standard error (the
two-sided 5 % level), with all samples treated as independent. CPU time comes from the kernel and has no
sampling error; differences below a tenth count as none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sidelight_cli.demo.demo_table import format_percent
from sidelight_cli.demo.measurement import MeasuredVersion
from sidelight_cli.demo.versions import AIOHTTP, AIOHTTP_UVLOOP, TORNADO_ASYNC, TORNADO_COROUTINES

PUBLISHED_AIOHTTP_DEPTH = 15
PUBLISHED_TORNADO_DEPTH = 30
ABOUT_TWICE = 1.6
ABOUT_HALF = 0.6
SAME_TOLERANCE = 0.1
DEPTH_TOLERANCE = 0.25
CONTENTION_THRESHOLD = 0.03
MAX_READY_SHARE = 0.1
MIN_LOAD_RATIO = 0.98
Z = 1.96


class ClaimVerdict(StrEnum):
    """Whether the measurements support a claim of the story."""

    AGREES = "agrees"
    PARTLY_AGREES = "partly agrees"
    DIFFERS = "differs"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class StoryFinding:
    """A claim of the story checked against the measurements.

    `verdict` is None for findings that the story makes no claim about.
    """

    subject: str
    verdict: ClaimVerdict | None
    text: str

    def __str__(self) -> str:
        return (
            f"{self.subject} ({self.verdict}): {self.text}"
            if self.verdict
            else f"{self.subject}: {self.text}"
        )


def evaluate_story(measured: Sequence[MeasuredVersion]) -> list[StoryFinding]:
    """Return all findings that the measured versions allow, in the story's order."""
    by_name = {version.version.name: version for version in measured}
    findings: list[StoryFinding | None] = [_check_comparability(measured), _check_contention(measured)]
    tornados = [by_name[name] for name in (TORNADO_COROUTINES, TORNADO_ASYNC) if name in by_name]
    if tornados and AIOHTTP in by_name:
        aiohttp = by_name[AIOHTTP]
        findings += [
            _evaluate_depth(tornados, aiohttp),
            _evaluate_frames(tornados, aiohttp),
            _evaluate_waiting(aiohttp),
            _check_load("Idle", measured) or _evaluate_idle(tornados, aiohttp),
            _check_load("CPU", measured) or _evaluate_cpu(tornados, aiohttp),
            _describe_tasks(aiohttp),
        ]
    findings += [
        _compare_versions(by_name, "async and await", TORNADO_COROUTINES, TORNADO_ASYNC),
        _compare_versions(by_name, "uvloop", AIOHTTP, AIOHTTP_UVLOOP),
        _compare_latency(measured),
    ]
    return [finding for finding in findings if finding is not None]


def _evaluate_depth(tornados: Sequence[MeasuredVersion], aiohttp: MeasuredVersion) -> StoryFinding:
    baseline = aiohttp.profile.depth
    verdicts, parts = [], []
    for tornado in tornados:
        depth = tornado.profile.depth
        if baseline.mean is None or depth.mean is None:
            return StoryFinding("Depth", ClaimVerdict.INCONCLUSIVE, "some version has no busy sample.")
        verdicts.append(
            _judge_depth(
                depth.mean / baseline.mean,
                depth.mean - baseline.mean,
                depth.standard_error,
                baseline.standard_error,
            )
        )
        parts.append(f"{tornado.version.name} {depth.mean:.1f} ({depth.mean / baseline.mean:.2f} times)")
    verdict = combine_verdicts(verdicts)
    facts = f"busy stacks of {AIOHTTP} are {baseline.mean:.1f} frames deep on average, {' and '.join(parts)}"
    ends = {
        ClaimVerdict.AGREES: "Tornado is about twice as deep, as published.",
        ClaimVerdict.PARTLY_AGREES: (
            "the difference is there, but smaller than published or not in both styles."
        ),
        ClaimVerdict.DIFFERS: "Tornado is not deeper, against what was published.",
        ClaimVerdict.INCONCLUSIVE: "too close to distinguish with so few busy samples.",
    }
    return StoryFinding("Depth", verdict, f"{facts}: {ends[verdict]}")


def _judge_depth(ratio: float, difference: float, *errors: float) -> ClaimVerdict:
    if not is_significant(difference, *errors):
        return ClaimVerdict.INCONCLUSIVE
    if ratio >= ABOUT_TWICE:
        return ClaimVerdict.AGREES
    return ClaimVerdict.PARTLY_AGREES if ratio > 1 else ClaimVerdict.DIFFERS


def _evaluate_frames(tornados: Sequence[MeasuredVersion], aiohttp: MeasuredVersion) -> StoryFinding | None:
    expected = [
        (aiohttp, PUBLISHED_AIOHTTP_DEPTH),
        *((tornado, PUBLISHED_TORNADO_DEPTH) for tornado in tornados),
    ]
    ratios = [
        version.profile.depth.mean / depth
        for version, depth in expected
        if version.profile.depth.mean is not None
    ]
    if len(ratios) < len(expected):
        return None
    published = f"about {PUBLISHED_AIOHTTP_DEPTH} and {PUBLISHED_TORNADO_DEPTH} frames"
    if all(abs(ratio - 1) <= DEPTH_TOLERANCE for ratio in ratios):
        return StoryFinding(
            "Frames", ClaimVerdict.AGREES, f"the depths themselves are near the published ones, {published}."
        )
    spread = f"{_format_percent(min(ratios))} to {_format_percent(max(ratios))} of the published {published}"
    if max(ratios) < 1:
        return StoryFinding("Frames", ClaimVerdict.DIFFERS, f"these versions stack fewer frames, {spread}.")
    return StoryFinding("Frames", ClaimVerdict.DIFFERS, f"the depths are {spread}.")


def _evaluate_waiting(aiohttp: MeasuredVersion) -> StoryFinding:
    idle = aiohttp.profile.idle_share
    if idle is None:
        return StoryFinding(
            "Waiting", ClaimVerdict.INCONCLUSIVE, f"the sampler could not see when {AIOHTTP} waited."
        )
    if idle > 0.5:
        return StoryFinding(
            "Waiting", ClaimVerdict.AGREES, f"{AIOHTTP} is mostly idle, as published: {format_percent(idle)}."
        )
    return StoryFinding(
        "Waiting", ClaimVerdict.DIFFERS, f"{AIOHTTP} is idle only {format_percent(idle)} of the time."
    )


def _evaluate_idle(tornados: Sequence[MeasuredVersion], aiohttp: MeasuredVersion) -> StoryFinding:
    baseline = aiohttp.profile.idle_share
    verdicts, parts = [], []
    for tornado in tornados:
        share = tornado.profile.idle_share
        if baseline is None or share is None:
            return StoryFinding(
                "Idle", ClaimVerdict.INCONCLUSIVE, "the sampler could not see when some version waited."
            )
        errors = (
            compute_share_error(share, tornado.profile.samples),
            compute_share_error(baseline, aiohttp.profile.samples),
        )
        if not is_significant(baseline - share, *errors):
            verdicts.append(ClaimVerdict.INCONCLUSIVE)
        else:
            verdicts.append(ClaimVerdict.AGREES if share < baseline else ClaimVerdict.DIFFERS)
        parts.append(f"{tornado.version.name} {format_percent(share)}")
    verdict = combine_verdicts(verdicts)
    facts = f"{AIOHTTP} idles {format_percent(baseline)} of the time, {' and '.join(parts)}"
    ends = {
        ClaimVerdict.AGREES: "Tornado idles less, as published.",
        ClaimVerdict.PARTLY_AGREES: "Tornado idles less, as published, but not in both styles.",
        ClaimVerdict.DIFFERS: "Tornado does not idle less, against what was published.",
        ClaimVerdict.INCONCLUSIVE: "too close to distinguish with so few samples.",
    }
    return StoryFinding("Idle", verdict, f"{facts}: {ends[verdict]}")


def _evaluate_cpu(tornados: Sequence[MeasuredVersion], aiohttp: MeasuredVersion) -> StoryFinding:
    baseline = aiohttp.profile.cpu_cores
    verdicts, parts = [], []
    for tornado in tornados:
        cores = tornado.profile.cpu_cores
        if not cores or baseline is None:
            return StoryFinding(
                "CPU", ClaimVerdict.INCONCLUSIVE, "the CPU time of some version is not known."
            )
        ratio = baseline / cores
        verdicts.append(_judge_cpu(ratio))
        parts.append(f"{ratio:.2f} times that of {tornado.version.name} ({format_percent(cores)})")
    verdict = combine_verdicts(verdicts)
    facts = f"at the same load {AIOHTTP} takes {format_percent(baseline)} of a core, {' and '.join(parts)}"
    ends = {
        ClaimVerdict.AGREES: "moving about halves it, as published.",
        ClaimVerdict.PARTLY_AGREES: "moving saves CPU, as published, but not half of it throughout.",
        ClaimVerdict.DIFFERS: "moving saves nothing, against what was published.",
        ClaimVerdict.INCONCLUSIVE: "",
    }
    return StoryFinding("CPU", verdict, f"{facts}: {ends[verdict]}")


def _judge_cpu(ratio: float) -> ClaimVerdict:
    if ratio <= ABOUT_HALF:
        return ClaimVerdict.AGREES
    return ClaimVerdict.PARTLY_AGREES if ratio < 1 - SAME_TOLERANCE else ClaimVerdict.DIFFERS


def _describe_tasks(aiohttp: MeasuredVersion) -> StoryFinding | None:
    tasks, cores = aiohttp.profile.tasks, aiohttp.profile.cpu_cores
    if tasks is None or cores is None:
        return None
    facts = (
        f"{AIOHTTP} has {tasks.mean:.1f} asyncio tasks on average and takes {format_percent(cores)} of a core"
    )
    if tasks.ready <= MAX_READY_SHARE * tasks.mean:
        return StoryFinding(
            "Tasks", None, f"{facts}: nearly all of them wait for something other than the CPU."
        )
    wait_ms = tasks.longest_ready_seconds * 1000
    ready = f"{tasks.ready:.1f} of them are ready and wait for their event loop, up to {wait_ms:.0f} ms"
    return StoryFinding("Tasks", None, f"{facts}: {ready}.")


def _compare_versions(
    by_name: Mapping[str, MeasuredVersion], subject: str, old_name: str, new_name: str
) -> StoryFinding | None:
    if old_name not in by_name or new_name not in by_name:
        return None
    old, new = by_name[old_name].profile, by_name[new_name].profile
    if not old.cpu_cores or not new.cpu_cores or old.depth.mean is None or new.depth.mean is None:
        return None
    change = new.cpu_cores / old.cpu_cores - 1
    cpu = "CPU stays within a tenth"
    if abs(change) >= SAME_TOLERANCE:
        cpu = f"CPU {'falls' if change < 0 else 'rises'} by {_format_percent(abs(change))}"
    difference = new.depth.mean - old.depth.mean
    depth = "the depth does not change detectably"
    if is_significant(difference, new.depth.standard_error, old.depth.standard_error):
        depth = f"stacks are {abs(difference):.1f} frames {'shallower' if difference < 0 else 'deeper'}"
    return StoryFinding(subject.capitalize(), None, f"from {old_name} to {new_name}: {cpu}; {depth}.")


def _compare_latency(measured: Sequence[MeasuredVersion]) -> StoryFinding | None:
    p99_by_version = {
        version.version.name: latency.p99_ms
        for version in measured
        if (latency := version.load.paths.get("/50")) is not None and latency.p99_ms is not None
    }
    if len(p99_by_version) < 2:
        return None
    quickest, slowest = (
        min(p99_by_version, key=p99_by_version.__getitem__),
        max(p99_by_version, key=p99_by_version.__getitem__),
    )
    low, high = p99_by_version[quickest], p99_by_version[slowest]
    if high - low <= SAME_TOLERANCE * low:
        text = f"p99 of /50 lies between {low:.1f} and {high:.1f} ms: latency shows none of the above."
    else:
        text = f"p99 of /50 goes from {low:.1f} ms ({quickest}) to {high:.1f} ms ({slowest})."
    return StoryFinding("Latency", None, text)


def _check_contention(measured: Sequence[MeasuredVersion]) -> StoryFinding | None:
    wait_shares = [
        1 - version.profile.idle_share - version.profile.cpu_cores
        for version in measured
        if version.profile.idle_share is not None and version.profile.cpu_cores is not None
    ]
    if not wait_shares or max(wait_shares) < CONTENTION_THRESHOLD:
        return None
    text = (
        f"in up to {format_percent(max(wait_shares))} of the samples a service was ready to run but "
        "had no core. "
        "They count as waiting, most of them in the event loop's own call."
    )
    return StoryFinding("Crowded machine", None, text)


def _check_load(subject: str, measured: Sequence[MeasuredVersion]) -> StoryFinding | None:
    if _has_same_load(measured):
        return None
    return StoryFinding(subject, ClaimVerdict.INCONCLUSIVE, "the services did not have the same load.")


def _check_comparability(measured: Sequence[MeasuredVersion]) -> StoryFinding | None:
    modes = {mode for version in measured for mode in version.profile.modes}
    differences = []
    if not _has_same_load(measured):
        rates = [version.load.arrival_rate for version in measured]
        differences.append(f"arrival rates lie between {min(rates):.1f} and {max(rates):.1f} per second")
    if len(modes) > 1:
        differences.append(f"stacks were read in different modes ({', '.join(sorted(modes))})")
    return StoryFinding("Different", None, "; ".join(differences) + ".") if differences else None


def _has_same_load(measured: Sequence[MeasuredVersion]) -> bool:
    rates = [version.load.arrival_rate for version in measured]
    return not rates or min(rates) >= MIN_LOAD_RATIO * max(rates)


def _format_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def combine_verdicts(verdicts: Iterable[ClaimVerdict]) -> ClaimVerdict:
    """Combine the verdicts of several versions.

    Equal verdicts stay. Otherwise the result is partial agreement if any version agrees at least partly, then
    `DIFFERS` if any version differs, else `INCONCLUSIVE`.
    """
    distinct = set(verdicts)
    if len(distinct) == 1:
        return distinct.pop()
    if distinct & {ClaimVerdict.AGREES, ClaimVerdict.PARTLY_AGREES}:
        return ClaimVerdict.PARTLY_AGREES
    return ClaimVerdict.DIFFERS if ClaimVerdict.DIFFERS in distinct else ClaimVerdict.INCONCLUSIVE


def is_significant(difference: float, *errors: float) -> bool:
    """Whether two means differ significantly, given their standard errors."""
    return abs(difference) > Z * math.hypot(*errors)


def compute_share_error(share: float, samples: int) -> float:
    """Compute the standard error of a share of `samples` samples."""
    return math.sqrt(share * (1 - share) / samples) if samples else math.inf
