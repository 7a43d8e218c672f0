"""What there is, and how much in each step of time, is answered without opening samples or stacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from sidelight_collector.answers.catalog import label_names, label_values, services
from sidelight_collector.answers.flame import flame
from sidelight_collector.answers.heatmap import Bounds, heatmap
from sidelight_collector.answers.service_overview import overview
from sidelight_collector.answers.timeline import timeline
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_context import Reading
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, Rules
from sidelight_model.counts import ProfileType
from tests.collector.counting import Counting
from tests.collector.storing import asked, question, stored, window

SELECTED = question('{version="1", pod=~"pod-.*"}')
CALLS: Mapping[str, Callable[[Reading], object]] = {
    "services": partial(services, question=SELECTED),
    "labels": partial(label_names, question=SELECTED),
    "values": partial(label_values, question=SELECTED, name="pod"),
    "overview": partial(overview, question=SELECTED, kind=ProfileType.CPU, most=10),
    "heatmap": partial(
        heatmap,
        question=SELECTED,
        kind=ProfileType.CPU,
        rows="pod",
        step_ns=None,
        zone="UTC",
        bounds=Bounds(1000, 10, 1000),
    ),
    "timeline": partial(timeline, question=SELECTED, kind=ProfileType.CPU, step_ns=None, most=1000),
}


def holding(*, blocks: bool) -> Counting:
    """Segments, or a block of them with all that it adds up."""
    windows = [window("main;f 3 | main;g 1", at=10 * number, pod=f"pod-{number % 3}") for number in range(12)]
    store = stored(windows[:6], windows[6:], store=MemoryStore())
    if blocks:
        Compaction(store, Metrics(), Rules(segments=1), interval_seconds=1).look()
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
    drawn = partial(flame, sides=[SELECTED], kind=ProfileType.CPU, lines=False, nodes=None, most=100)
    assert asked(store, drawn)["basis"]["windows"] == 12
    assert store.tables() >= {"stacks", "daily" if blocks else "samples"}
