"""Functions across services, against a count by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.answers.fleet_functions import query_fleet_functions
from sidelight_collector.answers.top_and_depth import CostOrder
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import asked, question, stored, window

DUMPS, WORK = "dumps (json/__init__.py:230)", "work (app.py:4)"


def ask(
    store: ObjectStore, search: str = "", *, by: CostOrder = CostOrder.TOTAL, limit: int = 100
) -> dict[str, Any]:
    return dict(
        asked(
            store,
            lambda context: query_fleet_functions(
                context, question("{}"), ProfileType.CPU, search=search, by=by, limit=limit
            ),
        )
    )


def fleet() -> ObjectStore:
    return stored(
        [
            window(f"{WORK};{DUMPS} 60 | {WORK} 40", service="shop"),
            window(f"{WORK};{DUMPS} 10 | {WORK} 90", service="shop", pod="pod-2"),
            window(f"{WORK};{DUMPS};{DUMPS} 5 | {WORK} 5", service="cart"),
            window("other (other.py:1) 30", service="idle-one"),
        ]
    )


@pytest.mark.parametrize("search", ["json.dumps", "JSON.Dumps", "dumps (json", "dumps"])
def test_a_function_is_found_by_its_dotted_name(search: str) -> None:
    answer = ask(fleet(), search)
    rows = answer["rows"]
    assert (rows["function"], rows["file"]) == (["dumps"], ["json/__init__.py"])
    assert rows["services_total"] == [2]
    # Samples stand for 10 ms each; the recursive stack counts once.
    assert rows["total_seconds"] == rows["self_seconds"] == [0.75]
    assert rows["services"][0]["service"] == ["shop", "cart"]
    assert rows["services"][0]["total_seconds"] == [0.7, 0.05]
    assert answer["services_total"] == 3
    assert answer["seconds"] == 2.4


def test_cores_of_services_add_up_to_those_of_the_function() -> None:
    rows = ask(fleet(), "work")["rows"]
    (services,) = rows["services"]
    assert rows["cores"] == [pytest.approx(sum(services["cores"]))]
    assert rows["self_seconds"] == [1.35]


def test_without_a_search_the_costliest_functions_come_first() -> None:
    answer = ask(fleet(), by=CostOrder.SELF, limit=2)
    assert answer["rows"]["function"] == ["work", "dumps"]
    assert answer["functions_total"] == 3


def test_what_matches_nothing_is_an_empty_table() -> None:
    for store in (fleet(), MemoryStore()):
        answer = ask(store, "nowhere")
        assert answer["rows"]["function"] == []
        assert answer["functions_total"] == 0


def test_a_function_names_its_twenty_costliest_services() -> None:
    rows = ask(stored([window(f"{WORK} {at + 1}", service=f"s{at}") for at in range(21)]))["rows"]
    assert rows["services_total"] == [21]
    assert rows["services"][0]["service"] == [f"s{at}" for at in range(20, 0, -1)]


frames = st.sampled_from(["a (m.py:1)", "a (m.py:2)", "b (m.py:1)", "c (n/o.py:7)"])
profiles = st.dictionaries(
    st.tuples(st.sampled_from(["one", "two", "three"]), st.lists(frames, min_size=1, max_size=5).map(tuple)),
    st.integers(1, 50),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40)
@given(profiles, st.sampled_from(list(CostOrder)))
def test_sums_agree_with_a_count_by_hand(
    profile: dict[tuple[str, tuple[str, ...]], int], by: CostOrder
) -> None:
    windows: dict[str, list[str]] = {}
    own, total = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (service, stack), count in profile.items():
        windows.setdefault(service, []).append(f"{';'.join(stack)} {count}")
        functions = [frame.rpartition(":")[0] for frame in stack]
        own[functions[-1], service] += count
        for function in set(functions):
            total[function, service] += count
    answer = ask(
        stored([window(" | ".join(lines), service=service) for service, lines in windows.items()]), by=by
    )
    rows = answer["rows"]
    chosen = own if by is CostOrder.SELF else total
    found = {
        (f"{function} ({file}", service): (round(own_s * 100), round(total_s * 100))
        for function, file, services in zip(rows["function"], rows["file"], rows["services"], strict=True)
        for service, own_s, total_s in zip(
            services["service"], services["self_seconds"], services["total_seconds"], strict=True
        )
    }
    assert found == {key: (own[key], total[key]) for key, count in chosen.items() if count}


async def test_the_route_answers() -> None:
    async with serving(fleet()) as client:
        answer = await get(client, "functions", search="json.dumps", by="total")
    assert answer["rows"]["function"] == ["dumps"]
    assert answer["core_hour_price"] is None
