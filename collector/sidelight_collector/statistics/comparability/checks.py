"""All checks of a comparison, with what to do about those that fail."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight_collector.statistics.comparability.check_result import CheckResult, CheckSeverity
from sidelight_collector.statistics.comparability.load_checks import (
    check_contention,
    check_load,
    check_pods,
    check_time,
)
from sidelight_collector.statistics.comparability.sampling_checks import (
    check_coverage,
    check_mode,
    check_normalisation,
    check_python,
    check_rate,
    check_reader,
    check_sampler,
    check_truncation,
)
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext, SamplingSummary
from sidelight_collector.statistics.comparability.state_checks import check_states


def run_checks(a: SamplingSummary, b: SamplingSummary, context: CheckContext) -> list[CheckResult]:
    """Run all checks, always in this order."""
    return [
        check_mode(a, b),
        check_states(a, b, context),
        check_sampler(a, b),
        check_reader(a, b),
        check_normalisation(a, b, context),
        check_python(a, b),
        check_truncation(a, b),
        check_coverage(a, b, context),
        check_pods(a, b, context),
        check_rate(a, b),
        check_load(a, b, context),
        check_contention(a, b, context),
        check_time(a, b, context),
    ]


def select_blocking_checks(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the checks that make the sides not comparable."""
    return [check for check in results if check.severity is CheckSeverity.BLOCKING]
