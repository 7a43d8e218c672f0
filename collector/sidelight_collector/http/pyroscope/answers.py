"""Answers of the query API as messages of `querier.v1.QuerierService`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sidelight_collector.answers.catalog import (
    LabelSet,
    list_label_names,
    list_label_sets,
    list_label_values,
    list_services,
)
from sidelight_collector.answers.export import encode_profile
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.grouped_series import GroupedSeries, SeriesLimits, query_grouped_series
from sidelight_collector.http.pyroscope.flamebearer import Flamebearer, build_flamebearer
from sidelight_collector.http.pyroscope.message_codec import Message
from sidelight_collector.http.pyroscope.selector_mapping import (
    TYPE_IDS,
    TYPE_LABELS,
    list_type_labels,
    to_pyroscope_label,
    to_window_label,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.stack_filter import StackFilter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.selectors import ENDPOINT_LABEL

MS_NS: Final = 1_000_000
MS_PER_SECOND: Final = SECOND_NS // MS_NS


def find_label_names(context: QueryContext, query: WindowQuery) -> Message:
    """Find the names of labels, with those that stand for endpoints and profile types."""
    labels = list_label_names(context, query)["labels"]
    if labels:
        labels = [*labels, ENDPOINT_LABEL, *TYPE_LABELS]
    return {"names": sorted(map(to_pyroscope_label, labels))}


def find_label_values(
    context: QueryContext, query: WindowQuery, name: str, kinds: Sequence[ProfileType]
) -> Message:
    """Find the values of a label.

    If only some profile types are selected, a window needs samples of them.
    """
    own_name = to_window_label(name)
    if name in TYPE_LABELS:
        present = _find_kinds(list_label_sets(context, query, ["service"], sys.maxsize), kinds)
        values = {list_type_labels(kind)[name] for kind in present}
    elif len(kinds) == len(TYPE_IDS) or own_name == ENDPOINT_LABEL:
        values = set(list_label_values(context, query, own_name)["values"])
    else:
        sets = list_label_sets(context, query, [own_name], sys.maxsize)
        values = {value for one in sets if one.kinds & set(kinds) for value in one.labels.values()}
    return {"names": sorted(values)}


def find_series(
    context: QueryContext,
    query: WindowQuery,
    names: Sequence[str],
    kinds: Sequence[ProfileType],
    max_sets: int,
) -> Message:
    """Find the label sets of each profile type with samples.

    Without `names` they have all labels.
    """
    of_windows = [to_window_label(name) for name in names if name not in TYPE_LABELS]
    of_types = [name for name in TYPE_LABELS if not names or name in names]
    is_types_alone = bool(names) and not of_windows
    sets = list_label_sets(context, query, ["service"] if is_types_alone else of_windows, max_sets)
    found: dict[tuple[tuple[str, str], ...], None] = {}
    for one in sets:
        labels = {} if is_types_alone else one.labels
        for kind in _find_kinds([one], kinds):
            type_labels = list_type_labels(kind)
            pairs = _rename(labels) | {name: type_labels[name] for name in of_types}
            found[tuple(sorted(pairs.items()))] = None
    return {"labels_set": [{"labels": _build_pairs(dict(one))} for one in sorted(found)]}


def select_series(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    group_by: Sequence[str],
    step_ns: int | None,
    limits: SeriesLimits,
    top: int | None,
) -> Message:
    """Sum the time of each step by labels."""
    answer = group_series(context, query, kind, group_by, step_ns, limits, top)
    type_labels = list_type_labels(kind)
    of_types = {name: type_labels[name] for name in group_by if name in type_labels}
    return {
        "series": [
            {
                "labels": _build_pairs(_rename(one.labels) | of_types),
                "points": [
                    {"value": float(ns), "timestamp": (answer.first_step + at) * answer.step_ns // MS_NS}
                    for at, ns in one.points.items()
                ],
            }
            for one in answer.series
        ]
    }


def group_series(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    group_by: Sequence[str],
    step_ns: int | None,
    limits: SeriesLimits,
    top: int | None = None,
) -> GroupedSeries:
    """Compute series by labels with Pyroscope's names."""
    labels = tuple(to_window_label(name) for name in group_by if name not in TYPE_LABELS)
    return query_grouped_series(context, query, kind, labels=labels, step_ns=step_ns, limits=limits, top=top)


def merge_profile(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    stack_filter: StackFilter,
    max_frames: int,
) -> bytes:
    """Build a profile in pprof.

    Below a call site its functions have the names of the flame graph, by which clients look them up.
    """
    return encode_profile(
        context,
        sides[0],
        kind,
        max_frames=max_frames,
        stack_filter=stack_filter,
        files_in_names=not stack_filter.accepts_all,
    )


def wrap_pprof(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    stack_filter: StackFilter,
    max_frames: int,
) -> Message:
    """Build a profile in pprof as the answer of SelectMergeStacktraces."""
    return {"pprof": {"profile": merge_profile(context, sides, kind, stack_filter, max_frames)}}


def draw_flame_graph(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    nodes: int,
    max_nodes: int,
    stack_filter: StackFilter,
) -> Message:
    """Build the flame graph of one side or two.

    One side without samples has a message without a graph.
    """
    bars = draw_bars(context, sides, kind, nodes, max_nodes, stack_filter)
    graph: dict[str, object] = {
        "names": bars.names,
        "levels": [{"values": level} for level in bars.levels],
        "total": sum(bars.totals),
        "max_self": bars.max_self,
    }
    if len(sides) == 1:
        return {"flamegraph": graph} if bars.totals[0] else {}
    left, right = bars.totals
    return {"flamegraph": {**graph, "leftTicks": left, "rightTicks": right}}


def draw_bars(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    nodes: int,
    max_nodes: int,
    stack_filter: StackFilter,
) -> Flamebearer:
    """Build the bars of one side or two."""
    graph = query_flame_graph(
        context, sides, kind, lines=False, nodes=nodes, max_nodes=max_nodes, stack_filter=stack_filter
    )
    return build_flamebearer(graph)


def find_profile_stats(context: QueryContext, query: WindowQuery) -> Message:
    """Find when the first and the last window of a range began and ended."""
    services = list_services(context, query)["services"]
    if not services:
        return {"data_ingested": False}
    return {
        "data_ingested": True,
        "oldest_profile_time": int(min(one["first_seen"] for one in services) * MS_PER_SECOND),
        "newest_profile_time": int(max(one["last_seen"] for one in services) * MS_PER_SECOND),
    }


def _build_pairs(labels: Mapping[str, str]) -> list[Message]:
    return [{"name": name, "value": value} for name, value in sorted(labels.items())]


def _rename(labels: Mapping[str, str]) -> dict[str, str]:
    return {to_pyroscope_label(name): value for name, value in labels.items()}


def _find_kinds(sets: Iterable[LabelSet], kinds: Sequence[ProfileType]) -> list[ProfileType]:
    """Return those of `kinds` that have samples in any of the label sets."""
    present = frozenset[ProfileType]().union(*(one.kinds for one in sets))
    return [kind for kind in TYPE_IDS if kind in kinds and kind in present]
