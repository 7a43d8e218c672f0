"""The overview has every service in columns: what it costs, and how its versions differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.catalog import list_services
from sidelight_collector.answers.service_overview import ServiceOverview, query_service_overview
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.window import Quality, Window
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import PERIOD_NS, SECOND_NS, asked, few_examples, question, stored, window
from tests.collector.test_query_blocks import compacted

CPU = ProfileType.CPU


def of(store: ObjectStore, most: int = 1000) -> ServiceOverview:
    one = question("", start=-3600, end=7200)
    return asked(store, lambda reading: query_service_overview(reading, one, CPU, max_services=most))


def rolled(*versions: tuple[str, float, float], pods: int = 1) -> list[Window]:
    """A window a minute of each version, from and until so many minutes."""
    return [
        window("f 5 | w;[idle] 5", at=60 * minute, seconds=60, version=version, pod=f"{version}-{pod}")
        for version, first, until in versions
        for pod in range(pods)
        for minute in range(round(first), round(until))
    ]


def test_the_current_version_is_the_last_to_appear_of_those_still_there() -> None:
    answer = of(stored(rolled(("1", 0, 30), ("2", 28, 60))))
    assert (answer["current"]["version"], answer["previous"]["version"]) == (["2"], ["1"])
    assert answer["pods"] == [2]
    assert answer["pods_now"] == answer["current"]["pods_now"] == [1]
    assert answer["versions"] == [2]
    assert answer["previous"]["seconds"] == [pytest.approx(30 * 5 * PERIOD_NS / SECOND_NS)]
    assert answer["previous"]["samples"] == [150]


def test_sums_beyond_64_bits_are_right() -> None:
    """Each window claims the most thread time that one may have."""
    answer = of(stored([window(f"f {10**8}", at=10 * at, period_ns=10**9) for at in range(100)]))
    assert (answer["seconds"], answer["samples"]) == ([10.0**10], [10**10])
    assert answer["current"]["seconds"] == [10.0**10]


def test_after_a_rollback_the_current_version_is_the_one_rolled_back_to() -> None:
    answer = of(stored(rolled(("1", 0, 20), ("2", 20, 30), ("1", 30, 60))))
    assert (answer["current"]["version"], answer["previous"]["version"]) == (["1"], ["2"])
    first = [answer[which]["first_seen"][0] for which in ("current", "previous")]  # type: ignore[literal-required]
    assert first[0] < first[1]


def test_while_a_deployment_rolls_out_both_versions_have_pods() -> None:
    answer = of(stored(rolled(("1", 0, 60), pods=3), rolled(("2", 55, 60), pods=2)))
    assert answer["current"]["version"] == ["2"]
    assert (answer["current"]["pods_now"], answer["pods_now"]) == ([2], [5])


def test_one_version_has_no_previous_and_none_is_told_from_the_empty_one() -> None:
    answer = of(stored([window("f 5", version="")]))
    assert (answer["current"]["version"], answer["previous"]["version"]) == ([""], [None])
    assert answer["previous"]["first_seen"] == [None]


def test_cores_are_those_of_all_pods_together_and_allow_for_what_was_not_covered() -> None:
    half = Quality(attempts=6000, errors={"read": 3000}, mode="gil")
    windows = [
        window("f 3000", at=60 * minute, seconds=60, pod=f"p{pod}", quality=half)
        for minute in range(10)
        for pod in range(4)
    ]
    answer = of(stored(windows))
    assert answer["seconds"][0] / answer["pod_seconds"][0] == pytest.approx(1)
    assert answer["cores"] == [pytest.approx(4)]


def test_of_more_services_than_wanted_the_dearest_are_kept_and_the_rest_counted() -> None:
    store = stored([window(f"f {at + 1}", service=f"s{at}", pod=f"p{at}") for at in range(6)])
    answer = of(store, most=2)
    assert (answer["service"], answer["omitted"]) == (["s4", "s5"], 4)
    assert answer["basis"]["pods"] == 6


def test_nothing_stored_is_an_empty_overview() -> None:
    assert of(MemoryStore())["service"] == []


@few_examples
@given(st.data(), st.booleans())
def test_every_column_is_what_the_list_of_services_says(data: st.DataObject, blocks: bool) -> None:
    windows = [
        window(
            f"f {data.draw(st.integers(1, 50))} | w;[idle] 3",
            at=data.draw(st.integers(-3000, 7000)),
            service=data.draw(st.sampled_from(["a", "b", "c"])),
            version=data.draw(st.sampled_from(["1", "2", ""])),
            pod=data.draw(st.sampled_from(["p1", "p2"])),
        )
        for _ in range(data.draw(st.integers(1, 10)))
    ]
    store = compacted(stored(windows)) if blocks else stored(windows[:3], windows[3:], windows[:1])
    listed = asked(store, lambda reading: list_services(reading, question("", start=-3600, end=7200)))
    answer = of(store)
    assert answer["service"] == [one["service"] for one in listed["services"]]
    for at, one in enumerate(listed["services"]):
        assert answer["pods"][at] == one["pods"]
        assert answer["seconds"][at] / answer["pod_seconds"][at] == pytest.approx(one["cpu_cores"], abs=1e-3)
        versions = {each["version"]: each for each in one["versions"]}
        for which in ("current", "previous"):
            version = answer[which]["version"][at]  # type: ignore[literal-required]
            if version is None:
                assert len(versions) == 1
                continue
            rate = answer[which]["seconds"][at] / answer[which]["pod_seconds"][at]  # type: ignore[literal-required]
            assert rate == pytest.approx(versions[version]["cpu_cores"], abs=1e-3)
        assert answer["versions"][at] == len(versions)


async def test_the_collector_bounds_how_many_services_it_tells_of() -> None:
    store = stored([window("f 2", service=f"s{at}") for at in range(4)])
    async with serving(store, QueryLimits(max_rows=3)) as client:
        answer = await get(client, "overview", type="cpu", limit="99")
        assert (answer["service"], answer["omitted"]) == (["s0", "s1", "s2"], 1)
        answer = await get(client, "overview", type="cpu", limit="1")
        assert (answer["service"], answer["omitted"]) == (["s0"], 3)


def test_a_requested_label_has_its_latest_value_for_each_service() -> None:
    store = stored(
        [
            window(service="shop", team="old"),
            window(service="shop", at=60, team="web"),
            window(service="tool"),
        ]
    )
    one = question("")
    answer = asked(
        store, lambda reading: query_service_overview(reading, one, CPU, max_services=9, label="team")
    )
    assert answer["label"] == ["web", ""]
    assert of(store)["label"] is None
