"""When deploys are compared, with which time of the version before, and how they are judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sidelight.settings import BadSetting
from sidelight_collector.deploys import evaluation
from sidelight_collector.deploys.baseline_selection import DeploySides, list_earlier_days, select_sides
from sidelight_collector.deploys.deploy import (
    Deploy,
    DeployPolicy,
    DeployState,
    FinishReason,
    TimeRange,
    create_deploy,
)
from sidelight_collector.deploys.deploy_wiring import build_analyser as made_judge
from sidelight_collector.deploys.evaluation import (
    Analyser,
    AnalysisResult,
    make_analyser,
    make_compare_function,
)
from sidelight_collector.deploys.notify import notifiers
from sidelight_collector.deploys.notify.deploy_links import build_api_link, build_view_link
from sidelight_collector.deploys.notify.notifiers import DeployNotifier, ReceiverAddress, Receivers
from sidelight_collector.deploys.query_client import EngineQueryClient, QueryEngineBusy
from sidelight_collector.deploys.rate_limiter import AnalysisRateLimiter
from sidelight_collector.deploys.version_discovery import build_version_selector, find_observed_span
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.objects import ObjectStore, StoreUnavailable
from sidelight_collector.times import ObservedSpan
from tests.collector.alertmanagers import Webhook, webhook
from tests.collector.deploy_world import DAY, HOUR, MINUTE, START, Looker, World, given, working
from tests.processes import S3Server

RULES = DeployPolicy()
SHORT = DeployPolicy(last_analysis_seconds=80 * MINUTE)


@dataclass
class Judging:
    """Judges as it is told to, the last word for ever, and keeps what it was asked."""

    states: Sequence[DeployState] = (DeployState.PASS,)
    asked: list[tuple[str, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left: Iterator[DeployState] = chain(self.states, repeat(self.states[-1]))

    def __call__(self, _: QueryContext, deploy: Deploy, offset: float, k: int) -> AnalysisResult:
        self.asked.append((deploy.version, offset / MINUTE, k))
        state = next(self._left)
        condition = {"condition": "cpu>+5%", "state": str(state), "summary": "so", "effect": None}
        return AnalysisResult(
            state, "canary", summary=f"Look {k}.", conditions=(condition,), verdict={"k": k}
        )


def shop(store: ObjectStore | None = None, until: float = 4 * HOUR, step: float = 300.0) -> World:
    """Version 2 beside version 1 from 0 on."""
    world = World(store or MemoryStore(), at=-10 * MINUTE)
    world.ships("1", -3 * HOUR, until, step=step, pods="a")
    world.ships("2", 0, until, step=step, pods="b")
    return world


def test_a_deploy_is_compared_at_doubling_ages_and_comparisons_are_numbered() -> None:
    world, judge = shop(), Judging()
    looker = Looker(world, judge, SHORT)
    looker.until(11 * MINUTE)
    assert judge.asked == []
    looker.until(3 * HOUR, step=2 * MINUTE)
    assert judge.asked == [("2", 10, 1), ("2", 20, 2), ("2", 40, 3), ("2", 80, 4)]
    deploy = world.only()
    assert [(one.index, one.seconds / MINUTE) for one in deploy.analyses] == [
        (1, 10),
        (2, 20),
        (3, 40),
        (4, 80),
    ]
    assert (deploy.state, deploy.due, deploy.verdict) == (DeployState.PASS, None, {"k": 4})
    assert looker.value("sidelight_deploy_analyses_total", state="pass") == 4
    assert looker.value("sidelight_deploys_active") == 0
    looker.ends()


F, R, U, N, OVER, W = (
    DeployState.PASS,
    DeployState.REGRESSED,
    DeployState.INCONCLUSIVE,
    DeployState.NOT_COMPARABLE,
    DeployState.FINISHED,
    DeployState.WATCHING,
)


@pytest.mark.parametrize(
    ("looks", "stands"),
    [
        ([F, F, F, F], [F, F, F, F]),
        ([U, U, U, U], [W, W, W, U]),
        ([U, F, U, U], [W, F, F, F]),
        ([U, R, U, U], [W, R, R, R]),
        ([R, F, R, F], [R, F, R, F]),
        ([N, N, F, F], [N, N, F, F]),
        ([U, U, U, R], [W, W, W, R]),
        ([F, N, U, N], [F, N, N, N]),
    ],
)
def test_a_look_that_cannot_tell_leaves_the_state_as_it_was(
    looks: list[DeployState], stands: list[DeployState]
) -> None:
    world, judge = shop(), Judging(looks)
    looker = Looker(world, judge, SHORT)
    seen = []
    for minutes in (10, 20, 40, 80):
        looker.until((minutes + 5) * MINUTE, step=5 * MINUTE)
        seen.append(world.only().state)
    assert seen == stands
    looker.ends()


def test_looks_that_were_missed_are_made_up_for_by_one_for_the_latest() -> None:
    world, judge = shop(until=30 * HOUR, step=1800), Judging()
    first = Looker(world, judge)
    first.until(15 * MINUTE)
    first.dies()
    world.at = 6 * HOUR
    second = Looker(world, judge)
    second.until(6 * HOUR + 10 * MINUTE)
    assert judge.asked == [("2", 10, 1), ("2", 320, 2)]
    second.until(11 * HOUR, step=10 * MINUTE)
    assert judge.asked[2:] == [("2", 640, 3)]
    second.ends()


def test_a_deploy_that_nobody_saw_until_its_day_was_over_has_its_last_look() -> None:
    world, judge = shop(until=60 * HOUR, step=3600), Judging()
    first = Looker(world, judge)
    first.until(-5 * MINUTE)
    first.dies()
    world.at = 50 * HOUR
    second = Looker(world, judge)
    second.until(50 * HOUR + 10 * MINUTE)
    assert judge.asked == [("2", 1440, 1)]
    assert world.only().due is None
    second.ends()


def test_two_collectors_at_once_make_each_look_once(store: ObjectStore) -> None:
    world, judge = shop(store, until=2 * HOUR, step=600), Judging([R, F])
    lookers = [Looker(world, judge, SHORT, leased=False) for _ in range(2)]
    while world.at < 45 * MINUTE:
        world.at += 5 * MINUTE
        for looker in lookers:
            looker.watch.run_once()
    assert [one.index for one in world.only().analyses] == [1, 2, 3]
    assert [one.state for one in world.only().analyses] == [R, F, F]
    for looker in lookers:
        looker.ends()


def test_a_regressed_deploy_is_looked_after_until_it_is_over() -> None:
    world, judge = World(at=-10 * MINUTE), Judging([R])
    world.ships("1", -3 * HOUR, 0, step=600)
    world.ships("2", 0, 20 * HOUR, step=1800)
    rules = given(RULES, last_analysis_seconds=20 * MINUTE)
    first = Looker(world, judge, rules)
    first.until(30 * MINUTE, step=5 * MINUTE)
    assert (world.only().state, world.only().due) == (R, None)
    first.ends()
    world.at = 20 * HOUR
    world.ships("3", 20 * HOUR, 40 * HOUR, step=1800)
    second = Looker(world, Judging(), rules)
    second.until(20 * HOUR + 40 * MINUTE, step=5 * MINUTE)
    older = world.deploys()[-1]
    assert (older.version, older.state, older.conclusion) == ("2", OVER, "regressed")
    second.ends()


def test_a_deploy_that_is_fine_for_good_is_left_alone() -> None:
    world = shop(until=10 * HOUR, step=1800)
    rules = given(RULES, last_analysis_seconds=20 * MINUTE)
    looker = Looker(world, Judging([F]), rules)
    looker.until(HOUR, step=5 * MINUTE)
    world.ships("3", HOUR, 4 * HOUR, step=1800)
    looker.until(2 * HOUR, step=5 * MINUTE)
    assert [(one.version, one.state) for one in world.deploys()] == [("3", F), ("2", F)]
    looker.ends()


def test_other_settings_move_looks_that_are_to_come() -> None:
    world, judge = shop(until=3 * HOUR, step=600), Judging([U])
    first = Looker(world, judge, given(RULES, last_analysis_seconds=80 * MINUTE))
    first.until(25 * MINUTE, step=5 * MINUTE)
    first.ends()
    second = Looker(
        world, judge, given(RULES, first_analysis_seconds=15 * MINUTE, last_analysis_seconds=20 * MINUTE)
    )
    second.until(50 * MINUTE, step=5 * MINUTE)
    assert judge.asked == [("2", 10, 1), ("2", 20, 2)]
    assert (world.only().state, world.only().due) == (U, None)
    second.ends()


def test_a_query_that_fails_is_asked_again_and_in_the_end_put_down() -> None:
    world, judge = shop(until=2 * HOUR), Judging()
    looker = Looker(world, judge, given(RULES, last_analysis_seconds=10 * MINUTE))
    looker.until(11 * MINUTE)

    def fails() -> None:
        raise QueryTimeout(30)

    learn = looker.watch._detect_deploys
    looker.watch._detect_deploys = lambda: None  # type: ignore[method-assign]
    looker.ask.fails = fails
    looker.until(14 * MINUTE)
    assert world.only().analyses == ()
    looker.until(30 * MINUTE)
    (look,) = world.only().analyses
    assert (look.state, world.only().state) == (U, U)
    assert "longer than 30 s" in look.problem
    assert looker.value("sidelight_deploy_errors_total") == 5
    looker.watch._detect_deploys = learn  # type: ignore[method-assign]
    looker.ends()


def test_a_defect_of_one_comparison_ends_nothing() -> None:
    world, asked = shop(until=2 * HOUR), []

    def judge(_: QueryContext, deploy: Deploy, *__: object) -> AnalysisResult:
        asked.append(deploy.version)
        raise ZeroDivisionError

    looker = Looker(world, judge, given(RULES, last_analysis_seconds=10 * MINUTE))
    looker.until(30 * MINUTE)
    assert len(asked) == 5
    assert world.only().state is U
    assert "log says why" in world.only().analyses[0].problem
    looker.ends()


def test_comparisons_wait_while_all_places_for_queries_are_taken() -> None:
    world, judge = shop(), Judging()
    looker = Looker(world, judge)
    looker.until(11 * MINUTE)

    def fails() -> None:
        raise QueryEngineBusy("busy")

    looker.ask.fails = fails
    looker.until(30 * MINUTE)
    assert judge.asked == []
    looker.ask.fails = lambda: None
    looker.until(32 * MINUTE)
    assert judge.asked == [("2", 20, 1)]  # and not the one of ten minutes
    looker.ends()


def test_comparisons_keep_to_their_pace_and_those_that_wait_longest_come_first() -> None:
    world, judge = World(at=-10 * MINUTE), Judging()
    for at in range(6):
        world.ships("1", -3 * HOUR, HOUR, step=1200, service=f"s{at}", pods="a")
        world.ships(f"v{at}", at, HOUR, step=1200, service=f"s{at}", pods="b")
    looker = Looker(
        world, judge, given(RULES, last_analysis_seconds=600.0), pace=AnalysisRateLimiter(2, 1000.0, world.at)
    )
    looker.until(12 * MINUTE + 30, step=30)
    assert [version for version, *_ in judge.asked] == ["v0", "v1", "v2"]
    assert looker.value("sidelight_deploy_analyses_postponed_total") > 0
    looker.until(20 * MINUTE, step=30)
    assert [version for version, *_ in judge.asked] == [f"v{at}" for at in range(6)]
    looker.ends()


def test_a_store_that_is_away_is_waited_for() -> None:
    world, judge = shop(), Judging()
    looker = Looker(world, judge)

    def fails() -> None:
        raise StoreUnavailable("away")

    looker.ask.fails = fails
    looker.until(20 * MINUTE)
    assert world.deploys() == []
    assert looker.value("sidelight_deploy_errors_total") > 0
    looker.ask.fails = lambda: None
    looker.until(25 * MINUTE)
    assert judge.asked == [("2", 10, 1), ("2", 20, 2)]
    looker.ends()


def deploy(
    first_seen: float = 0.0, started: float | None = None, previous: ObservedSpan | None = None
) -> Deploy:
    seen = previous or ObservedSpan(START - 30 * DAY, START + first_seen)
    one = create_deploy(("", "shop", "2"), START + first_seen, "1", seen, None, RULES)
    if started is None:
        return one
    return replace(one, started=START + started)


def chosen(
    of: Deploy, offset: float, *ran: tuple[str, float, float]
) -> tuple[str, float, float, float, float]:
    """The way, and both ranges in seconds from START, of versions that ran at these times."""

    def seen(version: str, start: float, until: float) -> ObservedSpan | None:
        parts = [(max(START + a, start), min(START + b, until)) for name, a, b in ran if name == version]
        there = [part for part in parts if part[0] < part[1]]
        return ObservedSpan(min(a for a, _ in there), max(b for _, b in there)) if there else None

    found = select_sides(of, offset, seen, RULES)
    assert found is not None
    both = (found.baseline, found.comparison)
    return (found.comparison_mode, *(edge - START for one in both for edge in (one.start, one.until)))  # type: ignore[return-value]


def test_while_both_run_the_same_time_is_compared() -> None:
    found = chosen(deploy(), 1200, ("1", -DAY, 9000), ("2", 0, 9000))
    assert found == ("canary", 60, 1200, 60, 1200)


def test_a_promoted_canary_is_compared_while_both_ran_if_that_was_half_the_time() -> None:
    assert chosen(deploy(), 2400, ("1", -DAY, 1500), ("2", 0, 9000)) == ("canary", 60, 1500, 60, 1500)
    assert chosen(deploy(), 4800, ("1", -900, 1500), ("2", 0, 9000))[0] == "previous_period"


def test_else_the_same_hours_of_the_nearest_day_of_the_same_kind_are() -> None:
    # START is a Saturday: of the days before the first of the same kind is a week ago but one.
    two_weeks = ("1", -15 * DAY, 0.0), ("2", 0.0, DAY)
    of = deploy(previous=ObservedSpan(START - 15 * DAY, START))
    assert chosen(of, 4800, *two_weeks) == ("same_hours", 60 - 6 * DAY, 4800 - 6 * DAY, 60, 4800)
    monday = 2 * DAY
    of = deploy(monday, previous=ObservedSpan(START - 15 * DAY, START))
    found = chosen(of, 4800, ("1", -15 * DAY, monday), ("2", monday, 3 * DAY))
    assert found[:2] == ("same_hours", monday + 60 - 3 * DAY)  # Friday


def test_hours_in_which_the_previous_version_hardly_ran_are_not_compared() -> None:
    of = deploy(previous=ObservedSpan(START - 12.5 * DAY, START))
    long_ago, since = ("1", -12.5 * DAY, -6 * DAY - 600), ("1", -3 * DAY, 0.0)
    ran = (long_ago, ("1", -6 * DAY + 600, -6 * DAY + 900), since, ("2", 0.0, DAY))
    assert chosen(of, 4800, *ran)[:2] == ("same_hours", 60 - 7 * DAY)


def test_else_the_time_just_before_is() -> None:
    of = deploy(100.0, started=80.0, previous=ObservedSpan(START - 7200, START + 100))
    found = chosen(of, 1200, ("1", -7200, 100.0), ("2", 100.0, DAY))
    assert found == ("previous_period", 80 - 1140, 80, 160, 1300)
    # A version that ran for less long than that gives what there is.
    young = deploy(100.0, previous=ObservedSpan(START - 200, START + 100))
    assert chosen(young, 1200, ("1", -200.0, 100.0), ("2", 100.0, DAY))[:3] == ("previous_period", -200, 100)


def test_a_version_that_was_gone_for_a_while_is_compared_as_it_was_last() -> None:
    of = deploy(previous=ObservedSpan(START - 9 * HOUR, START - 5 * HOUR))
    found = chosen(of, 1200, ("1", -9 * HOUR, -5 * HOUR), ("2", 0.0, DAY))
    assert found == ("previous_period", -5 * HOUR - 1140, -5 * HOUR, 60, 1200)


def test_without_windows_of_either_there_is_nothing_to_compare() -> None:
    assert select_sides(deploy(), 600, lambda *_: None, RULES) is None


def test_days_of_the_same_kind_come_first() -> None:
    saturday = TimeRange(START, START + 600)
    assert list(list_earlier_days(saturday, START - 30 * DAY)) == [
        6,
        7,
        13,
        14,
        1,
        2,
        3,
        4,
        5,
        8,
        9,
        10,
        11,
        12,
    ]
    assert list(list_earlier_days(saturday, START - 2.5 * DAY)) == [1, 2]
    assert list(list_earlier_days(saturday, START)) == []


def test_a_verdict_is_asked_for_with_the_labels_of_both_and_kept_as_it_was_said() -> None:
    world = World()
    world.ships("1", -HOUR, HOUR, namespace="n")
    world.ships("2", 0, HOUR, namespace="n")
    asked = []

    def compare(_: QueryContext, questions: object, k: int, rules: DeployPolicy) -> dict[str, object]:
        asked.append((questions, k, rules.fail_on))
        said = {"condition": "cpu>+5%", "state": "regressed", "summary": "up"}
        return {"summary": "B takes more.", "rate": {"baseline": 1}, "conditions": [said]}

    one = create_deploy(("n", "shop", "2"), START, "1", ObservedSpan(START - HOUR, START), None, RULES)
    judge = evaluation.make_analyser(compare, RULES)  # type: ignore[arg-type]
    found = Looker(world).ask(lambda reading: judge(reading, one, 600.0, 3))
    assert (found.state, found.comparison_mode, found.summary) == (
        DeployState.REGRESSED,
        "canary",
        "B takes more.",
    )
    (((before, after), k, fail_on),) = asked
    assert (k, fail_on) == (3, ("cpu>+5%",))
    assert str(before.selector.matchers[2]) == 'version="1"'
    assert str(after.selector.matchers[1]) == 'namespace="n"'
    assert (after.from_ns, after.until_ns) == (round((START + 60) * 1e9), round((START + 600) * 1e9))


def test_questions_name_both_versions_in_their_times() -> None:
    one = DeploySides("previous_period", TimeRange(START - 10, START), TimeRange(START, START + 10))
    before, after = evaluation.build_window_queries(deploy(), one)
    assert (before.until_ns, after.until_ns) == (round(START * 1e9), round((START + 10) * 1e9))


async def test_a_thread_asks_as_one_query_more_and_only_while_a_place_is_free() -> None:
    engine = QueryEngine(MemoryStore(), QueryLimits(running=1))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asking = EngineQueryClient(engine, stop.is_set, loop)
    assert await asyncio.to_thread(asking, lambda _: "so") == "so"
    release = asyncio.Event()

    def waits(_: QueryContext) -> str:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return "done"

    taken = loop.run_in_executor(None, partial(asking, waits))
    while not engine.active_queries:
        await asyncio.sleep(0)
    with pytest.raises(QueryEngineBusy):
        await asyncio.to_thread(EngineQueryClient(engine, stop.is_set, loop), lambda _: "not now")
    release.set()
    assert await taken == "done"
    # A collector that ends waits for none of it.
    release.clear()
    asked = loop.run_in_executor(None, partial(asking, waits))
    while not engine.active_queries:
        await asyncio.sleep(0)
    stop.set()
    with pytest.raises(QueryEngineBusy):
        await asked
    release.set()
    await asyncio.to_thread(engine.close)


PODS = "abcdef"
FORTY = DeployPolicy(last_analysis_seconds=40 * MINUTE)


def judge_of(rules: DeployPolicy = FORTY) -> Analyser:
    return make_analyser(make_compare_function(QueryLimits(), rules.fail_on), rules)


@pytest.fixture(params=["directory", "s3"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> ObjectStore:
    """A store that lasts."""
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    server: S3Server = request.getfixturevalue("s3_server")
    return S3Store(request.getfixturevalue("new_bucket")(), "some/prefix", endpoint=server.endpoint)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 60.0)
    with webhook() as server:
        yield server


def telling(looker: Looker, hook: Webhook) -> DeployNotifier:
    return DeployNotifier(
        looker.shelf, looker.metrics, Receivers(ReceiverAddress(hook.url)), clock=lambda: looker.world.now
    )


def test_a_regression_is_found_reported_and_resolved_by_its_rollback(
    kept: ObjectStore, hook: Webhook
) -> None:
    world = World(kept, at=-5 * MINUTE)
    world.ships("1", -HOUR, 70 * MINUTE, text=working(0.30), pods=PODS)
    world.ships("2", 0, 40 * MINUTE, text=working(0.36, 2), pods=PODS)
    looker = Looker(world, judge_of())
    looker.watch._notifier = telling(looker, hook)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.state is DeployState.REGRESSED
    (look,) = deploy.analyses
    assert (look.comparison_mode, look.rate["direction"] if look.rate else "") == ("canary", "increased")
    assert look.rate is not None
    assert 0.10 < look.rate["relative"] < 0.30
    assert look.rate["relative_low"] < 0.20 < look.rate["relative_high"]
    assert [one["state"] for one in look.conditions] == ["regressed"]
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["analysis_index"] == 1
    assert deploy.verdict["method"]["paired"] == "time"
    assert len(deploy.verdict["functions"]["function"]) <= 20
    assert hook.events == ["regressed"]
    looker.ends()
    # Another collector goes on, and its look is the second.
    second = Looker(world, judge_of())
    second.watch._notifier = telling(second, hook)
    second.until(25 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert [one.index for one in deploy.analyses] == [1, 2]
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["analysis_index"] == 2
    assert hook.events == ["regressed"]
    second.until(65 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.finished is not None
    assert (deploy.state, deploy.finished.reason, deploy.conclusion) == (
        DeployState.FINISHED,
        FinishReason.ROLLED_BACK,
        "regressed",
    )
    assert hook.events == ["regressed", "resolved"]
    second.ends()


def test_a_version_that_takes_as_much_is_fine() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR, text=working(0.30), pods=PODS)
    world.ships("2", 0, HOUR, text=working(0.30, 2), pods=PODS)
    rules = replace(FORTY, fail_on=("cpu>+10%", "function:json.*>+20%"))
    looker = Looker(world, judge_of(rules), rules)
    looker.until(45 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert (deploy.state, deploy.due) == (DeployState.PASS, None)
    assert [one["condition"] for one in deploy.analyses[-1].conditions] == list(rules.fail_on)
    looker.ends()


def test_too_little_data_is_said_to_be_too_little() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, 30 * MINUTE, text=working(0.01, seconds=1), pods="a", step=300)
    world.ships("2", 0, 30 * MINUTE, text=working(0.01, 2, seconds=1), pods="b", step=300)
    rules = replace(FORTY, last_analysis_seconds=20 * MINUTE, fail_on=("cpu>+1%",))
    looker = Looker(world, judge_of(rules), rules)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    assert world.only().state is DeployState.WATCHING
    looker.until(25 * MINUTE, step=5 * MINUTE)
    assert world.only().state is DeployState.INCONCLUSIVE
    assert world.only().analyses[-1].summary
    looker.ends()


@pytest.mark.parametrize("way", ["same_hours", "previous_period"])
def test_a_replaced_version_is_compared_at_its_hours_or_the_time_before(
    way: str,
) -> None:
    world = World(at=-5 * MINUTE)
    if way == "same_hours":
        world.ships("1", -DAY, HOUR - DAY, text=working(0.30), pods=PODS)
        world.ships("1", -4 * MINUTE, 0, text=working(0.30), pods=PODS)
    else:
        world.ships("1", -5 * HOUR, 0, text=working(0.30), pods=PODS)
    world.ships("2", 0, HOUR, text=working(0.40, 2), pods=PODS)
    looker = Looker(world, judge_of())
    looker.until(25 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    look = deploy.analyses[-1]
    assert look.comparison_mode == way
    assert look.baseline is not None
    assert look.comparison is not None
    assert look.comparison.start - look.baseline.start == (DAY if way == "same_hours" else 20 * MINUTE)
    assert deploy.verdict is not None
    assert deploy.verdict["method"]["paired"] == ("hours" if way == "same_hours" else "")
    # Load may differ between the two times, so the total is not judged however large its change is.
    assert deploy.verdict["basis"] == "composition"
    assert deploy.verdict["direction"] == "not_judged"
    assert look.summary.endswith("; may be load.")
    looker.ends()


def test_a_pattern_that_re2_does_not_take_keeps_a_collector_from_starting() -> None:
    with pytest.raises(BadSetting, match="regular expression"):
        made_judge(QueryLimits(), replace(FORTY, fail_on=("function:(?=x)>+1%",)))


TWENTY = DeployPolicy(last_analysis_seconds=20 * MINUTE)
ID = "c_01M7YQVZYKSX6KCDH95ZVGXJS6"


def captured() -> World:
    """Version 2 takes as much as version 1, but for the minutes in which somebody looked closer."""
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR, text=working(0.30), pods="abcdef")
    world.ships("2", 0, HOUR, text=working(0.30, 2), pods="abcdef")
    world.ships("2", 2 * MINUTE, 8 * MINUTE, text=working(0.90, 3), pods="abcdef", capture=ID)
    return world


def test_a_capture_of_a_bad_moment_does_not_make_a_deploy_regressed() -> None:
    world = captured()
    rules = replace(TWENTY, fail_on=("cpu>+10%",))
    looker = Looker(world, make_analyser(make_compare_function(QueryLimits(), rules.fail_on), rules), rules)
    looker.until(15 * MINUTE, step=5 * MINUTE)
    deploy = world.only()
    assert deploy.state is DeployState.PASS
    (look,) = deploy.analyses
    assert look.rate is not None
    assert abs(look.rate["relative"]) < 0.05
    looker.ends()
    # What the look links to is the same question.
    asked = parse_qs(urlsplit(build_api_link(deploy) or "").query)
    assert 'capture=""' in asked["baseline"][0]
    assert 'capture=""' in asked["comparison"][0]
    assert parse_qs(urlsplit(build_view_link(deploy)).query)["query"] == ['capture=""']


def test_the_time_of_a_capture_is_no_time_in_which_a_version_ran() -> None:
    """A capture of old pods beside the new version makes no canary."""
    world = World()
    world.ships("1", -HOUR, 0)
    world.ships("1", MINUTE, 10 * MINUTE, capture=ID)
    world.ships("2", 0, HOUR)
    deploy = create_deploy(("", "shop", "2"), START, "1", ObservedSpan(START - HOUR, START), None, TWENTY)

    def ran(version: str, start: float, until: float) -> ObservedSpan | None:
        selector = build_version_selector("", "shop", version)
        return Looker(world).ask(lambda reading: find_observed_span(reading, selector, start, until))

    chosen = select_sides(deploy, 600.0, ran, TWENTY)
    assert chosen is not None
    assert chosen.comparison_mode == "previous_period"


def test_a_version_seen_in_captures_alone_cannot_be_judged_yet() -> None:
    world = World(at=-5 * MINUTE)
    world.ships("1", -HOUR, HOUR)
    world.ships("2", 0, HOUR, capture=ID)
    looker = Looker(
        world, make_analyser(make_compare_function(QueryLimits(), TWENTY.fail_on), TWENTY), TWENTY
    )
    looker.until(15 * MINUTE, step=5 * MINUTE)
    assert world.only().analyses[0].problem == "There are no windows of both versions to compare."
    looker.ends()
