"""Who is told of a regressed deploy: once, again while they are away, and that it is over."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sidelight.collector.deploys import alerts
from sidelight.collector.deploys.alerts import ALERTMANAGER, WEBHOOK
from sidelight.collector.deploys.deploy import (
    Deploy,
    Look,
    Over,
    Range,
    Rules,
    Span,
    State,
    Why,
    ended,
    looked,
    new,
    resolved,
)
from sidelight.collector.deploys.made import receivers
from sidelight.collector.deploys.receivers import Address, Receivers
from sidelight.collector.deploys.shelf import Shelf
from sidelight.collector.metrics import Metrics
from sidelight.collector.settings import Settings
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.store.objects import ObjectStore
from sidelight.settings import BadSetting, parse, shown
from tests.collector.alertmanagers import Webhook, alertmanager, free_port, webhook
from tests.running import eventually

RULES = Rules()
SECRET = b"a secret of many bytes"


def look(k: int, at: float, state: State) -> Look:
    condition = {"condition": "cpu>+5%", "state": str(state), "sentence": "CPU time: +8 %, beyond +5 %."}
    sides = Range(at - 600, at), Range(at - 600, at)
    return Look(k, at, 600.0 * k, state, "canary", *sides, "B takes 8 % more.", {"a": 1.0}, (condition,))


@dataclass
class Place:
    """A store with one deploy, and a clock that stands still."""

    store: ObjectStore = field(default_factory=MemoryStore)
    at: float = field(default_factory=lambda: float(int(time.time())))
    metrics: Metrics = field(default_factory=Metrics)
    id: str = ""

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.store)
        labels = ("prod", "shop", "2")
        one = new(labels, self.at - 900, "1", Span(self.at - 9000, self.at - 900), None, RULES)
        assert self.shelf.create(one)
        self.id = one.id

    def judged(self, state: State) -> None:
        """One more look."""

        def change(one: Deploy) -> Deploy:
            return looked(one, look(len(one.looks) + 1, self.at, state), None, RULES)

        self.shelf.change(self.id, change)

    def over(self) -> None:
        self.shelf.change(self.id, lambda one: ended(one, Over(self.at, Why.ROLLED_BACK, "1")))

    @property
    def deploy(self) -> Deploy:
        return self.shelf.deploy(self.id)

    def receivers(self, *, clock: Callable[[], float] | None = None, **given: Any) -> Receivers:
        given = {"public_url": "https://sidelight.example/p", "retry_seconds": 3600.0, **given}
        return Receivers(self.shelf, self.metrics, clock=clock or (lambda: self.at), **given)

    def told(self, to: Receivers, ended: Callable[[], bool] = lambda: False) -> Deploy:
        to.tell([self.deploy], ended)
        return self.deploy

    def counted(self, receiver: str, outcome: str) -> float:
        labels = {"receiver": receiver, "outcome": outcome}
        return self.metrics.registry.get_sample_value("sidelight_deploy_alerts_total", labels) or 0.0


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    with closing(made.shelf):
        yield made


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as server:
        yield server


def test_a_webhook_is_told_once_that_it_regressed_and_once_that_it_is_over(
    place: Place, hook: Webhook
) -> None:
    to = place.receivers(webhook=Address(hook.url))
    place.told(to)
    assert hook.got == []
    place.judged(State.REGRESSED)
    for _ in range(3):
        place.told(to)
        place.at += 60
    place.judged(State.REGRESSED)
    place.told(to)
    assert hook.events == ["regressed"]
    place.over()
    for _ in range(3):
        place.told(to)
        place.at += 60
    assert hook.events == ["regressed", "resolved"]
    first, last = (one.json for one in hook.got)
    assert first["deploy"]["service"] == "shop"
    assert first["deploy"]["conditions"][0]["condition"] == "cpu>+5%"
    assert first["links"]["view"].startswith("https://sidelight.example/p/s/shop/compare?")
    assert first["links"]["api"] == f"https://sidelight.example/p/api/v1/deploys/{place.id}"
    assert (last["reason"], last["delivery"]) == ("rolled_back", f"{place.id}-2")
    assert [one.outcome for one in place.deploy.deliveries] == ["sent"]
    assert place.counted(WEBHOOK, "sent") == 2
    assert not place.deploy.is_active


@pytest.mark.parametrize("how", ["fine", "resolved"])
def test_a_regression_that_is_over_is_told_and_one_that_comes_again_too(
    place: Place, hook: Webhook, how: str
) -> None:
    to = place.receivers(webhook=Address(hook.url))
    place.judged(State.REGRESSED)
    place.told(to)
    if how == "fine":
        place.judged(State.FINE)
    else:
        place.shelf.change(place.id, lambda one: resolved(one, place.at, "olga"))
    place.told(to)
    assert hook.got[1].json["reason"] == how
    place.judged(State.REGRESSED)
    place.told(to)
    # Whoever resolved it has said all there is to say.
    assert hook.events == ["regressed", "resolved"] + (["regressed"] if how == "fine" else [])


def test_a_look_that_cannot_tell_resolves_nothing(place: Place, hook: Webhook) -> None:
    to = place.receivers(webhook=Address(hook.url))
    place.judged(State.REGRESSED)
    place.told(to)
    place.judged(State.UNCLEAR)
    place.told(to)
    assert (hook.events, place.deploy.state) == (["regressed"], State.REGRESSED)


def test_what_a_webhook_gets_is_signed(place: Place, hook: Webhook) -> None:
    place.judged(State.REGRESSED)
    place.told(place.receivers(webhook=Address(hook.url), secret=SECRET))
    (sent,) = hook.got
    stamp, _, given = sent.headers["Sidelight-Signature"].partition(",")
    signed = stamp.removeprefix("t=").encode() + b"." + sent.body
    assert given == "v1=" + hmac.new(SECRET, signed, sha256).hexdigest()
    assert float(stamp.removeprefix("t=")) == place.at
    assert sent.headers["Content-Type"] == "application/json"
    assert sent.headers["Sidelight-Event"] == "regressed"
    assert sent.headers["Sidelight-Delivery"] == sent.json["delivery"] == f"{place.id}-1"


def test_a_receiver_that_is_away_is_tried_less_and_less_often_and_then_given_up(place: Place) -> None:
    port = free_port()
    to = place.receivers(webhook=Address(f"http://me:pass@127.0.0.1:{port}/token-in-path"))
    place.judged(State.REGRESSED)
    begin, tries = place.at, []
    while place.at < begin + 7200:
        before = sum(one.tries for one in place.deploy.deliveries)
        place.told(to)
        if sum(one.tries for one in place.deploy.deliveries) > before:
            tries.append(place.at - begin)
        place.at += 5
    assert tries[:5] == [0, 10, 30, 70, 150]
    assert all(later - earlier <= 605 for earlier, later in pairwise(tries))
    (left,) = place.deploy.deliveries
    assert left.outcome == "failed"
    assert tries[-1] >= 3600
    assert place.counted(WEBHOOK, "given_up") == 1
    assert place.counted(WEBHOOK, "failed") == len(tries) - 1
    assert f"127.0.0.1:{port}" in left.problem
    assert "pass" not in left.problem
    assert "token-in-path" not in left.problem


def test_a_receiver_that_comes_back_is_told_what_it_missed(place: Place) -> None:
    port = free_port()
    to = place.receivers(webhook=Address(f"http://127.0.0.1:{port}/hook"))
    place.judged(State.REGRESSED)
    place.told(to)
    assert place.deploy.deliveries[0].outcome == "pending"
    with webhook(port) as hook:
        place.told(to)
        assert hook.got == []  # it is not yet time
        place.at += 11
        # Another process goes on where the first ended.
        place.told(place.receivers(webhook=Address(hook.url)))
        assert hook.events == ["regressed"]
        assert (place.deploy.deliveries[0].tries, place.deploy.deliveries[0].problem) == (2, "")


def test_what_nobody_heard_of_need_not_be_resolved(place: Place, hook: Webhook) -> None:
    place.judged(State.REGRESSED)
    place.told(place.receivers(webhook=Address(hook.url)), ended=lambda: True)
    to = place.receivers(webhook=Address(hook.url))
    place.judged(State.FINE)
    place.told(to)
    assert hook.got == []
    assert place.deploy.deliveries == ()


@pytest.mark.parametrize(("status", "outcome"), [(400, "refused"), (404, "refused"), (302, "refused")])
def test_a_receiver_that_refuses_is_not_asked_again(
    place: Place, hook: Webhook, status: int, outcome: str
) -> None:
    hook.answers, hook.location = status, "http://127.0.0.1:1/elsewhere"
    to = place.receivers(webhook=Address(hook.url))
    place.judged(State.REGRESSED)
    for _ in range(5):
        place.told(to)
        place.at += 1000
    assert len(hook.got) == 1
    (left,) = place.deploy.deliveries
    assert left.outcome == outcome
    assert left.problem == f"127.0.0.1:{hook.port} answered {status}: said  [31mso"
    assert not any(one.event == "resolved" for one in place.deploy.deliveries)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_receiver_that_cannot_now_is_asked_again(place: Place, hook: Webhook, status: int) -> None:
    hook.answers = status
    to = place.receivers(webhook=Address(hook.url))
    place.judged(State.REGRESSED)
    place.told(to)
    hook.answers = 204
    place.at += 11
    place.told(to)
    assert len(hook.got) == 2
    assert {one.headers["Sidelight-Delivery"] for one in hook.got} == {f"{place.id}-1"}
    assert place.deploy.deliveries[0].outcome == "sent"


def test_two_collectors_tell_it_once(store: ObjectStore, hook: Webhook) -> None:
    place = Place(store)
    with closing(place.shelf):
        place.judged(State.REGRESSED)
        seen = place.deploy
        both = [place.receivers(webhook=Address(hook.url)) for _ in range(2)]
        for to in both:
            to.tell([seen], lambda: False)  # each goes by what it read before the other told
        for to in both:
            place.told(to)
        assert hook.events == ["regressed"]


def test_one_that_died_while_it_told_is_made_up_for_with_the_same_id(place: Place, hook: Webhook) -> None:
    place.judged(State.REGRESSED)
    one = alerts.noticed(place.deploy, [WEBHOOK], place.at)
    assert one is not None
    claimed = alerts.tried(one, one.deliveries[0], place.at)
    place.shelf.change(place.id, lambda _: claimed)  # and then the process was gone
    to = place.receivers(webhook=Address(hook.url))
    place.told(to)
    assert hook.got == []
    place.at += 11
    place.told(to)
    assert [one.json["delivery"] for one in hook.got] == [f"{place.id}-1"]


def test_alertmanager_has_the_alert_until_it_is_resolved(tmp_path: Path, hook: Webhook) -> None:
    place = Place()
    with closing(place.shelf), alertmanager(tmp_path, hook.url) as manager:
        now = {"at": time.time()}
        to = place.receivers(
            alertmanagers=[Address(manager.url)], resend_seconds=60.0, clock=lambda: now["at"]
        )
        place.judged(State.REGRESSED)
        place.told(to)
        assert place.deploy.deliveries[0].outcome == "sent"
        (alert,) = manager.alerts()
        assert alert["labels"] == {
            "alertname": "SidelightRegression",
            "namespace": "prod",
            "service": "shop",
            "version": "2",
        }
        assert alert["annotations"]["summary"] == "prod/shop: version 2 is worse than 1"
        assert alert["annotations"]["description"] == "B takes 8 % more. CPU time: +8 %, beyond +5 %."
        assert alert["generatorURL"].startswith("https://sidelight.example/p/s/shop/compare?")
        first = alert["endsAt"]
        # Another collector that goes on sends the same alert, which only lives on for longer.
        now["at"] += 61
        other = place.receivers(
            alertmanagers=[Address(manager.url)], resend_seconds=60.0, clock=lambda: now["at"]
        )
        place.told(other)
        (alert,) = manager.alerts()
        assert alert["endsAt"] > first
        place.over()
        now["at"] = time.time() + 30  # a clock that is ahead of Alertmanager's
        place.told(other)
        eventually("alertmanager has no alert", lambda: manager.alerts() == [])
        eventually(
            "it told of both", lambda: {one.json["status"] for one in hook.got} == {"firing", "resolved"}
        )
        assert place.deploy.deliveries[0].event == "resolved"
        assert not place.deploy.is_active


def test_an_alertmanager_that_forgot_is_told_again(tmp_path: Path, hook: Webhook) -> None:
    place, port = Place(), free_port()
    with closing(place.shelf):
        now = {"at": time.time()}
        to = place.receivers(
            alertmanagers=[Address(f"http://127.0.0.1:{port}/")], clock=lambda: now["at"], resend_seconds=60.0
        )
        place.judged(State.REGRESSED)
        with alertmanager(tmp_path / "first", hook.url, port) as manager:
            place.told(to)
            assert len(manager.alerts()) == 1
        now["at"] += 61
        place.told(to)
        assert place.counted(ALERTMANAGER, "failed") == 1
        with alertmanager(tmp_path / "second", hook.url, port) as manager:
            assert manager.alerts() == []
            place.told(to)
            assert manager.alerts() == []  # it is left alone for ten seconds
            now["at"] += 11
            place.told(to)
            assert len(manager.alerts()) == 1
        assert len([one for one in place.deploy.deliveries if one.event == "regressed"]) == 1


def test_all_alertmanagers_of_a_cluster_are_told(tmp_path: Path, hook: Webhook) -> None:
    place = Place()
    with closing(place.shelf), alertmanager(tmp_path, hook.url) as manager:
        dead = Address(f"http://127.0.0.1:{free_port()}")
        to = place.receivers(alertmanagers=[dead, Address(manager.url)], clock=time.time)
        place.judged(State.REGRESSED)
        place.told(to)
        assert len(manager.alerts()) == 1
        assert place.deploy.deliveries[0].outcome == "sent"


def test_a_user_and_a_password_in_a_url_are_sent_as_such(place: Place, hook: Webhook) -> None:
    url = hook.url.replace("://", "://me:p%40ss@") + "?room=1"
    assert Address(url).host == f"127.0.0.1:{hook.port}"
    assert "p%40ss" not in repr(Address(url))
    place.judged(State.REGRESSED)
    place.told(place.receivers(webhook=Address(url)))
    (sent,) = hook.got
    assert sent.headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert sent.path == "/hook?room=1"


GOOD = {"--store": "x"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--deploy-webhook-url", "ftp://user:hunter2@x"], "no URL"),
        (["--deploy-webhook-url", "https://user:hunter2@x:99999"], "no URL"),
        (["--alertmanager-url", "hunter2"], "no URL"),
        (["--deploy-webhook-secret-file", "/x"], "without deploy_webhook_url"),
        (["--deploy-webhook-url", "https://x", "--no-deploys"], "--no-deploys"),
        (["--deploy-fail-on", "cpu+5"], "`>` or `<` was expected"),
        (["--deploy-looks-per-minute", "0"], "at least 1"),
        (["--deploy-cpu-percent", "101"], "at most 100"),
        (["--deploy-detect-percent", "1001"], "at most 1000"),
        (["--deploy-first-look-seconds", "90000"], "above deploy_last_look_seconds"),
        (["--deploy-last-look-seconds", "1209601"], "at most"),
        (["--deploy-retention-days", "36526"], "at most"),
        (["--alertmanager-resend-seconds", "3601"], "at most"),
        ([word for at in range(11) for word in ("--alertmanager-url", f"http://a{at}")], "at most 10"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        parse(Settings, "collector", "", ["--store", "x", *words], {})
    assert said in refused.value.message
    assert "hunter2" not in refused.value.message


def test_settings_at_the_edge_are_taken_and_urls_are_starred() -> None:
    words = ["--deploy-last-look-seconds", "1209600", "--deploy-cpu-percent", "100"]
    words += ["--deploy-fail-on", "cpu>+5%", "--deploy-fail-on", "depth.p95>+5"]
    words += ["--alertmanager-url", "http://u:hunter2@x", "--deploy-webhook-url", "http://u:hunter2@x"]
    settings = parse(Settings, "collector", "", ["--store", "x", *words], {})
    assert settings.deploy_fail_on == ("cpu>+5%", "depth.p95>+5")
    assert "hunter2" not in str(shown(settings))
    by_variable = {"SIDELIGHT_STORE": "x", "SIDELIGHT_DEPLOY_FAIL_ON": "cpu>+5%,depth.p95>+5"}
    assert parse(Settings, "collector", "", [], by_variable).deploy_fail_on == settings.deploy_fail_on


@pytest.mark.parametrize(("content", "said"), [(b"short", "fewer than 16 bytes"), (None, "cannot read")])
def test_a_secret_that_cannot_be_used_is_refused(
    place: Place, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    given = Settings(store="x", deploy_webhook_url="https://x", deploy_webhook_secret_file=file)
    with pytest.raises(BadSetting, match=said):
        receivers(given, place.shelf, place.metrics)
    file.write_bytes(b"x" * 16 + b"\n")
    assert receivers(given, place.shelf, place.metrics).names == [WEBHOOK]


def test_nobody_is_told_without_a_url(place: Place) -> None:
    place.judged(State.REGRESSED)
    place.told(receivers(Settings(store="x"), place.shelf, place.metrics))
    assert place.deploy.deliveries == ()
    assert replace(place.deploy, deliveries=()) == place.deploy
