"""CPU time per request by a Prometheus: its counts, its failures as warnings, and their metric."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sidelight.settings import BadSetting
from sidelight_collector import settings_wiring
from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.http.api.answer_cache import AnswerOrigin
from sidelight_collector.http.api.routes import routes
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.engines.prometheus import PrometheusClient, RequestCountFailure
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.stack_filter import NO_FILTER
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.api_client import NOW_NS
from tests.collector.comparison_data import MINUTES, SIDES, check, shop, two
from tests.collector.prometheuses import Server, prometheus
from tests.collector.stored_windows import START_NS, question, stored
from tests.loopback_server import LoopbackHandler, serving
from tests.processes import free_port

START = START_NS // 10**9
QUERY = 'sum(increase(http_requests_total{app="{service}",version="{version}"}[{step}]))'


Points = list[tuple[dict[str, str], float, float]]
SHARES = {"0": 0.9, "1": 0.95, "2": 1.15}
"""How much of the mean load of a pod each pod of the service `unequal` has."""


@cache
def unequal_pods() -> tuple[list[Window], Points]:
    """Pods of unequal load take alike per request; of one that nobody watches no request counts."""
    windows, points = [], []
    for version, busy in (("1", 1.0), ("2", 1.2)):
        for one in shop(version, random.Random(version), pods=3, service="unequal"):
            taken = round(12e9 * busy * SHARES[one.labels["pod"][-1]])
            windows.append(replace(one, quality=replace(one.quality, target_cpu_ns=taken)))
        for pod, share in {**SHARES, "9": 5.0}.items():
            labels = {"app": "unequal", "version": version, "pod": f"shop-{version}-{pod}"}
            points += [
                (labels, float(START + at), 1000.0 + 10 * share * at)
                for at in range(-60, MINUTES * 60 + 120, 15)
            ]
    return windows, points


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All series, sent at once as Prometheus takes none that are much older than its newest.

    Of the shop version 1 serves ten requests a second, and version 2 and `short` fifteen, `short` for five
    minutes.
    """
    points: Points = [
        ({"app": "shop", "version": version}, float(START + at), 1000.0 + rate * at)
        for at in range(-60, MINUTES * 60 + 120, 15)
        for version, rate, until in (("1", 10, 10**6), ("2", 15, 10**6), ("short", 15, 300))
        if at < until
    ]
    with prometheus(tmp_path_factory.mktemp("prometheus")) as found:
        found.send("http_requests", points + unequal_pods()[1])
        yield found


def patient(url: str, query: str = QUERY) -> PrometheusClient:
    """One that may take its time: on a busy machine an answer can take longer than the default 5 s."""
    return PrometheusClient(url, query, timeout_seconds=120)


def said(
    store: ObjectStore, told: PrometheusClient | None, sides: list[WindowQuery] = SIDES, **wanted: Any
) -> Verdict:
    engine = QueryEngine(store, QueryLimits(timeout_seconds=300), request_counts=told)
    with closing(engine):
        return asyncio.run(
            engine.run(
                lambda reading: query_verdict(
                    reading,
                    sides,
                    ProfileType.CPU,
                    stack_filter=NO_FILTER,
                    options=ComparisonOptions(**wanted),
                    max_nodes=50_000,
                )
            )
        )["verdict"]


def test_a_busier_side_that_serves_as_much_more_takes_as_much_per_request(server: Server) -> None:
    store = two(busy=1.5)
    assert said(store, None)["direction"] == "increased"
    found = said(store, patient(server.url))
    assert found["direction"] == "unchanged"
    assert found["method"]["unit"] == "request"
    assert "ms/request" in found["summary"]
    # 1,400 samples a minute of each of six pods, 600 requests a minute of all of them together.
    assert found["rate"]["baseline"] == pytest.approx(6 * 14.0 / 600, rel=0.02)
    assert check(found, "load") == ("mismatch", "warn", "load_differs")


def test_costs_per_request_of_different_times_are_compared(server: Server) -> None:
    store = two(busy=1.5)
    early, late = (question('{version="1"}', end=900), question('{version="2"}', start=900))
    found = said(store, patient(server.url), [early, late])
    assert (found["method"]["unit"], found["basis"]) == ("request", "per_request")
    assert found["rate"]["relative_low"] < 0 < found["rate"]["relative_high"]  # type: ignore[operator]


def test_requests_of_each_pod_tell_pods_that_are_asked_more_from_those_that_take_more(
    server: Server,
) -> None:
    store = stored(unequal_pods()[0])
    each = QUERY.replace("sum(", "sum by (pod) (")
    by_pod, together = (said(store, patient(server.url, one)) for one in (each, QUERY))
    assert by_pod["rate"]["baseline"] == pytest.approx(12.0 / 600, rel=0.02)
    assert by_pod["rate"]["relative"] == pytest.approx(0.2, abs=0.01)
    assert by_pod["direction"] == "increased"
    assert together["rate"]["baseline"] == pytest.approx(3 * 12.0 / 600 / 8, rel=0.02), (
        "with the one not watched"
    )
    assert together["direction"] == "inconclusive"
    assert together["rate"]["min_detectable_effect"] > 5 * by_pod["rate"]["min_detectable_effect"]


def test_numbers_that_are_given_come_before_those_of_prometheus(server: Server) -> None:
    found = said(two(busy=1.5), patient(server.url), request_counts=(1e6, 1e6))
    assert found["direction"] == "increased"


def trouble(found: Verdict) -> str:
    assert check(found, "load") == ("unknown", "warn", "load_unknown")
    assert found["method"]["unit"] == "pod-second"
    assert found["direction"] == "increased"
    text = next(one["text"] for one in found["checks"] if one["name"] == "load")
    return text.removeprefix("not known, as there are no request counts: ")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ('sum(increase(nothing{app="{service}"}[{step}]))', "the query returns no requests of A"),
        ('increase(http_requests_total{app="{service}"}[{step}]', "Prometheus answers 400: "),
        ("sum_over_time(vector(0)[{step}:])", "A served no request, by the query"),
        (
            'sum(increase(http_requests_total{version="short"}[{step}]))',
            "the query returns nothing for 13 of the 16 blocks of A",
        ),
    ],
)
def test_a_query_that_tells_nothing_is_a_warning_that_says_so(server: Server, query: str, text: str) -> None:
    told = trouble(said(two(busy=1.5), patient(server.url, query)))
    assert told.startswith(text)


def test_a_side_of_several_versions_has_no_number_where_the_query_takes_one(server: Server) -> None:
    sides = [question('{version=~"1|2"}'), question('{version="2"}')]
    found = said(two(busy=1.5), patient(server.url), sides)
    load = next(one for one in found["checks"] if one["name"] == "load")
    assert "A has 2 values of version, and the query takes one" in load["text"]


def test_labels_of_any_kind_are_values_of_the_query_and_nothing_else(server: Server) -> None:
    hostile = '1"} or vector(5) #\\'
    own = random.Random(3)
    store = stored([*shop(hostile, own), *shop("2", own)])
    sides = [question('{version!="2"}'), question('{version="2"}')]
    found = said(store, patient(server.url), sides)
    load = next(one for one in found["checks"] if one["name"] == "load")
    assert "the query returns no requests of A" in load["text"]


@contextmanager
def answering(status: int, body: bytes, seen: list[tuple[str, str | None]]) -> Iterator[str]:
    """What is no Prometheus, or one behind something that is in its way."""

    class Handler(LoopbackHandler):
        def do_POST(self) -> None:
            self.read_body()
            seen.append((self.path, self.headers.get("Authorization")))
            self.answer(status, body, {"Location": "http://127.0.0.1:9/elsewhere"} if status == 302 else {})

    with serving(Handler) as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (200, b"<html>", "what answers is no Prometheus"),
        (200, b"[]", "what answers is no Prometheus"),
        (200, json.dumps({"data": {"resultType": "matrix", "result": [{}]}}).encode(), "is no Prometheus"),
        (200, json.dumps({"data": {"resultType": "scalar"}}).encode(), "the query gives a scalar, no series"),
        (302, b"", "Prometheus answers 302"),
        (503, b'{"error": "starting"}', "Prometheus answers 503: starting"),
        (401, b"no", "Prometheus answers 401"),
    ],
)
def test_what_does_not_answer_as_prometheus_is_a_warning(status: int, body: bytes, text: str) -> None:
    seen: list[tuple[str, str | None]] = []
    with answering(status, body, seen) as address:
        told = said(two(busy=1.5), patient(f"http://user:p%40ss@{address}/prom/"))
        assert text in trouble(told)
        assert "p%40ss" not in json.dumps(told)
    assert seen == [("/prom/api/v1/query_range", "Basic dXNlcjpwQHNz")]


def test_a_token_is_sent_to_the_server_and_shown_to_nobody() -> None:
    seen: list[tuple[str, str | None]] = []
    with answering(401, b"", seen) as address:
        told = replace(patient(f"http://{address}"), token="s3cret")
        assert "s3cret" not in repr(told)
        said(two(busy=1.5), told)
    assert seen == [("/api/v1/query_range", "Bearer s3cret")]


def test_no_prometheus_at_all_and_one_that_is_silent_are_warnings() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        assert "does not answer" in trouble(said(two(busy=1.5), patient(f"http://127.0.0.1:{port}")))
        silent.listen()
        late = PrometheusClient(f"http://127.0.0.1:{port}", QUERY, timeout_seconds=0.2)
        assert trouble(said(two(busy=1.5), late)) == "Prometheus did not answer within 0.2 s"


async def test_an_answer_without_requests_that_were_to_be_had_is_not_kept(server: Server) -> None:
    asked = "/api/v1/verdict?baseline=version=%221%22&comparison=version=%222%22"
    for query, kept in ((QUERY, AnswerOrigin.CACHED), ("nothing[{step}]", AnswerOrigin.COMPUTED)):
        told: list[AnswerOrigin] = []
        engine = QueryEngine(
            two(), QueryLimits(timeout_seconds=300), request_counts=patient(server.url, query)
        )
        api = routes(engine, IngestStats(), "memory", lambda: NOW_NS, told.append)
        app = build_app(api, Metrics(), BearerTokens(), Readiness())
        with closing(engine):
            async with TestClient(TestServer(app)) as client:
                for _ in range(2):
                    async with client.get(asked) as response:
                        assert response.status == 200
        assert told == [AnswerOrigin.COMPUTED, kept]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"prometheus_url": "http://p:9090"}, "go together"),
        ({"prometheus_requests_query": "x[{step}]"}, "go together"),
        ({"prometheus_url": "http://p:9090", "prometheus_requests_query": "sum(x[5m])"}, "has no {step}"),
        ({"prometheus_token_file": Path("/token")}, "without prometheus_url"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadSetting, match=text):
        Settings(store="given", **given)


def test_the_settings_make_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    settings = Settings(
        store="given",
        prometheus_url="https://p:9090/x",
        prometheus_requests_query=QUERY,
        prometheus_token_file=tmp_path / "token",
        prometheus_timeout_seconds=2,
    )
    made = settings_wiring.build_prometheus(settings, Metrics())
    assert made == PrometheusClient("https://p:9090/x", QUERY, 2, "s3cret")
    assert settings_wiring.build_prometheus(Settings(store="given"), Metrics()) is None


def counted(
    url: str, query: str = QUERY, sides: list[WindowQuery] = SIDES, seconds: float = 120.0
) -> tuple[Verdict, dict[str, float]]:
    """A comparison with the settings of a collector, and the errors that its metrics count by cause."""
    metrics = Metrics()
    settings = Settings(
        store="given", prometheus_url=url, prometheus_requests_query=query, prometheus_timeout_seconds=seconds
    )
    found = said(two(), settings_wiring.build_prometheus(settings, metrics), sides)
    name = "sidelight_prometheus_errors_total"
    causes = {
        each: metrics.registry.get_sample_value(name, {"cause": each}) or 0.0 for each in RequestCountFailure
    }
    assert name.encode() in metrics.render()
    return found, {each: count for each, count in causes.items() if count}


def test_what_is_told_is_no_error(server: Server) -> None:
    found, causes = counted(server.url)
    assert found["method"]["unit"] == "request"
    assert causes == {}


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ("sum(increase(http_requests_total[{step}])", RequestCountFailure.REFUSED),
        ("sum(increase(nothing[{step}]))", RequestCountFailure.NO_DATA),
        ("sum_over_time(vector(0)[{step}:])", RequestCountFailure.NO_DATA),
    ],
)
def test_a_query_that_tells_nothing_is_counted(
    server: Server, query: str, cause: RequestCountFailure
) -> None:
    found, causes = counted(server.url, query)
    assert found["method"]["unit"] == "pod-second"
    assert causes == {cause: 1}


def test_a_side_of_several_values_is_not_asked_for_and_counted(server: Server) -> None:
    sides = [question('{version=~"1|2"}'), question('{version="2"}')]
    assert counted(server.url, sides=sides)[1] == {RequestCountFailure.AMBIGUOUS: 1}


def test_a_prometheus_that_is_not_there_or_is_silent_is_counted() -> None:
    assert counted(f"http://127.0.0.1:{free_port()}")[1] == {RequestCountFailure.UNREACHABLE: 1}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert counted(f"http://127.0.0.1:{port}", seconds=0.2)[1] == {RequestCountFailure.TIMEOUT: 1}


def test_what_is_no_prometheus_is_counted() -> None:
    with answering(200, b"<html>", []) as address:
        assert counted(f"http://{address}")[1] == {RequestCountFailure.INVALID_RESPONSE: 1}
    with answering(503, b"", []) as address:
        assert counted(f"http://{address}")[1] == {RequestCountFailure.REFUSED: 1}


def test_every_cause_is_there_before_it_happens() -> None:
    text = Metrics().render().decode()
    assert all(
        f'sidelight_prometheus_errors_total{{cause="{cause}"}} 0.0' in text for cause in RequestCountFailure
    )
