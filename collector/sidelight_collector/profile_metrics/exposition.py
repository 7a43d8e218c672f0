"""The text format of Prometheus for the series of rules. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.answers.endpoints import escape_label
from sidelight_collector.profile_metrics.rules import RuleGroup, RuleResult
from sidelight_collector.times import SECOND_NS

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
DROPPED: Final = "sidelight_profile_rule_dropped_series"
INTERVAL_END: Final = "sidelight_profile_rule_interval_end_timestamp_seconds"
FAILED: Final = "sidelight_profile_rule_group_failed"
METRICS: Final = (DROPPED, INTERVAL_END, FAILED)
"""The metrics about the rules."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The results of a group in the interval that ends at `until_ns`.

    `results` is None if the query failed.
    """

    group: RuleGroup
    until_ns: int
    results: Sequence[RuleResult] | None


@dataclass(frozen=True, slots=True)
class Exposition:
    """The text, and the number of dropped series of each metric."""

    text: str
    dropped: dict[str, int]


def format_groups(groups: Iterable[GroupResult], max_series: int) -> Exposition:
    """Write all groups, with at most `max_series` series of their rules together.

    The first rules win. A series that repeats the labels of another one of the same metric is dropped too.
    """
    families: dict[str, list[str]] = {}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    dropped: dict[str, int] = {}
    ends: list[str] = []
    failed: list[str] = []
    count = 0
    for of_group in groups:
        label = _format_labels((("group", of_group.group.name),))
        failed.append(f"{FAILED}{label} {int(of_group.results is None)}")
        if of_group.results is None:
            continue
        ends.append(f"{INTERVAL_END}{label} {of_group.until_ns // SECOND_NS}")
        for result in of_group.results:
            name = result.rule.record
            lines = families.setdefault(name, _format_header(name, _describe(result, of_group.group)))
            fits = [one for one in result.series if (name, one.labels) not in seen][: max_series - count]
            seen.update((name, one.labels) for one in fits)
            count += len(fits)
            dropped[name] = dropped.get(name, 0) + result.dropped + len(result.series) - len(fits)
            lines += [f"{name}{_format_labels(one.labels)} {one.value:.6g}" for one in fits]
    families[DROPPED] = [
        *_format_header(DROPPED, "Series of a metric that a limit dropped, those with the least values."),
        *(f"{DROPPED}{_format_labels((('record', name),))} {number}" for name, number in dropped.items()),
    ]
    families[INTERVAL_END] = [
        *_format_header(INTERVAL_END, "End of the interval that the values of a group are means of."),
        *ends,
    ]
    families[FAILED] = [
        *_format_header(FAILED, "1 if the query of a group failed, so that its metrics are missing."),
        *failed,
    ]
    text = "".join(f"{line}\n" for lines in families.values() for line in lines)
    return Exposition(text, {name: number for name, number in dropped.items() if number})


def _describe(result: RuleResult, group: RuleGroup) -> str:
    rule = result.rule
    unit = rule.unit.capitalize()
    return (
        f"{unit} (profile type {rule.profile_type}), mean over the last complete {group.interval_seconds} s."
    )


def _format_header(name: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge"]


def _format_labels(labels: Sequence[tuple[str, str]]) -> str:
    pairs = ",".join(f'{name}="{escape_label(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""
