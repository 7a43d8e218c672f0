"""Checks of how the sides were sampled: mode, releases, coverage and rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sidelight_collector.statistics.comparability.check_result import (
    CheckResult,
    CheckSeverity,
    CheckState,
    format_share,
    join_values,
    make_match,
    make_mismatch,
    make_note,
    make_unknown,
    make_unreported,
)
from sidelight_collector.statistics.comparability.sampling_summary import (
    CheckContext,
    SamplingSummary,
    list_minor_versions,
)
from sidelight_collector.statistics.remedies import CHANGE_DEPLOYMENT, FOLD_LINES

MAX_COVERAGE_DIFFERENCE: Final = 0.1
MAX_TRUNCATION_DIFFERENCE: Final = 0.005
FALLBACK_MODES: Final = frozenset(("command", "nonblocking"))
"""Modes whose stacks cannot be compared with those of other modes."""


def _check_values(name: str, sides: tuple[Sequence[str], Sequence[str]], why: str, hint: str) -> CheckResult:
    a, b = map(join_values, sides)
    if not a or not b:
        return make_unreported(name, a, b)
    if a == b:
        return make_match(name, f"{a} on both sides")
    return make_mismatch(name, f"A {a}, B {b}: {why}", hint)


def check_mode(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    why = "they see waiting threads, and hold the process up, differently."
    result = _check_values("mode", (a.modes, b.modes), why, "Set the same --mode on both sides.")
    if result.state is CheckState.MISMATCH and not set(a.modes) & set(b.modes):
        for modes in (a.modes, b.modes):
            if set(modes) <= FALLBACK_MODES:
                sides = f"A was sampled in mode {join_values(a.modes)}, B in mode {join_values(b.modes)}"
                text = f"{sides}: stacks of {join_values(modes)} are no match for the others'."
                return replace(make_mismatch("mode", text, result.hint), severity=CheckSeverity.BLOCKING)
    return result


def check_sampler(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    why = "frame names can differ between them."
    return _check_values(
        "sampler", (a.samplers, b.samplers), why, "Bring both sides to one release of the sidecar."
    )


def check_reader(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    why = "doubt a difference that begins with the reader."
    hint = "Set the same --mode for the sidecars of both sides: it chooses the reader."
    return _check_values("reader", (a.readers, b.readers), why, hint)


def check_normalisation(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    name = "normalisation"
    if bool(a.thread_kinds) != bool(b.thread_kinds) and a.windows and b.windows:
        split_side, merged_side = ("A", "B") if a.thread_kinds else ("B", "A")
        text = (
            f"{split_side} tells kinds of threads apart "
            f"({join_values(a.thread_kinds or b.thread_kinds)}), {merged_side} does not"
        )
        hint = "Do not pick samples by thread, or bring both sides to one release of the sidecar."
        return make_mismatch(name, text, hint)
    if context.has_lines:
        text = (
            "frames are distinguished by line: lines move between versions, and moved lines look "
            "new and removed"
        )
        return CheckResult(
            name,
            CheckState.UNKNOWN,
            CheckSeverity.WARN,
            "lines_separate",
            text,
            "Request it with lines=0.",
            FOLD_LINES,
        )
    return make_match(name, "frames by function and file on both sides, their lines folded away")


def check_python(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    hint = "Compare within one version of Python, or read changes of its own modules with care."
    result = _check_values(
        "python", (a.python_versions, b.python_versions), "the standard library's frames can differ.", hint
    )
    minor = [list_minor_versions(side.python_versions) for side in (a, b)]
    if result.state is CheckState.MISMATCH and minor[0] == minor[1]:
        return make_note(result.name, result.text, result.hint)
    return result


def check_truncation(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    text = (
        f"{format_share(a.truncated_share)} of A's stacks and {format_share(b.truncated_share)} "
        "of B's lost their middle"
    )
    if abs(a.truncated_share - b.truncated_share) <= MAX_TRUNCATION_DIFFERENCE:
        return make_match("truncation", text)
    more = f"{text}: paths end in (truncated) more often on one side"
    return make_mismatch(
        "truncation", more, "Raise --max-depth of the sidecars to the same value on both sides."
    )


def check_coverage(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> CheckResult:
    name, hint = "coverage", "See the sidecar's log, and its sidelight_sidecar_sampling_errors_total by kind."
    if a.coverage is None or b.coverage is None:
        return make_unknown(name, "not recorded in the windows")
    text = (
        f"ticks gave stacks in {format_share(a.coverage)} of A's time and {format_share(b.coverage)} of B's"
    )
    if min(a.coverage, b.coverage) < context.min_coverage:
        low = " and ".join(
            who for who, side in (("A", a.coverage), ("B", b.coverage)) if side < context.min_coverage
        )
        text = f"{text}: what {low} missed may differ from what was seen"
        return CheckResult(
            name, CheckState.MISMATCH, CheckSeverity.WARN, "low_coverage", text, hint, CHANGE_DEPLOYMENT
        )
    if abs(a.coverage - b.coverage) > MAX_COVERAGE_DIFFERENCE:
        return make_mismatch(name, f"{text}; rates allow for it", hint)
    return make_match(name, f"{text}; rates allow for it")


def check_rate(a: SamplingSummary, b: SamplingSummary) -> CheckResult:
    in_a, in_b = (_format_rates(side.periods_us) if side.periods_us else "" for side in (a, b))
    if not in_a or not in_b:
        return make_unreported("rate", in_a, in_b)
    if in_a == in_b:
        return make_match("rate", f"{in_a} on both sides")
    text = f"A {in_a}, B {in_b}: time is samples × period, so sums stay right; the slower side is noisier."  # noqa: RUF001
    return make_note("rate", text, "Set the same --rate on both sides.")


def _format_rates(periods_us: Sequence[float]) -> str:
    """Format the sampling rates of these periods."""
    rates = sorted({float(f"{1e6 / us:.3g}") for us in periods_us if us > 0})
    words = [f"{rate:g}" for rate in ([rates[0], rates[-1]] if len(rates) > 1 else rates)]
    return f"{'–'.join(words)} Hz"  # noqa: RUF001
