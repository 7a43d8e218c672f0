"""Fetch a verdict from a collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sidelight_cli.collector_api import CollectorApiClient
from sidelight_cli.collector_errors import NOT_A_COLLECTOR_HINT, CollectorUnreachable, RequestRefused
from sidelight_cli.compare.comparison_model import ComparisonVerdict, parse_verdict
from sidelight_cli.compare.settings import BASES, CompareSettings
from sidelight_cli.export_command import format_optional_int, select_endpoint
from sidelight_model.change import DEFAULT_SIZES
from sidelight_model.errors import Reason
from sidelight_model.selectors import expand_side

MAX_FUNCTIONS: Final = 10_000
"""Maximum number of functions to request: the collector orders by total, the reports may order by self."""


def fetch_verdict(client: CollectorApiClient, settings: CompareSettings) -> ComparisonVerdict:
    """Fetch one verdict.

    Raises CollectorUnreachable if there is no valid response, RequestRefused if the collector refuses.
    """
    try:
        answer = client.get("verdict", build_parameters(settings))
    except RequestRefused as error:
        if error.status == 404 and error.reason is Reason.NOT_FOUND:
            error.hint = (
                "The collector is older than this command: update it, or use its version of sidelight."
            )
        raise
    try:
        return parse_verdict(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CollectorUnreachable(
            f"{settings.collector} answered no verdict", hint=NOT_A_COLLECTOR_HINT
        ) from error


def build_parameters(settings: CompareSettings) -> Mapping[str, str | Sequence[str]]:
    """Return the query parameters of the request."""
    values = {
        "query": select_endpoint(settings.selector, settings.endpoint),
        "from": settings.from_,
        "until": settings.until,
        "baseline_from": settings.baseline_from,
        "baseline_until": settings.baseline_until,
        "comparison_from": settings.comparison_from,
        "comparison_until": settings.comparison_until,
        "type": settings.type,
        "min_depth": format_optional_int(settings.min_depth),
        "max_depth": format_optional_int(settings.max_depth),
        "function": settings.function,
        "focus": settings.focus,
        "group_by": settings.group_by,
        "min_effect": _format_decimal(settings.min_effect),
        "alpha": _format_decimal(settings.alpha),
        "min_coverage": _format_decimal(settings.min_coverage),
        "analysis_index": format_optional_int(settings.analysis_index),
        "limit": str(MAX_FUNCTIONS),
        "baseline_requests": _format_decimal(settings.baseline_requests),
        "comparison_requests": _format_decimal(settings.comparison_requests),
    }
    query: dict[str, str | Sequence[str]] = {name: text for name, text in values.items() if text}
    # The collector chooses a side that is missing; `match:` selects everything.
    sides = {"baseline": settings.baseline, "comparison": settings.comparison}
    query |= {name: expand_side(side) or "{}" for name, side in sides.items() if side}
    query |= _build_newer_parameters(settings)
    if settings.fail_on:
        query["conditions"] = [str(condition) for condition in settings.fail_on]
    return query


def _build_newer_parameters(settings: CompareSettings) -> Mapping[str, str]:
    """Return parameters that older collectors refuse, unless they have their default."""
    parameters = {}
    if settings.basis != BASES[0]:
        parameters["basis"] = settings.basis
    for name in ("min_relevant_share", "min_relevant_depth"):
        value = getattr(settings, name)
        if value != getattr(DEFAULT_SIZES, name.removeprefix("min_relevant_")):
            parameters[name] = _format_decimal(value)
    return parameters


def _format_decimal(value: float | None) -> str:
    """Format a number without an exponent; None gives an empty text."""
    return "" if value is None else f"{value:.15f}".rstrip("0").rstrip(".")
