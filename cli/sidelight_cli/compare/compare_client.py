"""Asks a collector for a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sidelight_cli.collector_api import NOT_A_COLLECTOR, Client, Refused, Unreachable
from sidelight_cli.compare.comparison_model import Verdict, read
from sidelight_cli.compare.settings import CompareSettings
from sidelight_cli.export_command import number
from sidelight_model.errors import Reason
from sidelight_model.selectors import side_matchers

MOST_FUNCTIONS: Final = 10_000
"""Functions asked for: the collector lists by difference of total, and the order here may be another."""


def ask(client: Client, settings: CompareSettings) -> Verdict:
    """One verdict. Raises Unreachable or Refused."""
    try:
        answer = client.get("verdict", parameters(settings))
    except Refused as error:
        if error.status == 404 and error.reason is Reason.NOT_FOUND:
            error.hint = (
                "The collector is older than this command: update it, or use its version of sidelight."
            )
        raise
    try:
        return read(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"{settings.collector} answered no verdict", hint=NOT_A_COLLECTOR) from error


def parameters(settings: CompareSettings) -> Mapping[str, str | Sequence[str]]:
    """The query of the request."""
    given = {
        "query": settings.selector,
        "from": settings.from_,
        "until": settings.until,
        "baseline_from": settings.baseline_from,
        "baseline_until": settings.baseline_until,
        "comparison_from": settings.comparison_from,
        "comparison_until": settings.comparison_until,
        "type": settings.type,
        "min_depth": number(settings.min_depth),
        "max_depth": number(settings.max_depth),
        "function": settings.function,
        "focus": settings.focus,
        "min_effect": _decimal(settings.min_effect),
        "alpha": _decimal(settings.alpha),
        "min_coverage": _decimal(settings.min_coverage),
        "analysis_index": number(settings.analysis_index),
        "limit": str(MOST_FUNCTIONS),
        "load": "equal" if settings.assume_equal_load else "",
        "baseline_requests": _decimal(settings.baseline_requests),
        "comparison_requests": _decimal(settings.comparison_requests),
    }
    words: dict[str, str | Sequence[str]] = {name: text for name, text in given.items() if text}
    words |= {"baseline": side_matchers(settings.baseline), "comparison": side_matchers(settings.comparison)}
    if settings.fail_on:
        words["conditions"] = [str(condition) for condition in settings.fail_on]
    return words


def _decimal(value: float | None) -> str:
    """A number without an exponent; none is left out."""
    return "" if value is None else f"{value:.15f}".rstrip("0").rstrip(".")
