"""What makes two sides comparable: each thing that must be alike, with a reason word and what to do.

A `blocking` check means that a difference would show how the sides were sampled and not what they did. One
that warns says what else could explain a difference. What a side does not report is `unknown`, never a
`match`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from sidelight_model.change import percent, short
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.provenance import plural

LEAST_COVERAGE: Final = 0.9
"""Below it what was missed may differ from what was seen."""
COVERAGE_POINTS: Final = 0.1
TRUNCATED_POINTS: Final = 0.005
CONTENTION_POINTS: Final = 0.1
LOAD_SHARE: Final = 0.2
"""By so much of the smaller the load of sides may differ without a word."""
NEEDED: Final = {ProfileType.CPU: "", ProfileType.WALL: "idle", ProfileType.GIL: "gil"}
"""The state without whose samples a type reads too low."""
TIME_HINT: Final = (
    "Compare the versions while both run. "
    "If both had the same load, assume it: load=equal, or --assume-equal-load."
)
FALLBACKS: Final = frozenset(("command", "nonblocking"))
"""Modes whose stacks are no match for those of the others."""


class State(StrEnum):
    """Whether something is the same on both sides."""

    ALIKE = "match"
    DIFFERS = "mismatch"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """What a check means for the verdict."""

    OK = "ok"
    WARN = "warn"
    REFUSE = "blocking"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be alike; `reason` is a word for programs, empty where all is well."""

    name: str
    state: State
    severity: Severity
    reason: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """How a side was watched. None stands for what nobody told.

    `truncated` and `coverage` are shares, `kinds` the kinds of threads that its windows tell apart. Per
    pod-second, `cpu` is what its processes used by the kernel's clock, `sampled` what the samples of all of
    their threads add up to on the CPU, `requests` what they were asked. `first` and `last` are Unix seconds.
    """

    windows: int
    pods: int
    pod_seconds: float
    modes: Sequence[str]
    periods_us: Sequence[float]
    samplers: Sequence[str]
    readers: Sequence[str]
    pythons: Sequence[str]
    missing_states: Sequence[str]
    kinds: Sequence[str]
    truncated: float
    coverage: float | None
    cpu: float | None
    sampled: float | None
    requests: float | None
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What is compared: the type, how columns belong together (`time`, `hours` or nothing), and how.

    `assume_equal_load`: the caller says that both sides had the same load.
    """

    kind: ProfileType
    paired: str
    pods_told: bool
    lines: bool = False
    per_request: bool = False
    least_coverage: float = LEAST_COVERAGE
    trouble: str = ""
    """Why request counts that were to be had were not."""
    assume_equal_load: bool = False


def checks(a: Taken, b: Taken, terms: Terms) -> list[Check]:
    """All of them, always in this order."""
    return [
        _mode(a, b),
        _states(a, b, terms),
        _words(
            "sampler",
            (a.samplers, b.samplers),
            "frame names can differ between them.",
            "Bring both sides to one release of the sidecar.",
        ),
        _words(
            "reader",
            (a.readers, b.readers),
            "doubt a difference that begins with the reader.",
            "Set the sidecars' --mode alike on both sides: it chooses the reader.",
        ),
        _normalisation(a, b, terms),
        _python(a, b),
        _truncation(a, b),
        _coverage(a, b, terms),
        _pods(a, b, terms),
        _rate(a, b),
        _load(a, b, terms),
        _contention(a, b),
        _time(a, b, terms),
    ]


def refusals(found: Iterable[Check]) -> list[Check]:
    """The checks for which sides are not comparable."""
    return [check for check in found if check.severity is Severity.REFUSE]


def _alike(name: str, text: str) -> Check:
    return Check(name, State.ALIKE, Severity.OK, "", text)


def _unknown(name: str, text: str, hint: str = "", severity: Severity = Severity.OK) -> Check:
    return Check(name, State.UNKNOWN, severity, f"{name}_unknown", text, hint)


def _differs(name: str, text: str, hint: str, severity: Severity = Severity.WARN) -> Check:
    return Check(name, State.DIFFERS, severity, f"{name}_differs", text, hint)


def _said(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _untold(name: str, a: str, b: str) -> Check:
    return _unknown(name, f"not told by {'either side' if a == b == '' else 'A' if a == '' else 'B'}")


def _words(name: str, sides: tuple[Sequence[str], Sequence[str]], why: str, hint: str) -> Check:
    a, b = map(_said, sides)
    if not a or not b:
        return _untold(name, a, b)
    if a == b:
        return _alike(name, f"{a} on both sides")
    return _differs(name, f"A {a}, B {b}: {why}", hint)


def _mode(a: Taken, b: Taken) -> Check:
    why = "they see waiting threads, and hold the process up, differently."
    found = _words("mode", (a.modes, b.modes), why, "Set --mode alike on both sides.")
    if found.state is State.DIFFERS and not set(a.modes) & set(b.modes):
        for modes in (a.modes, b.modes):
            if set(modes) <= FALLBACKS:
                sides = f"A was sampled in mode {_said(a.modes)}, B in mode {_said(b.modes)}"
                text = f"{sides}: stacks of {_said(modes)} are no match for the others'."
                return _differs("mode", text, found.hint, Severity.REFUSE)
    return found


def _states(a: Taken, b: Taken, terms: Terms) -> Check:
    def said(side: Taken) -> str:
        missing = ", no ".join(sorted(side.missing_states))
        return (f"no {missing}" if missing else "all recorded") if side.windows else ""

    in_a, in_b = said(a), said(b)
    if not in_a or not in_b:
        return _untold("states", in_a, in_b)
    needed = NEEDED[terms.kind]
    blind = [name for name, side in zip("AB", (a, b), strict=True) if needed in side.missing_states]
    if blind:
        text = f"{' and '.join(blind)} recorded no {needed} samples, without which {terms.kind} reads too low"
        hint = "Compare CPU time (type=cpu), or sample with the sidecar's extension: py-spy cannot tell."
        return Check("states", State.DIFFERS, Severity.REFUSE, "states_missing", text, hint)
    if in_a == in_b:
        return _alike("states", f"{in_a} on both sides")
    text = f"A {in_a}, B {in_b}: types that need what is missing read too low."
    return _differs("states", text, "Compare CPU time (type=cpu).")


def _normalisation(a: Taken, b: Taken, terms: Terms) -> Check:
    name = "normalisation"
    if bool(a.kinds) != bool(b.kinds) and a.windows and b.windows:
        told, other = ("A", "B") if a.kinds else ("B", "A")
        text = f"{told} tells kinds of threads apart ({_said(a.kinds or b.kinds)}), {other} does not"
        hint = "Do not pick samples by thread, or bring both sides to one release of the sidecar."
        return _differs(name, text, hint)
    if terms.lines:
        text = "frames are told apart by line: lines move between versions, and moved ones look new and gone"
        return Check(name, State.UNKNOWN, Severity.WARN, "lines_separate", text, "Ask with lines=0.")
    return _alike(name, "frames by function and file on both sides, their lines folded away")


def _python(a: Taken, b: Taken) -> Check:
    hint = "Compare within one version of Python, or read changes of its own modules with care."
    found = _words("python", (a.pythons, b.pythons), "the standard library's frames can differ.", hint)
    minor = [{".".join(one.split(".")[:2]) for one in side.pythons} for side in (a, b)]
    if found.state is State.DIFFERS and minor[0] == minor[1]:
        return Check(found.name, found.state, Severity.OK, found.reason, found.text, found.hint)
    return found


def _truncation(a: Taken, b: Taken) -> Check:
    text = f"{_share(a.truncated)} of A's stacks and {_share(b.truncated)} of B's lost their middle"
    if abs(a.truncated - b.truncated) <= TRUNCATED_POINTS:
        return _alike("truncation", text)
    more = f"{text}: paths end in (truncated) more often on one side"
    return _differs("truncation", more, "Raise --max-depth of the sidecars, alike on both sides.")


def _coverage(a: Taken, b: Taken, terms: Terms) -> Check:
    name, hint = "coverage", "See the sidecar's log, and its sidelight_sidecar_sampling_errors_total by kind."
    if a.coverage is None or b.coverage is None:
        return _unknown(name, "not told by the windows")
    text = f"ticks gave stacks in {_share(a.coverage)} of A's time and {_share(b.coverage)} of B's"
    if min(a.coverage, b.coverage) < terms.least_coverage:
        low = " and ".join(
            who for who, side in (("A", a.coverage), ("B", b.coverage)) if side < terms.least_coverage
        )
        text = f"{text}: what {low} missed may differ from what was seen"
        return Check(name, State.DIFFERS, Severity.WARN, "low_coverage", text, hint)
    if abs(a.coverage - b.coverage) > COVERAGE_POINTS:
        return _differs(name, f"{text}; rates allow for it", hint)
    return _alike(name, f"{text}; rates allow for it")


def _pods(a: Taken, b: Taken, terms: Terms) -> Check:
    both = f"A {plural(a.pods, 'pod')}, B {plural(b.pods, 'pod')}"
    text = f"{plural(a.pods, 'pod')} on both sides" if a.pods == b.pods else both
    if not a.pods or not b.pods:
        return _unknown("pods", text)
    if min(a.pods, b.pods) == 1:
        only = "either side" if a.pods == b.pods else "A" if a.pods == 1 else "B"
        text = (
            f"one pod on {only}: how much pods differ cannot be seen, and intervals speak of this pod alone"
        )
        return Check("pods", State.DIFFERS, Severity.WARN, "few_pods", text, "Watch more pods of each side.")
    if not terms.pods_told:
        text = f"{text}, not told apart so far back: intervals speak of these pods and come from time alone"
        hint = "Ask for a shorter or later range, of which windows are kept one by one."
        return Check("pods", State.UNKNOWN, Severity.WARN, "pods_merged", text, hint)
    if a.pods == b.pods:
        return _alike("pods", text)
    text = f"{both}: rates are per pod-second, so they allow for it"
    return _differs("pods", text, "Nothing, unless pods share the load of one side.", Severity.OK)


def _rate(a: Taken, b: Taken) -> Check:
    in_a, in_b = (_hertz(side.periods_us) if side.periods_us else "" for side in (a, b))
    if not in_a or not in_b:
        return _untold("rate", in_a, in_b)
    if in_a == in_b:
        return _alike("rate", f"{in_a} on both sides")
    text = f"A {in_a}, B {in_b}: time is samples × period, so sums stay right; the slower side is noisier."  # noqa: RUF001
    return _differs("rate", text, "Set --rate alike on both sides.", Severity.OK)


def _load(a: Taken, b: Taken, terms: Terms) -> Check:
    if terms.trouble:
        hint = "See the collector's --prometheus-url and --prometheus-requests-query, or give both numbers."
        text = f"not known, as there are no request counts: {terms.trouble}"
        return _unknown("load", text, hint, Severity.WARN)
    if terms.per_request and a.requests is not None and b.requests is not None:
        text = f"A {short(a.requests)}, B {short(b.requests)} requests per pod-second"
        if _near(a.requests, b.requests):
            return _alike("load", f"{text}; times are per request")
        hint = "A busier side may take more or less per request, by its queues and caches."
        return _differs("load", f"{text}; times are per request", hint)
    hint = "Say how many each side served (baseline_requests, comparison_requests), or set --prometheus-url."
    if a.cpu is None or b.cpu is None:
        text = "not known: profiles count time, not requests. "
        return _unknown("load", f"{text}A busier side takes more without costing more per request", hint)
    text = f"A's processes used {short(a.cpu)} CPU seconds per pod-second, B's {short(b.cpu)}"
    if _near(a.cpu, b.cpu):
        return _alike("load", text)
    more = "more" if b.cpu > a.cpu else "less"
    text = f"{text}: without request counts nobody can tell if B was asked {more} or costs {more} per request"
    return _differs("load", text, hint)


def _contention(a: Taken, b: Taken) -> Check:
    """How long threads that could have run waited for a CPU, which samples count as CPU time."""
    name = "contention"
    in_a, in_b = (_waited(side) for side in (a, b))
    if in_a is None or in_b is None:
        return _unknown(name, "the kernel's clock of the processes is not known of all that was sampled")
    text = f"threads waited for a CPU in {_share(in_a)} of A's samples and {_share(in_b)} of B's"
    if abs(in_a - in_b) <= CONTENTION_POINTS:
        return _alike(name, text)
    more = "A" if in_a > in_b else "B"
    hint = "See the pods' CPU limits, and what else runs on their nodes. The whole CPU time is by the clock."
    return _differs(name, f"{text}: they count as CPU time, so functions of {more} look larger", hint)


def _waited(side: Taken) -> float | None:
    if side.cpu is None or not side.sampled:
        return None
    return max(0.0, 1 - side.cpu / side.sampled)


def _time(a: Taken, b: Taken, terms: Terms) -> Check:
    if not a.windows or not b.windows:
        return _untold("time", "" if not a.windows else "told", "" if not b.windows else "told")
    if terms.paired == "time":
        return _alike("time", "both sides were watched at the same time")
    ranges = f"A was watched {_clock(a)}, B {_clock(b)} (UTC)"
    if terms.assume_equal_load:
        return _alike("time", f"{ranges}; their load is assumed to be equal")
    return _differs("time", f"{ranges}: their load may differ, so no change is reported", TIME_HINT)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= LOAD_SHARE * min(a, b)


def _share(part: float) -> str:
    return percent(part, 0 if part in (0, 1) else 1)


def _hertz(periods_us: Sequence[float]) -> str:
    """Sampling rates of these periods in words."""
    rates = sorted({float(f"{1e6 / us:.3g}") for us in periods_us if us > 0})
    words = [f"{rate:g}" for rate in ([rates[0], rates[-1]] if len(rates) > 1 else rates)]
    return f"{'–'.join(words)} Hz"  # noqa: RUF001


def _moments(side: Taken) -> Iterator[datetime]:
    return (datetime.fromtimestamp(at, UTC) for at in (side.first, side.last))


def _clock(side: Taken) -> str:
    first, last = _moments(side)
    if f"{first:%Y-%m-%d %H:%M}" == f"{last:%Y-%m-%d %H:%M}":
        return f"{first:%Y-%m-%d %H:%M}"
    day = "%Y-%m-%d %H:%M" if first.date() != last.date() else "%H:%M"
    return f"{first.strftime('%Y-%m-%d %H:%M')}–{last.strftime(day)}"  # noqa: RUF001
