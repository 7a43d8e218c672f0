"""Checks of whether two sides can be compared.

Each check covers one property that must be alike on both sides. Its result has a reason word and a hint. A
`blocking` result means that a difference would show how the sides were sampled and not what they did. A
`warn` result names something else that could explain a difference. A property that a side does not report
is `unknown`, never a `match`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.remedies import (
    ENTER_REQUESTS,
    ObservedRange,
    Remedy,
    find_time_remedy,
)
from sidelight_model.change import format_number, format_percent
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.provenance import format_count

MIN_COVERAGE: Final = 0.9
"""Below this coverage the missed samples may differ from the recorded ones."""
MAX_COVERAGE_DIFFERENCE: Final = 0.1
MAX_TRUNCATION_DIFFERENCE: Final = 0.005
MAX_CONTENTION_DIFFERENCE: Final = 0.1
MAX_LOAD_DIFFERENCE: Final = 0.2
"""Difference in load, relative to the smaller, that gives no warning."""
REQUIRED_STATES: Final = {ProfileType.CPU: "", ProfileType.WALL: "idle", ProfileType.GIL: "gil"}
"""The state without whose samples a profile type reads too low."""
TIME_HINT: Final = (
    "Compare the versions while both run, or give request counts. "
    "If both had the same load, as in a load test, choose basis=equal_load."
)
FALLBACK_MODES: Final = frozenset(("command", "nonblocking"))
"""Modes whose stacks cannot be compared with those of other modes."""


class CheckState(StrEnum):
    """Whether a property is the same on both sides."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"


class CheckSeverity(StrEnum):
    """The effect of a check on the verdict."""

    OK = "ok"
    WARN = "warn"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The check of one property that must be alike.

    `reason` is a word for programs. It is empty for a match. `remedy` is what a user can do at once.
    """

    name: str
    state: CheckState
    severity: CheckSeverity
    reason: str
    text: str
    hint: str = ""
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True)
class SamplingSummary:
    """How one side was sampled; None means not reported.

    `truncated_share` and `coverage` are shares. `thread_kinds` are the kinds of threads that its windows
    distinguish. Three fields are rates per pod-second: `cpu_rate` is the CPU time of its processes by the
    kernel's clock, `sampled_cpu_rate` the CPU time by the samples of all their threads, and `request_rate`
    the number of requests. `cpu_wait_share` is the part of the samples without idle ones in which threads
    waited for a CPU, if all samplers tell. `start_seconds` and `end_seconds` are Unix seconds.
    """

    windows: int
    pods: int
    pod_seconds: float
    modes: Sequence[str]
    periods_us: Sequence[float]
    samplers: Sequence[str]
    readers: Sequence[str]
    python_versions: Sequence[str]
    missing_states: Sequence[str]
    thread_kinds: Sequence[str]
    truncated_share: float
    coverage: float | None
    cpu_rate: float | None
    sampled_cpu_rate: float | None
    cpu_wait_share: float | None
    request_rate: float | None
    start_seconds: float
    end_seconds: float

    @property
    def observed_range(self) -> ObservedRange:
        return ObservedRange(self.start_seconds, self.end_seconds)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What is compared, and how.

    `kind` is the profile type. `pairing` says how columns of the sides belong together (`time`, `hours` or
    empty).
    """

    kind: ProfileType
    pairing: str
    has_pod_rows: bool
    basis: Basis
    has_lines: bool = False
    min_coverage: float = MIN_COVERAGE
    missing_requests_reason: str = ""
    """Why request counts are missing that should be available."""


def run_checks(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> list[CheckResult]:
    """Run all checks, always in this order."""
    return [
        _check_mode(a, b),
        _check_states(a, b, context),
        _check_values(
            "sampler",
            (a.samplers, b.samplers),
            "frame names can differ between them.",
            "Bring both sides to one release of the sidecar.",
        ),
        _check_values(
            "reader",
            (a.readers, b.readers),
            "doubt a difference that begins with the reader.",
            "Set the same --mode for the sidecars of both sides: it chooses the reader.",
        ),
        _check_normalisation(a, b, context),
        _check_python(a, b),
        _check_truncation(a, b),
        _check_coverage(a, b, context),
        _check_pods(a, b, context),
        _check_rate(a, b),
        _check_load(a, b, context),
        _check_contention(a, b),
        _check_time(a, b, context),
    ]


def select_blocking_checks(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the checks that make the sides not comparable."""
    return [check for check in results if check.severity is CheckSeverity.BLOCKING]


def _make_match(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckState.MATCH, CheckSeverity.OK, "", text)


def _make_unknown(
    name: str, text: str, hint: str = "", severity: CheckSeverity = CheckSeverity.OK
) -> CheckResult:
    return CheckResult(name, CheckState.UNKNOWN, severity, f"{name}_unknown", text, hint)


def _make_mismatch(
    name: str, text: str, hint: str, severity: CheckSeverity = CheckSeverity.WARN
) -> CheckResult:
    return CheckResult(name, CheckState.MISMATCH, severity, f"{name}_differs", text, hint)


def _join_values(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))


def _make_unreported(name: str, a: str, b: str) -> CheckResult:
    return _make_unknown(name, f"not told by {'either side' if a == b == '' else 'A' if a == '' else 'B'}")


def _check_values(name: str, sides: tuple[Sequence[str], Sequence[str]], why: str, hint: str) -> CheckResult:
    a, b = map(_join_values, sides)
    if not a or not b:
        return _make_unreported(name, a, b)
    if a == b:
        return _make_match(name, f"{a} on both sides")
    return _make_mismatch(name, f"A {a}, B {b}: {why}", hint)


def _check_mode(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    why = "they see waiting threads, and hold the process up, differently."
    result = _check_values("mode", (a.modes, b.modes), why, "Set the same --mode on both sides.")
    if result.state is CheckState.MISMATCH and not set(a.modes) & set(b.modes):
        for modes in (a.modes, b.modes):
            if set(modes) <= FALLBACK_MODES:
                sides = f"A was sampled in mode {_join_values(a.modes)}, B in mode {_join_values(b.modes)}"
                text = f"{sides}: stacks of {_join_values(modes)} are no match for the others'."
                return _make_mismatch("mode", text, result.hint, CheckSeverity.BLOCKING)
    return result


def _check_states(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    def describe_states(side: SamplingSummary) -> str:
        missing = ", no ".join(sorted(side.missing_states))
        return (f"no {missing}" if missing else "all recorded") if side.windows else ""

    in_a, in_b = describe_states(a), describe_states(b)
    if not in_a or not in_b:
        return _make_unreported("states", in_a, in_b)
    required_state = REQUIRED_STATES[context.kind]
    blind = [name for name, side in zip("AB", (a, b), strict=True) if required_state in side.missing_states]
    if blind:
        text = (
            f"{' and '.join(blind)} recorded no {required_state} samples, without which "
            f"{context.kind} reads too low"
        )
        hint = (
            "Compare CPU time (type=cpu), or sample with the sidecar's extension: py-spy does not record it."
        )
        return CheckResult(
            "states", CheckState.MISMATCH, CheckSeverity.BLOCKING, "states_missing", text, hint
        )
    if in_a == in_b:
        return _make_match("states", f"{in_a} on both sides")
    if {*a.missing_states} ^ {*b.missing_states} == {"cpu_wait"}:
        old = "A" if "cpu_wait" in a.missing_states else "B"
        text = f"the CPU time of {old} includes threads that waited for a CPU"
        return _make_mismatch("states", text, "Bring both sides to one release of the sidecar.")
    text = f"A {in_a}, B {in_b}: types that need what is missing read too low."
    return _make_mismatch("states", text, "Compare CPU time (type=cpu).")


def _check_normalisation(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    name = "normalisation"
    if bool(a.thread_kinds) != bool(b.thread_kinds) and a.windows and b.windows:
        split_side, merged_side = ("A", "B") if a.thread_kinds else ("B", "A")
        text = (
            f"{split_side} tells kinds of threads apart "
            f"({_join_values(a.thread_kinds or b.thread_kinds)}), {merged_side} does not"
        )
        hint = "Do not pick samples by thread, or bring both sides to one release of the sidecar."
        return _make_mismatch(name, text, hint)
    if context.has_lines:
        text = (
            "frames are distinguished by line: lines move between versions, and moved lines look "
            "new and removed"
        )
        return CheckResult(
            name, CheckState.UNKNOWN, CheckSeverity.WARN, "lines_separate", text, "Request it with lines=0."
        )
    return _make_match(name, "frames by function and file on both sides, their lines folded away")


def _check_python(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    hint = "Compare within one version of Python, or read changes of its own modules with care."
    result = _check_values(
        "python", (a.python_versions, b.python_versions), "the standard library's frames can differ.", hint
    )
    minor = [{".".join(version.split(".")[:2]) for version in side.python_versions} for side in (a, b)]
    if result.state is CheckState.MISMATCH and minor[0] == minor[1]:
        return CheckResult(
            result.name, result.state, CheckSeverity.OK, result.reason, result.text, result.hint
        )
    return result


def _check_truncation(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    text = (
        f"{_format_share(a.truncated_share)} of A's stacks and {_format_share(b.truncated_share)} "
        "of B's lost their middle"
    )
    if abs(a.truncated_share - b.truncated_share) <= MAX_TRUNCATION_DIFFERENCE:
        return _make_match("truncation", text)
    more = f"{text}: paths end in (truncated) more often on one side"
    return _make_mismatch(
        "truncation", more, "Raise --max-depth of the sidecars to the same value on both sides."
    )


def _check_coverage(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    name, hint = "coverage", "See the sidecar's log, and its sidelight_sidecar_sampling_errors_total by kind."
    if a.coverage is None or b.coverage is None:
        return _make_unknown(name, "not recorded in the windows")
    text = (
        f"ticks gave stacks in {_format_share(a.coverage)} of A's time and {_format_share(b.coverage)} of B's"
    )
    if min(a.coverage, b.coverage) < context.min_coverage:
        low = " and ".join(
            who for who, side in (("A", a.coverage), ("B", b.coverage)) if side < context.min_coverage
        )
        text = f"{text}: what {low} missed may differ from what was seen"
        return CheckResult(name, CheckState.MISMATCH, CheckSeverity.WARN, "low_coverage", text, hint)
    if abs(a.coverage - b.coverage) > MAX_COVERAGE_DIFFERENCE:
        return _make_mismatch(name, f"{text}; rates allow for it", hint)
    return _make_match(name, f"{text}; rates allow for it")


def _check_pods(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    both = f"A {format_count(a.pods, 'pod')}, B {format_count(b.pods, 'pod')}"
    text = f"{format_count(a.pods, 'pod')} on both sides" if a.pods == b.pods else both
    if not a.pods or not b.pods:
        return _make_unknown("pods", text)
    if min(a.pods, b.pods) == 1:
        only = "either side" if a.pods == b.pods else "A" if a.pods == 1 else "B"
        text = (
            f"one pod on {only}: how much pods differ cannot be seen, and intervals speak of this pod alone"
        )
        return CheckResult(
            "pods", CheckState.MISMATCH, CheckSeverity.WARN, "few_pods", text, "Watch more pods of each side."
        )
    if not context.has_pod_rows:
        text = f"{text}, not kept apart so far back: intervals are for these pods, and come from time alone"
        hint = "Choose a shorter or later range, for which single windows are kept."
        return CheckResult("pods", CheckState.UNKNOWN, CheckSeverity.WARN, "pods_merged", text, hint)
    if a.pods == b.pods:
        return _make_match("pods", text)
    text = f"{both}: rates are per pod-second, so they allow for it"
    return _make_mismatch("pods", text, "Nothing, unless pods share the load of one side.", CheckSeverity.OK)


def _check_rate(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    in_a, in_b = (_format_rates(side.periods_us) if side.periods_us else "" for side in (a, b))
    if not in_a or not in_b:
        return _make_unreported("rate", in_a, in_b)
    if in_a == in_b:
        return _make_match("rate", f"{in_a} on both sides")
    text = f"A {in_a}, B {in_b}: time is samples × period, so sums stay right; the slower side is noisier."  # noqa: RUF001
    return _make_mismatch("rate", text, "Set the same --rate on both sides.", CheckSeverity.OK)


def _check_load(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    result = _compare_load(a, b, context)
    if context.basis is Basis.PER_REQUEST or result.state is CheckState.MATCH:
        return result
    return replace(result, remedy=ENTER_REQUESTS)


def _compare_load(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    if context.missing_requests_reason:
        hint = "See the collector's --prometheus-url and --prometheus-requests-query, or give both numbers."
        text = f"not known, as there are no request counts: {context.missing_requests_reason}"
        return _make_unknown("load", text, hint, CheckSeverity.WARN)
    if context.basis is Basis.PER_REQUEST and a.request_rate is not None and b.request_rate is not None:
        text = f"A {format_number(a.request_rate)}, B {format_number(b.request_rate)} requests per pod-second"
        if _is_similar_load(a.request_rate, b.request_rate):
            return _make_match("load", f"{text}; times are per request")
        hint = "A busier side may take more or less per request, by its queues and caches."
        return _make_mismatch("load", f"{text}; times are per request", hint)
    hint = "Say how many each side served (baseline_requests, comparison_requests), or set --prometheus-url."
    if a.cpu_rate is None or b.cpu_rate is None:
        text = "not known: profiles count time, not requests. "
        return _make_unknown("load", f"{text}A busier side takes more without costing more per request", hint)
    text = (
        f"A's processes used {format_number(a.cpu_rate)} CPU seconds per pod-second, B's "
        f"{format_number(b.cpu_rate)}"
    )
    if _is_similar_load(a.cpu_rate, b.cpu_rate):
        return _make_match("load", text)
    more = "more" if b.cpu_rate > a.cpu_rate else "less"
    text = (
        f"{text}: without request counts it is unknown whether B was asked {more} or costs {more} per request"
    )
    return _make_mismatch("load", text, hint)


def _check_contention(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    """Check how long runnable threads waited for a CPU.

    Samples of the state `cpu_wait` tell. Where a side lacks it, they count as CPU time on both sides.
    """
    name = "contention"
    is_recorded = a.cpu_wait_share is not None and b.cpu_wait_share is not None
    in_a, in_b = (side.cpu_wait_share if is_recorded else _estimate_cpu_wait_share(side) for side in (a, b))
    if in_a is None or in_b is None:
        return _make_unknown(name, "the kernel's clock of the processes is not known of all that was sampled")
    text = (
        f"runnable threads waited for a CPU in {_format_share(in_a)} of A's samples and "
        f"{_format_share(in_b)} of B's"
    )
    if abs(in_a - in_b) <= MAX_CONTENTION_DIFFERENCE:
        return _make_match(name, text)
    more = "A" if in_a > in_b else "B"
    hint = "See the pods' CPU limits, and what else runs on their nodes."
    if is_recorded:
        return _make_mismatch(name, f"{text}: wall time counts that, CPU time does not", hint)
    hint = f"{hint} The whole CPU time is by the clock."
    return _make_mismatch(name, f"{text}: they count as CPU time, so functions of {more} look larger", hint)


def _estimate_cpu_wait_share(side: SamplingSummary) -> float | None:
    """Return the share by samples, or else estimate it from the CPU clock."""
    if side.cpu_wait_share is not None:
        return side.cpu_wait_share
    if side.cpu_rate is None or not side.sampled_cpu_rate:
        return None
    return max(0.0, 1 - side.cpu_rate / side.sampled_cpu_rate)


def _check_time(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    if not a.windows or not b.windows:
        return _make_unreported("time", "" if not a.windows else "told", "" if not b.windows else "told")
    if context.pairing == "time":
        return _make_match("time", "both sides were watched at the same time")
    ranges = f"A was watched {a.observed_range.format()}, B {b.observed_range.format()} (UTC)"
    if context.basis is Basis.EQUAL_LOAD:
        return _make_match("time", f"{ranges}; their load is assumed to be equal")
    if context.basis is Basis.PER_REQUEST:
        return _make_match("time", f"{ranges}; times are per request")
    text = f"{ranges}: their load may differ, so the total is not judged"
    remedy = find_time_remedy(a.observed_range, b.observed_range)
    return replace(_make_mismatch("time", text, TIME_HINT), remedy=remedy)


def _is_similar_load(a: float, b: float) -> bool:
    return abs(a - b) <= MAX_LOAD_DIFFERENCE * min(a, b)


def _format_share(part: float) -> str:
    return format_percent(part, 0 if part in (0, 1) else 1)


def _format_rates(periods_us: Sequence[float]) -> str:
    """Format the sampling rates of these periods."""
    rates = sorted({float(f"{1e6 / us:.3g}") for us in periods_us if us > 0})
    words = [f"{rate:g}" for rate in ([rates[0], rates[-1]] if len(rates) > 1 else rates)]
    return f"{'–'.join(words)} Hz"  # noqa: RUF001
