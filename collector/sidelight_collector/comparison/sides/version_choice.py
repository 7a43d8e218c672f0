"""Versions of sides without a selector: the newest, and the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sidelight_collector.comparison.sides.range_statement import format_time_range
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter, MissingVersion
from sidelight_collector.query.select.observed_time import find_previous_version, list_version_spans
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS, ObservedSpan
from sidelight_model.errors import Reason
from sidelight_model.selectors import Matcher, Op, Selector

ABSENT_SECONDS: Final = 900.0
"""A version not seen for this long before another appears has been replaced."""

ServiceVersions = Mapping[tuple[str, str], Mapping[str, ObservedSpan]]
"""The versions of each namespace and service."""


@dataclass(frozen=True, slots=True)
class VersionChoice:
    """The selectors that the collector chose, by side.

    `text` is the start of a sentence that names them.
    """

    selectors: Mapping[str, Selector] = field(default_factory=dict)
    text: str = ""


def choose_versions(
    context: QueryContext, query: WindowQuery, baseline: Selector | None, comparison: Selector | None
) -> VersionChoice:
    """Choose a version for each side that is None, among those of the query.

    A missing comparison is the newest version. A missing baseline is the version before the comparison's
    newest. Without windows nothing is chosen. Raises MissingVersion if there is no such version, and
    BadParameter if services differ in it.
    """
    if baseline is not None and comparison is not None:
        return VersionChoice()
    services = _list_versions(context, query)
    compared = services
    if comparison is not None:
        selector = query.selector & comparison
        compared = _list_versions(context, WindowQuery(selector, query.from_ns, query.until_ns))
    if not compared:
        return VersionChoice()
    pairs = {
        service: _find_pair(services[service], versions, query.from_ns / SECOND_NS)
        for service, versions in compared.items()
    }
    previous, newest = _require_agreement(pairs, query, is_baseline_given=baseline is not None)
    selectors = {}
    if not newest:
        raise MissingVersion(
            f"the windows of {query.selector} have no label version",
            reason=Reason.NO_VERSION_LABEL,
            hint="Give baseline and comparison, such as values of another label.",
        )
    if comparison is None:
        selectors["comparison"] = _select_version(newest)
        if baseline is not None and set(selectors["comparison"].matchers) <= set(baseline.matchers):
            raise BadParameter(
                f"comparison is not given, and the baseline is the newest version, {_quote(newest)}",
                hint="Give comparison.",
            )
    if baseline is not None:
        return VersionChoice(selectors, f"The newest version, {_quote(newest)}, is compared")
    if previous is None:
        raise MissingVersion(
            f"no version ran before {_quote(newest)} in {query.selector} "
            f"{format_time_range(query.from_ns, query.until_ns)}",
            hint="Give baseline, or two times of one version: baseline_from, baseline_until, comparison_from "
            "and comparison_until. The collector looks back --comparison-lookback-days.",
        )
    selectors["baseline"] = _select_version(previous)
    return VersionChoice(
        selectors, f"Version {_quote(newest)} is compared with the one before it, {_quote(previous)}"
    )


def _list_versions(context: QueryContext, query: WindowQuery) -> ServiceVersions:
    services: dict[tuple[str, str], dict[str, ObservedSpan]] = {}
    for found in list_version_spans(context, query):
        services.setdefault((found.namespace, found.service), {})[found.version] = found.span
    return services


def _find_pair(
    versions: Mapping[str, ObservedSpan], compared: Mapping[str, ObservedSpan], start: float
) -> tuple[str | None, str]:
    """Return the newest of the compared versions, and the version before it.

    Versions that ran when the range began are ordered by their last window, because it is not
    known which is newer.
    """

    def sort_key(version: str) -> tuple[bool, float, float, str]:
        span = versions[version]
        return bool(version), max(span.first, start + ABSENT_SECONDS), span.last, version

    ordered = sorted(versions, key=sort_key)
    newest = max(compared, key=sort_key)
    earlier = ordered[: ordered.index(newest)]
    previous = find_previous_version(
        {name: versions[name] for name in earlier}, versions[newest].first, ABSENT_SECONDS
    )
    return previous if previous is not None or not earlier else earlier[-1], newest


def _require_agreement(
    pairs: Mapping[tuple[str, str], tuple[str | None, str]], query: WindowQuery, *, is_baseline_given: bool
) -> tuple[str | None, str]:
    """Return the versions of all services. Raises BadParameter if they differ."""
    distinct = {(None if is_baseline_given else previous, newest) for previous, newest in pairs.values()}
    if len(distinct) > 1:
        named = [
            f"{service}{f' in {namespace}' if namespace else ''} ({_quote(newest)})"
            for (namespace, service), (_, newest) in sorted(pairs.items())[:3]
        ]
        raise BadParameter(
            f"a side is not given, and the {len(pairs)} services of {query.selector} differ in their "
            f"versions: {', '.join(named)}{', …' if len(pairs) > len(named) else ''}",
            hint='Select one service with query, such as {namespace="prod", service="shop"}, or give '
            "baseline and comparison.",
        )
    return distinct.pop()


def _select_version(version: str) -> Selector:
    return Selector((Matcher("version", Op.EQUAL, version),))


def _quote(version: str) -> str:
    return f'"{version}"' if version else "(no version)"
