"""What there is, and how much in each step of time, is answered without opening samples or stacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from sidelight_collector.answers.catalog import list_label_names, list_label_values, list_services
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.heatmap import HeatmapLimits, query_heatmap
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_model.counts import ProfileType
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import asked, question, stored, window

SELECTED = question('{version="1", pod=~"pod-.*"}')
CALLS: Mapping[str, Callable[[QueryContext], object]] = {
    "services": partial(list_services, query=SELECTED),
    "labels": partial(list_label_names, query=SELECTED),
    "values": partial(list_label_values, query=SELECTED, name="pod"),
    "overview": partial(query_service_overview, query=SELECTED, kind=ProfileType.CPU, max_services=10),
    "heatmap": partial(
        query_heatmap,
        query=SELECTED,
        kind=ProfileType.CPU,
        rows="pod",
        step_ns=None,
        zone="UTC",
        limits=HeatmapLimits(1000, 10, 1000),
    ),
    "timeline": partial(query_timeline, query=SELECTED, kind=ProfileType.CPU, step_ns=None, max_steps=1000),
}


def holding(*, blocks: bool) -> Counting:
    """Segments, or a block of them with all that it adds up."""
    windows = [window("main;f 3 | main;g 1", at=10 * number, pod=f"pod-{number % 3}") for number in range(12)]
    store = stored(windows[:6], windows[6:], store=MemoryStore())
    if blocks:
        Compaction(store, Metrics(), CompactionPolicy(min_segments=1), interval_seconds=1).run_once()
        for entry in list(store.list("v1/l0/")):
            store.delete(entry.key)
    return Counting(store)


@pytest.mark.parametrize("blocks", [False, True], ids=["segments", "blocks"])
@pytest.mark.parametrize("call", CALLS)
def test_a_catalogue_call_opens_no_table_of_samples_or_stacks(call: str, blocks: bool) -> None:
    store = holding(blocks=blocks)
    answer = asked(store, CALLS[call])
    assert isinstance(answer, dict)
    assert answer["basis"]["windows"] == 12
    assert store.tables() in ({"profiles"}, {"hours"} if blocks else {"profiles"})


@pytest.mark.parametrize("blocks", [False, True], ids=["segments", "blocks"])
def test_a_flame_graph_opens_more_so_the_tests_above_can_fail(blocks: bool) -> None:
    store = holding(blocks=blocks)
    drawn = partial(
        query_flame_graph, sides=[SELECTED], kind=ProfileType.CPU, lines=False, nodes=None, max_nodes=100
    )
    assert asked(store, drawn)["basis"]["windows"] == 12
    assert store.tables() >= {"stacks", "daily" if blocks else "samples"}
