"""Checks of what the sides had to do: pods, load, contention and time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.comparability.check_result import (
    CheckResult,
    CheckSeverity,
    CheckState,
    format_share,
    make_match,
    make_mismatch,
    make_note,
    make_unknown,
    make_unreported,
)
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext, SamplingSummary
from sidelight_collector.statistics.remedies import (
    CHANGE_DEPLOYMENT,
    CHOOSE_RANGE,
    ENTER_REQUESTS,
    USE_COMPOSITION,
    USE_CPU_TIME,
    find_time_remedy,
)
from sidelight_model.change import format_number
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.provenance import format_count

MAX_CONTENTION_DIFFERENCE: Final = 0.1
MAX_LOAD_DIFFERENCE: Final = 0.2
"""Difference in load, relative to the smaller, that gives no warning."""
TIME_HINT: Final = (
    "Compare the versions while both run, or give request counts. "
    "If both had the same load, as in a load test, choose basis=equal_load."
)


def check_pods(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    both = f"A {format_count(a.pods, 'pod')}, B {format_count(b.pods, 'pod')}"
    text = f"{format_count(a.pods, 'pod')} on both sides" if a.pods == b.pods else both
    if not a.pods or not b.pods:
        return make_unknown("pods", text)
    if min(a.pods, b.pods) == 1:
        only = "either side" if a.pods == b.pods else "A" if a.pods == 1 else "B"
        text = (
            f"one pod on {only}: how much pods differ cannot be seen, and intervals speak of this pod alone"
        )
        return CheckResult(
            "pods",
            CheckState.MISMATCH,
            CheckSeverity.WARN,
            "few_pods",
            text,
            "Watch more pods of each side.",
            CHANGE_DEPLOYMENT,
        )
    if not context.has_pod_rows:
        text = f"{text}, not kept apart so far back: intervals are for these pods, and come from time alone"
        hint = "Choose a shorter or later range, for which single windows are kept."
        return CheckResult(
            "pods", CheckState.UNKNOWN, CheckSeverity.WARN, "pods_merged", text, hint, CHOOSE_RANGE
        )
    if a.pods == b.pods:
        return make_match("pods", text)
    text = f"{both}: rates are per pod-second, so they allow for it"
    return make_note("pods", text, "Nothing, unless pods share the load of one side.")


def check_load(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    result = _compare_load(a, b, context)
    if result.state is CheckState.MATCH:
        return result
    is_per_request = context.basis is Basis.PER_REQUEST
    return replace(result, remedy=USE_COMPOSITION if is_per_request else ENTER_REQUESTS)


def _compare_load(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    if context.missing_requests_reason:
        hint = "See the collector's --prometheus-url and --prometheus-requests-query, or give both numbers."
        text = f"not known, as there are no request counts: {context.missing_requests_reason}"
        return replace(make_unknown("load", text, hint), severity=CheckSeverity.WARN)
    if context.basis is Basis.PER_REQUEST and a.request_rate is not None and b.request_rate is not None:
        text = f"A {format_number(a.request_rate)}, B {format_number(b.request_rate)} requests per pod-second"
        if _is_similar_load(a.request_rate, b.request_rate):
            return make_match("load", f"{text}; times are per request")
        hint = "A busier side may take more or less per request, by its queues and caches."
        return make_mismatch("load", f"{text}; times are per request", hint)
    hint = "Say how many each side served (baseline_requests, comparison_requests), or set --prometheus-url."
    if a.cpu_rate is None or b.cpu_rate is None:
        text = "not known: profiles count time, not requests. "
        return make_unknown("load", f"{text}A busier side takes more without costing more per request", hint)
    text = (
        f"A's processes used {format_number(a.cpu_rate)} CPU seconds per pod-second, B's "
        f"{format_number(b.cpu_rate)}"
    )
    if _is_similar_load(a.cpu_rate, b.cpu_rate):
        return make_match("load", text)
    more = "more" if b.cpu_rate > a.cpu_rate else "less"
    text = (
        f"{text}: without request counts it is unknown whether B was asked {more} or costs {more} per request"
    )
    return make_mismatch("load", text, hint)


def check_contention(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    """Check how long runnable threads waited for a CPU.

    Samples of the state `cpu_wait` tell. Where a side lacks it, they count as CPU time on both sides.
    """
    name = "contention"
    is_recorded = a.cpu_wait_share is not None and b.cpu_wait_share is not None
    in_a, in_b = (side.cpu_wait_share if is_recorded else _estimate_cpu_wait_share(side) for side in (a, b))
    if in_a is None or in_b is None:
        return make_unknown(name, "the kernel's clock of the processes is not known of all that was sampled")
    text = (
        f"runnable threads waited for a CPU in {format_share(in_a)} of A's samples and "
        f"{format_share(in_b)} of B's"
    )
    if abs(in_a - in_b) <= MAX_CONTENTION_DIFFERENCE:
        return make_match(name, text)
    more = "A" if in_a > in_b else "B"
    hint = "See the pods' CPU limits, and what else runs on their nodes."
    if is_recorded:
        remedy = CHANGE_DEPLOYMENT if context.kind is ProfileType.CPU else USE_CPU_TIME
        return make_mismatch(name, f"{text}: wall time counts that, CPU time does not", hint, remedy)
    hint = f"{hint} The whole CPU time is by the clock."
    remedy = CHANGE_DEPLOYMENT if context.basis is Basis.COMPOSITION else USE_COMPOSITION
    return make_mismatch(
        name, f"{text}: they count as CPU time, so functions of {more} look larger", hint, remedy
    )


def _estimate_cpu_wait_share(side: SamplingSummary) -> float | None:
    """Return the share by samples, or else estimate it from the CPU clock."""
    if side.cpu_wait_share is not None:
        return side.cpu_wait_share
    if side.cpu_rate is None or not side.sampled_cpu_rate:
        return None
    return max(0.0, 1 - side.cpu_rate / side.sampled_cpu_rate)


def check_time(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    if not a.windows or not b.windows:
        return make_unreported("time", "" if not a.windows else "told", "" if not b.windows else "told")
    if context.pairing == "time":
        return make_match("time", "both sides were watched at the same time")
    ranges = f"A was watched {a.observed_range.format()}, B {b.observed_range.format()} (UTC)"
    if context.basis is Basis.EQUAL_LOAD:
        return make_match("time", f"{ranges}; their load is assumed to be equal")
    if context.basis is Basis.PER_REQUEST:
        return make_match("time", f"{ranges}; times are per request")
    text = f"{ranges}: their load may differ, so the total is not judged"
    return make_mismatch("time", text, TIME_HINT, find_time_remedy(a.observed_range, b.observed_range))


def _is_similar_load(a: float, b: float) -> bool:
    return abs(a - b) <= MAX_LOAD_DIFFERENCE * min(a, b)
