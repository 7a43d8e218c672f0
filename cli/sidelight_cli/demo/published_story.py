"""What the measured numbers say about the story that was told of Tornado and aiohttp.

The story, as published: stacks of an aiohttp service were about 15 frames deep and mostly idle, those of
the Tornado service before it about 30 and less idle, and moving halved the CPU. Here each of these claims
is put to the numbers of a run; nothing is said that they do not carry.

Two means of depth, or two idle shares, count as different when they are more than 1.96 standard errors of
their difference apart (the two-sided 5 % level), every sample taken as independent. CPU is the kernel's
count, without sampling error; differences below a tenth count as none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sidelight_cli.demo.demo_table import percent
from sidelight_cli.demo.measurement import Measured
from sidelight_cli.demo.versions import AIOHTTP, AIOHTTP_UVLOOP, TORNADO_ASYNC, TORNADO_COROUTINES

PUBLISHED_AIOHTTP_DEPTH = 15
PUBLISHED_TORNADO_DEPTH = 30
ABOUT_TWICE = 1.6
ABOUT_HALF = 0.6
SAME = 0.1
NEAR = 0.25
CROWDED = 0.03
SAME_LOAD = 0.98
Z = 1.96


class Verdict(StrEnum):
    """How a claim of the story stands to the numbers."""

    AGREES = "agrees"
    PARTLY = "partly agrees"
    DIFFERS = "differs"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim of the story put to the numbers; `verdict` is None for what the story did not speak of."""

    subject: str
    verdict: Verdict | None
    text: str

    def __str__(self) -> str:
        return (
            f"{self.subject} ({self.verdict}): {self.text}"
            if self.verdict
            else f"{self.subject}: {self.text}"
        )


def story(measured: Sequence[Measured]) -> list[Finding]:
    """Every finding that the measured versions allow, in the order of the story."""
    of = {one.version.name: one for one in measured}
    findings: list[Finding | None] = [_unlike(measured), _crowded(measured)]
    tornados = [of[name] for name in (TORNADO_COROUTINES, TORNADO_ASYNC) if name in of]
    if tornados and AIOHTTP in of:
        aiohttp = of[AIOHTTP]
        findings += [
            _depth(tornados, aiohttp),
            _frames(tornados, aiohttp),
            _mostly_idle(aiohttp),
            _unequal("Idle", measured) or _idle(tornados, aiohttp),
            _unequal("CPU", measured) or _cpu(tornados, aiohttp),
        ]
    findings += [
        _changed(of, "async and await", TORNADO_COROUTINES, TORNADO_ASYNC),
        _changed(of, "uvloop", AIOHTTP, AIOHTTP_UVLOOP),
        _latency(measured),
    ]
    return [finding for finding in findings if finding is not None]


def _depth(tornados: Sequence[Measured], aiohttp: Measured) -> Finding:
    base = aiohttp.profile.depth
    verdicts, parts = [], []
    for one in tornados:
        depth = one.profile.depth
        if base.mean is None or depth.mean is None:
            return Finding("Depth", Verdict.UNCLEAR, "some version has no busy sample.")
        verdicts.append(_deeper(depth.mean / base.mean, depth.mean - base.mean, depth.error, base.error))
        parts.append(f"{one.version.name} {depth.mean:.1f} ({depth.mean / base.mean:.2f} times)")
    verdict = together(verdicts)
    facts = f"busy stacks of {AIOHTTP} are {base.mean:.1f} frames deep on average, {' and '.join(parts)}"
    ends = {
        Verdict.AGREES: "Tornado is about twice as deep, as published.",
        Verdict.PARTLY: "the difference is there, but smaller than published or not in both styles.",
        Verdict.DIFFERS: "Tornado is not deeper, against what was published.",
        Verdict.UNCLEAR: "too close to tell apart on so few busy samples.",
    }
    return Finding("Depth", verdict, f"{facts}: {ends[verdict]}")


def _deeper(ratio: float, difference: float, *errors: float) -> Verdict:
    if not apart(difference, *errors):
        return Verdict.UNCLEAR
    if ratio >= ABOUT_TWICE:
        return Verdict.AGREES
    return Verdict.PARTLY if ratio > 1 else Verdict.DIFFERS


def _frames(tornados: Sequence[Measured], aiohttp: Measured) -> Finding | None:
    expected = [(aiohttp, PUBLISHED_AIOHTTP_DEPTH), *((one, PUBLISHED_TORNADO_DEPTH) for one in tornados)]
    ratios = [one.profile.depth.mean / depth for one, depth in expected if one.profile.depth.mean is not None]
    if len(ratios) < len(expected):
        return None
    published = f"about {PUBLISHED_AIOHTTP_DEPTH} and {PUBLISHED_TORNADO_DEPTH} frames"
    if all(abs(ratio - 1) <= NEAR for ratio in ratios):
        return Finding(
            "Frames", Verdict.AGREES, f"the depths themselves are near the published ones, {published}."
        )
    spread = f"{_rounded(min(ratios))} to {_rounded(max(ratios))} of the published {published}"
    if max(ratios) < 1:
        return Finding("Frames", Verdict.DIFFERS, f"these versions stack fewer frames, {spread}.")
    return Finding("Frames", Verdict.DIFFERS, f"the depths are {spread}.")


def _mostly_idle(aiohttp: Measured) -> Finding:
    idle = aiohttp.profile.idle_share
    if idle is None:
        return Finding("Waiting", Verdict.UNCLEAR, f"the sampler could not tell when {AIOHTTP} waited.")
    if idle > 0.5:
        return Finding("Waiting", Verdict.AGREES, f"{AIOHTTP} is mostly idle, as published: {percent(idle)}.")
    return Finding("Waiting", Verdict.DIFFERS, f"{AIOHTTP} is idle only {percent(idle)} of the time.")


def _idle(tornados: Sequence[Measured], aiohttp: Measured) -> Finding:
    base = aiohttp.profile.idle_share
    verdicts, parts = [], []
    for one in tornados:
        share = one.profile.idle_share
        if base is None or share is None:
            return Finding("Idle", Verdict.UNCLEAR, "the sampler could not tell when some version waited.")
        errors = share_error(share, one.profile.samples), share_error(base, aiohttp.profile.samples)
        if not apart(base - share, *errors):
            verdicts.append(Verdict.UNCLEAR)
        else:
            verdicts.append(Verdict.AGREES if share < base else Verdict.DIFFERS)
        parts.append(f"{one.version.name} {percent(share)}")
    verdict = together(verdicts)
    facts = f"{AIOHTTP} idles {percent(base)} of the time, {' and '.join(parts)}"
    ends = {
        Verdict.AGREES: "Tornado idles less, as published.",
        Verdict.PARTLY: "Tornado idles less, as published, but not in both styles.",
        Verdict.DIFFERS: "Tornado does not idle less, against what was published.",
        Verdict.UNCLEAR: "too close to tell apart on so few samples.",
    }
    return Finding("Idle", verdict, f"{facts}: {ends[verdict]}")


def _cpu(tornados: Sequence[Measured], aiohttp: Measured) -> Finding:
    base = aiohttp.profile.cpu_cores
    verdicts, parts = [], []
    for one in tornados:
        cores = one.profile.cpu_cores
        if not cores or base is None:
            return Finding("CPU", Verdict.UNCLEAR, "the CPU time of some version is not known.")
        ratio = base / cores
        verdicts.append(_cheaper(ratio))
        parts.append(f"{ratio:.2f} times that of {one.version.name} ({percent(cores)})")
    verdict = together(verdicts)
    facts = f"at the same load {AIOHTTP} takes {percent(base)} of a core, {' and '.join(parts)}"
    ends = {
        Verdict.AGREES: "moving about halves it, as published.",
        Verdict.PARTLY: "moving saves CPU, as published, but not half of it throughout.",
        Verdict.DIFFERS: "moving saves nothing, against what was published.",
        Verdict.UNCLEAR: "",
    }
    return Finding("CPU", verdict, f"{facts}: {ends[verdict]}")


def _cheaper(ratio: float) -> Verdict:
    if ratio <= ABOUT_HALF:
        return Verdict.AGREES
    return Verdict.PARTLY if ratio < 1 - SAME else Verdict.DIFFERS


def _changed(of: Mapping[str, Measured], what: str, before: str, after: str) -> Finding | None:
    if before not in of or after not in of:
        return None
    old, new = of[before].profile, of[after].profile
    if not old.cpu_cores or not new.cpu_cores or old.depth.mean is None or new.depth.mean is None:
        return None
    change = new.cpu_cores / old.cpu_cores - 1
    cpu = "CPU stays within a tenth"
    if abs(change) >= SAME:
        cpu = f"CPU {'falls' if change < 0 else 'rises'} by {_rounded(abs(change))}"
    difference = new.depth.mean - old.depth.mean
    depth = "the depth does not change detectably"
    if apart(difference, new.depth.error, old.depth.error):
        depth = f"stacks are {abs(difference):.1f} frames {'shallower' if difference < 0 else 'deeper'}"
    return Finding(what.capitalize(), None, f"from {before} to {after}: {cpu}; {depth}.")


def _latency(measured: Sequence[Measured]) -> Finding | None:
    found = {
        one.version.name: latency.p99_ms
        for one in measured
        if (latency := one.load.paths.get("/50")) is not None and latency.p99_ms is not None
    }
    if len(found) < 2:
        return None
    quickest, slowest = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    low, high = found[quickest], found[slowest]
    if high - low <= SAME * low:
        text = f"p99 of /50 lies between {low:.1f} and {high:.1f} ms: latency tells nothing of the above."
    else:
        text = f"p99 of /50 goes from {low:.1f} ms ({quickest}) to {high:.1f} ms ({slowest})."
    return Finding("Latency", None, text)


def _crowded(measured: Sequence[Measured]) -> Finding | None:
    waits = [
        1 - one.profile.idle_share - one.profile.cpu_cores
        for one in measured
        if one.profile.idle_share is not None and one.profile.cpu_cores is not None
    ]
    if not waits or max(waits) < CROWDED:
        return None
    text = (
        f"in up to {percent(max(waits))} of the samples a service was ready to run but had no core. "
        "They count as busy, most of them in the event loop's own call, and make depths shallower."
    )
    return Finding("Crowded machine", None, text)


def _unequal(subject: str, measured: Sequence[Measured]) -> Finding | None:
    if _same_load(measured):
        return None
    return Finding(subject, Verdict.UNCLEAR, "the services did not have the same load.")


def _unlike(measured: Sequence[Measured]) -> Finding | None:
    modes = {mode for one in measured for mode in one.profile.modes}
    found = []
    if not _same_load(measured):
        rates = [one.load.arrival_rate for one in measured]
        found.append(f"arrival rates lie between {min(rates):.1f} and {max(rates):.1f} per second")
    if len(modes) > 1:
        found.append(f"stacks were read in different modes ({', '.join(sorted(modes))})")
    return Finding("Not alike", None, "; ".join(found) + ".") if found else None


def _same_load(measured: Sequence[Measured]) -> bool:
    rates = [one.load.arrival_rate for one in measured]
    return not rates or min(rates) >= SAME_LOAD * max(rates)


def _rounded(share: float) -> str:
    return f"{100 * share:.0f} %"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict over several versions: theirs when they are one, otherwise what they share."""
    found = set(verdicts)
    if len(found) == 1:
        return found.pop()
    if found & {Verdict.AGREES, Verdict.PARTLY}:
        return Verdict.PARTLY
    return Verdict.DIFFERS if Verdict.DIFFERS in found else Verdict.UNCLEAR


def apart(difference: float, *errors: float) -> bool:
    """Whether two means differ by more than chance explains, given their standard errors."""
    return abs(difference) > Z * math.hypot(*errors)


def share_error(share: float, samples: int) -> float:
    """The standard error of a share of that many samples."""
    return math.sqrt(share * (1 - share) / samples) if samples else math.inf
