"""Each question that Prometheus does not answer is counted by its cause, and one that it does is not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidelight.collector import main
from sidelight.collector.metrics import Metrics
from sidelight.collector.query.engine import QueryEngine
from sidelight.collector.query.limits import QueryLimits
from sidelight.collector.query.picking import ALL
from sidelight.collector.query.prometheus import Cause
from sidelight.collector.query.sides import Wanted
from sidelight.collector.query.told import Verdict
from sidelight.collector.query.verdict import verdict
from sidelight.collector.query.windows import Question
from sidelight.collector.settings import Settings
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.counts import ProfileType
from tests.collector.alertmanagers import free_port
from tests.collector.prometheuses import Server, prometheus
from tests.collector.storing import question
from tests.collector.test_verdict import MINUTES, SIDES, two
from tests.collector.test_verdict_prometheus import QUERY, START, answering


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Both versions serve ten requests a second."""
    with prometheus(tmp_path_factory.mktemp("prometheus")) as found:
        for at in range(-60, MINUTES * 60 + 120, 15):
            labels = [{"app": "shop", "version": version} for version in "12"]
            found.send("http_requests", [(each, START + at, 1000.0 + 10 * at) for each in labels])
        yield found


@pytest.fixture(scope="module")
def store() -> ObjectStore:
    return two()


@pytest.fixture
def said(store: ObjectStore) -> Callable[..., tuple[Verdict, dict[str, float]]]:
    def ask(
        url: str, query: str = QUERY, sides: list[Question] = SIDES, seconds: float = 5.0
    ) -> tuple[Verdict, dict[str, float]]:
        metrics = Metrics()
        settings = Settings(
            store="given", prometheus_url=url, prometheus_requests=query, prometheus_timeout_seconds=seconds
        )
        made = main.prometheus(settings, metrics)
        engine = QueryEngine(store, QueryLimits(timeout_seconds=300), prometheus=made)
        with closing(engine):
            answer = asyncio.run(
                engine.ask(
                    lambda reading: verdict(
                        reading, sides, ProfileType.CPU, pick=ALL, wanted=Wanted(), most=50_000
                    )
                )
            )
        name = "sidelight_prometheus_errors_total"
        counted = {each: metrics.registry.get_sample_value(name, {"cause": each}) or 0.0 for each in Cause}
        assert name.encode() in metrics.text()
        return answer["verdict"], {each: count for each, count in counted.items() if count}

    return ask


def test_what_is_told_is_no_error(
    server: Server, said: Callable[..., tuple[Verdict, dict[str, float]]]
) -> None:
    found, counted = said(server.url)
    assert found["method"]["unit"] == "request"
    assert counted == {}


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("sum(increase(http_requests_total[{step}])", Cause.REFUSED),
        ("sum(increase(nothing[{step}]))", Cause.EMPTY),
        ("sum_over_time(vector(0)[{step}:])", Cause.EMPTY),
    ],
)
def test_a_query_that_tells_nothing_is_counted(
    server: Server, said: Callable[..., tuple[Verdict, dict[str, float]]], query: str, cause: Cause
) -> None:
    found, counted = said(server.url, query)
    assert found["method"]["unit"] == "pod-second"
    assert counted == {cause: 1}


def test_a_side_of_several_values_is_not_asked_for_and_counted(
    server: Server, said: Callable[..., tuple[Verdict, dict[str, float]]]
) -> None:
    sides = [question('{version=~"1|2"}'), question('{version="2"}')]
    assert said(server.url, sides=sides)[1] == {Cause.AMBIGUOUS: 1}


def test_a_prometheus_that_ended_or_is_silent_is_counted(
    tmp_path: Path, said: Callable[..., tuple[Verdict, dict[str, float]]]
) -> None:
    with prometheus(tmp_path) as ended:
        url = ended.url
    assert said(url)[1] == {Cause.UNREACHABLE: 1}
    assert said(f"http://127.0.0.1:{free_port()}")[1] == {Cause.UNREACHABLE: 1}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert said(f"http://127.0.0.1:{port}", seconds=0.2)[1] == {Cause.TIMEOUT: 1}


def test_what_is_no_prometheus_is_counted(
    said: Callable[..., tuple[Verdict, dict[str, float]]],
) -> None:
    with answering(200, b"<html>", []) as address:
        assert said(f"http://{address}")[1] == {Cause.WRONG: 1}
    with answering(503, b"", []) as address:
        assert said(f"http://{address}")[1] == {Cause.REFUSED: 1}


def test_every_cause_is_there_before_it_happens() -> None:
    text = Metrics().text().decode()
    assert all(f'sidelight_prometheus_errors_total{{cause="{cause}"}} 0.0' in text for cause in Cause)
