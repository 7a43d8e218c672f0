"""Who is told of a regressed deploy: once, again while they are away, and that it is over."""

from __future__ import annotations

import hmac
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sidelight.settings import BadSetting, mask_secrets, parse_settings
from sidelight_collector.deploys.deploy import (
    Deploy,
    DeployAnalysis,
    DeployEnd,
    DeployPolicy,
    DeployState,
    FinishReason,
    TimeRange,
    add_analysis,
    create_deploy,
    finish_deploy,
    resolve_deploy,
)
from sidelight_collector.deploys.deploy_repository import DeployRepository
from sidelight_collector.deploys.deploy_wiring import build_notifier
from sidelight_collector.deploys.notify import notifications, notifiers
from sidelight_collector.deploys.notify.notifications import ALERTMANAGER, WEBHOOK
from sidelight_collector.deploys.notify.notifiers import DeployNotifier, ReceiverAddress, Receivers
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import ObservedSpan
from tests.collector.alertmanagers import Alertmanager, Webhook, alertmanager, webhook, webhook_away
from tests.collector.deploy_world import HOUR, ships_until_now, working
from tests.collector.processes import Process, metric
from tests.processes import S3Server, eventually

RULES = DeployPolicy()
SECRET = b"a secret of many bytes"


def look(k: int, at: float, state: DeployState) -> DeployAnalysis:
    condition = {"condition": "cpu>+5%", "state": str(state), "summary": "CPU time: +8 %, beyond +5 %."}
    sides = TimeRange(at - 600, at), TimeRange(at - 600, at)
    rate = {"baseline": 1.0}
    return DeployAnalysis(k, at, 600.0 * k, state, "canary", *sides, "B takes 8 % more.", rate, (condition,))


@dataclass
class Place:
    """A store with one deploy, and a clock that stands still."""

    store: ObjectStore = field(default_factory=MemoryStore)
    at: float = field(default_factory=lambda: float(int(time.time())))
    metrics: Metrics = field(default_factory=Metrics)
    service: str = "shop"
    id: str = ""

    def __post_init__(self) -> None:
        self.shelf = DeployRepository(self.store)
        labels = ("prod", self.service, "2")
        one = create_deploy(
            labels, self.at - 900, "1", ObservedSpan(self.at - 9000, self.at - 900), None, RULES
        )
        assert self.shelf.create(one)
        self.id = one.id

    def judged(self, state: DeployState) -> None:
        """One more look."""

        def change(one: Deploy) -> Deploy:
            return add_analysis(one, look(len(one.analyses) + 1, self.at, state), None, RULES)

        self.shelf.update(self.id, change)

    def over(self) -> None:
        self.shelf.update(
            self.id, lambda one: finish_deploy(one, DeployEnd(self.at, FinishReason.ROLLED_BACK, "1"))
        )

    @property
    def deploy(self) -> Deploy:
        return self.shelf.get(self.id)

    def receivers(self, *, clock: Callable[[], float] | None = None, **given: Any) -> DeployNotifier:
        given = {"public_url": "https://sidelight.example/p", "retry_seconds": 3600.0, **given}
        names = {"webhook", "secret", "alertmanagers"} & given.keys()
        receivers = Receivers(**{name: given.pop(name) for name in names})
        return DeployNotifier(self.shelf, self.metrics, receivers, clock=clock or (lambda: self.at), **given)

    def told(self, to: DeployNotifier, ended: Callable[[], bool] = lambda: False) -> Deploy:
        to.notify([self.deploy], ended)
        return self.deploy

    def counted(self, receiver: str, outcome: str) -> float:
        labels = {"receiver": receiver, "outcome": outcome}
        return self.metrics.registry.get_sample_value("sidelight_deploy_alerts_total", labels) or 0.0


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "TIMEOUT_SECONDS", 60.0)


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    with closing(made.shelf):
        yield made


@pytest.fixture(scope="module")
def one_hook() -> Iterator[Webhook]:
    with webhook() as server:
        yield server


@pytest.fixture
def hook(one_hook: Webhook) -> Webhook:
    """The webhook of this module, which has got nothing yet."""
    one_hook.forget()
    return one_hook


@pytest.fixture(scope="module")
def notified() -> Iterator[Webhook]:
    """What Alertmanager tells of the alerts of all tests."""
    with webhook() as server:
        yield server


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory, notified: Webhook) -> Iterator[Alertmanager]:
    """The Alertmanager of this module: each test has a service of its own."""
    with alertmanager(tmp_path_factory.mktemp("alertmanager"), notified.url) as server:
        yield server


def test_a_webhook_is_told_once_that_it_regressed_and_once_that_it_is_over(
    place: Place, hook: Webhook
) -> None:
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.told(to)
    assert hook.got == []
    place.judged(DeployState.REGRESSED)
    for _ in range(3):
        place.told(to)
        place.at += 60
    place.judged(DeployState.REGRESSED)
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
    assert (last["reason"], last["delivery_id"]) == ("rolled_back", f"{place.id}-2")
    assert [one.outcome for one in place.deploy.deliveries] == ["sent"]
    assert place.counted(WEBHOOK, "sent") == 2
    assert not place.deploy.is_active


@pytest.mark.parametrize("how", ["pass", "resolved"])
def test_a_regression_that_is_over_is_told_and_one_that_comes_again_too(
    place: Place, hook: Webhook, how: str
) -> None:
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.judged(DeployState.REGRESSED)
    place.told(to)
    if how == "pass":
        place.judged(DeployState.PASS)
    else:
        place.shelf.update(place.id, lambda one: resolve_deploy(one, place.at, "olga"))
    place.told(to)
    assert hook.got[1].json["reason"] == how
    place.judged(DeployState.REGRESSED)
    place.told(to)
    # Whoever resolved it has said all there is to say.
    assert hook.events == ["regressed", "resolved"] + (["regressed"] if how == "pass" else [])


def test_a_look_that_cannot_tell_resolves_nothing(place: Place, hook: Webhook) -> None:
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.judged(DeployState.REGRESSED)
    place.told(to)
    place.judged(DeployState.INCONCLUSIVE)
    place.told(to)
    assert (hook.events, place.deploy.state) == (["regressed"], DeployState.REGRESSED)


def test_what_a_webhook_gets_is_signed(place: Place, hook: Webhook) -> None:
    place.judged(DeployState.REGRESSED)
    place.told(place.receivers(webhook=ReceiverAddress(hook.url), secret=SECRET))
    (sent,) = hook.got
    stamp, _, given = sent.headers["Sidelight-Signature"].partition(",")
    signed = stamp.removeprefix("t=").encode() + b"." + sent.body
    assert given == "v1=" + hmac.new(SECRET, signed, sha256).hexdigest()
    assert float(stamp.removeprefix("t=")) == place.at
    assert sent.headers["Content-Type"] == "application/json"
    assert sent.headers["Sidelight-Event"] == "regressed"
    assert sent.headers["Sidelight-Delivery"] == sent.json["delivery_id"] == f"{place.id}-1"


def test_an_unreachable_receiver_is_tried_less_often_and_then_given_up(place: Place) -> None:
    with webhook_away() as (away, _):
        to = place.receivers(webhook=ReceiverAddress(f"http://me:pass@127.0.0.1:{away.port}/token-in-path"))
        place.judged(DeployState.REGRESSED)
        begin, tries, before = place.at, [], 0
        while place.at < begin + 7200:
            now = sum(one.attempts for one in place.told(to).deliveries)
            if now > before:
                tries.append(place.at - begin)
            before = now
            place.at += 10
    assert tries[:5] == [0, 10, 30, 70, 150]
    assert all(later - earlier <= 610 for earlier, later in pairwise(tries))
    (left,) = place.deploy.deliveries
    assert left.outcome == "failed"
    assert tries[-1] >= 3600
    assert place.counted(WEBHOOK, "given_up") == 1
    assert place.counted(WEBHOOK, "failed") == len(tries) - 1
    assert f"127.0.0.1:{away.port}" in left.problem
    assert "pass" not in left.problem
    assert "token-in-path" not in left.problem


def test_a_receiver_that_comes_back_is_told_what_it_missed(place: Place) -> None:
    with webhook_away() as (hook, begin):
        place.judged(DeployState.REGRESSED)
        place.told(place.receivers(webhook=ReceiverAddress(hook.url)))
        assert place.deploy.deliveries[0].outcome == "pending"
        begin()
        place.told(place.receivers(webhook=ReceiverAddress(hook.url)))
        assert hook.got == []  # it is not yet time
        place.at += 11
        # Another process goes on where the first ended.
        place.told(place.receivers(webhook=ReceiverAddress(hook.url)))
        assert hook.events == ["regressed"]
        assert (place.deploy.deliveries[0].attempts, place.deploy.deliveries[0].problem) == (2, "")


def test_what_nobody_heard_of_need_not_be_resolved(place: Place, hook: Webhook) -> None:
    place.judged(DeployState.REGRESSED)
    place.told(place.receivers(webhook=ReceiverAddress(hook.url)), ended=lambda: True)
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.judged(DeployState.PASS)
    place.told(to)
    assert hook.got == []
    assert place.deploy.deliveries == ()


@pytest.mark.parametrize(("status", "outcome"), [(400, "refused"), (404, "refused"), (302, "refused")])
def test_a_receiver_that_refuses_is_not_asked_again(
    place: Place, hook: Webhook, status: int, outcome: str
) -> None:
    hook.answers, hook.location = status, "http://127.0.0.1:1/elsewhere"
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.judged(DeployState.REGRESSED)
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
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.judged(DeployState.REGRESSED)
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
        place.judged(DeployState.REGRESSED)
        seen = place.deploy
        both = [place.receivers(webhook=ReceiverAddress(hook.url)) for _ in range(2)]
        for to in both:
            to.notify([seen], lambda: False)  # each goes by what it read before the other told
        for to in both:
            place.told(to)
        assert hook.events == ["regressed"]


def test_one_that_died_while_it_told_is_made_up_for_with_the_same_id(place: Place, hook: Webhook) -> None:
    place.judged(DeployState.REGRESSED)
    one = notifications.update_deliveries(place.deploy, [WEBHOOK], place.at)
    assert one is not None
    claimed = notifications.record_attempt(one, one.deliveries[0], place.at)
    place.shelf.update(place.id, lambda _: claimed)  # and then the process was gone
    to = place.receivers(webhook=ReceiverAddress(hook.url))
    place.told(to)
    assert hook.got == []
    place.at += 11
    place.told(to)
    assert [one.json["delivery_id"] for one in hook.got] == [f"{place.id}-1"]


def of(manager: Alertmanager, place: Place) -> list[dict[str, Any]]:
    """The alerts of one test that have not ended."""
    return [one for one in manager.alerts() if one["labels"]["service"] == place.service]


def test_alertmanager_has_the_alert_until_it_is_resolved(manager: Alertmanager, notified: Webhook) -> None:
    place = Place(service="resolved")
    with closing(place.shelf):
        now = {"at": time.time()}

        def collector() -> DeployNotifier:
            to = [ReceiverAddress(manager.url)]
            return place.receivers(alertmanagers=to, resend_seconds=60.0, clock=lambda: now["at"])

        place.judged(DeployState.REGRESSED)
        place.told(collector())
        assert place.deploy.deliveries[0].outcome == "sent"
        (alert,) = of(manager, place)
        assert alert["labels"] == {
            "alertname": "SidelightRegression",
            "namespace": "prod",
            "service": "resolved",
            "version": "2",
        }
        assert alert["annotations"]["summary"] == "prod/resolved: version 2 is worse than 1"
        assert alert["annotations"]["description"] == "B takes 8 % more. CPU time: +8 %, beyond +5 %."
        assert alert["generatorURL"].startswith("https://sidelight.example/p/s/resolved/compare?")
        first = alert["endsAt"]
        # Another collector that goes on sends the same alert, which only lives on for longer.
        now["at"] += 61
        other = collector()
        place.told(other)
        (alert,) = of(manager, place)
        assert alert["endsAt"] > first

        def told() -> set[str]:
            notifications = [alert for one in list(notified.got) for alert in one.json["alerts"]]
            return {one["status"] for one in notifications if one["labels"]["service"] == place.service}

        # Alertmanager passes over an alert that ends before it told of it.
        eventually("alertmanager told of it", lambda: told() == {"firing"})
        place.over()
        now["at"] = time.time() + 30  # a clock that is ahead of Alertmanager's
        place.told(other)
        eventually("alertmanager has no alert", lambda: of(manager, place) == [])
        eventually("it told of its end", lambda: told() == {"firing", "resolved"})
        assert place.deploy.deliveries[0].event == "resolved"
        assert not place.deploy.is_active


def test_an_alertmanager_that_was_away_gets_the_alert_again(place: Place, hook: Webhook) -> None:
    to = place.receivers(
        alertmanagers=[ReceiverAddress(f"http://127.0.0.1:{hook.port}/")], resend_seconds=60.0
    )
    place.judged(DeployState.REGRESSED)
    place.told(to)
    assert [one.path for one in hook.got] == ["/api/v2/alerts"]
    hook.answers = 503
    place.at += 61
    place.told(to)
    assert (len(hook.got), place.counted(ALERTMANAGER, "failed")) == (2, 1)
    hook.answers = 200
    place.told(to)
    assert len(hook.got) == 2  # it is left alone for ten seconds
    place.at += 11
    place.told(to)
    assert len(hook.got) == 3
    assert hook.got[2].json[0]["labels"] == hook.got[0].json[0]["labels"]
    assert len([one for one in place.deploy.deliveries if one.event == "regressed"]) == 1


def test_all_alertmanagers_of_a_cluster_are_told(manager: Alertmanager) -> None:
    place = Place(service="cluster")
    with closing(place.shelf), webhook_away() as (dead, _):
        to = place.receivers(
            alertmanagers=[ReceiverAddress(f"http://127.0.0.1:{dead.port}"), ReceiverAddress(manager.url)],
            clock=time.time,
        )
        place.judged(DeployState.REGRESSED)
        place.told(to)
        assert len(of(manager, place)) == 1
        assert place.deploy.deliveries[0].outcome == "sent"


def test_the_end_of_a_first_arrival_does_not_end_the_alert_of_the_second(manager: Alertmanager) -> None:
    now = float(int(time.time()))
    shelf, labels = DeployRepository(MemoryStore()), ("prod", "returned", "2")

    def regressed(number: int, at: float) -> Deploy:
        one = create_deploy(labels, at - 900, "1", ObservedSpan(at - 9000, at - 900), None, RULES, number)
        judged = add_analysis(one, look(1, at, DeployState.REGRESSED), None, RULES)
        assert shelf.create(judged)
        return judged

    def alerts() -> list[str]:
        found = [one for one in manager.alerts() if one["labels"]["service"] == "returned"]
        return [one["status"]["state"] for one in found]

    with closing(shelf):
        to = DeployNotifier(
            shelf, Metrics(), Receivers(alertmanagers=(ReceiverAddress(manager.url),)), clock=lambda: now
        )
        first = regressed(1, now - 7200)
        to.notify([first], lambda: False)
        gone = shelf.update(
            first.id, lambda one: finish_deploy(one, DeployEnd(now - 3600, FinishReason.ROLLED_BACK, "1"))
        )
        again = regressed(2, now)
        to.notify([again, gone], lambda: False)
        eventually("it fires", lambda: alerts() == ["active"])
        assert [one.event for one in shelf.get(again.id).deliveries] == ["regressed"]
        (told,) = shelf.get(first.id).deliveries
        assert (told.receiver, told.event, told.outcome) == (ALERTMANAGER, "resolved", "sent")
        over = shelf.update(
            again.id, lambda one: finish_deploy(one, DeployEnd(now, FinishReason.ROLLED_BACK, "1"))
        )
        to.notify([over], lambda: False)
        eventually("it ends", lambda: alerts() == [])


def test_a_user_and_a_password_in_a_url_are_sent_as_such(place: Place, hook: Webhook) -> None:
    url = hook.url.replace("://", "://me:p%40ss@") + "?room=1"
    assert ReceiverAddress(url).host == f"127.0.0.1:{hook.port}"
    assert "p%40ss" not in repr(ReceiverAddress(url))
    place.judged(DeployState.REGRESSED)
    place.told(place.receivers(webhook=ReceiverAddress(url)))
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
        (["--deploy-max-analyses-per-minute", "0"], "at least 1"),
        (["--deploy-cpu-budget-percent", "101"], "at most 100"),
        (["--deploy-min-effect-percent", "1001"], "at most 1000"),
        (["--deploy-first-analysis-seconds", "90000"], "above deploy_last_analysis_seconds"),
        (["--deploy-last-analysis-seconds", "1209601"], "at most"),
        (["--deploy-retention-days", "36526"], "at most"),
        (["--alertmanager-resend-seconds", "3601"], "at most"),
        ([word for at in range(11) for word in ("--alertmanager-url", f"http://a{at}")], "at most 10"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(words: list[str], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        parse_settings(Settings, "collector", "", ["--store", "x", *words], {})
    assert said in refused.value.message
    assert "hunter2" not in refused.value.message


def test_settings_at_the_edge_are_taken_and_urls_are_starred() -> None:
    words = ["--deploy-last-analysis-seconds", "1209600", "--deploy-cpu-budget-percent", "100"]
    words += ["--deploy-fail-on", "cpu>+5%", "--deploy-fail-on", "depth.p95>+5"]
    words += ["--alertmanager-url", "http://u:hunter2@x", "--deploy-webhook-url", "http://u:hunter2@x"]
    settings = parse_settings(Settings, "collector", "", ["--store", "x", *words], {})
    assert settings.deploy_fail_on == ("cpu>+5%", "depth.p95>+5")
    assert "hunter2" not in str(mask_secrets(settings))
    by_variable = {"SIDELIGHT_STORE": "x", "SIDELIGHT_DEPLOY_FAIL_ON": "cpu>+5%,depth.p95>+5"}
    assert (
        parse_settings(Settings, "collector", "", [], by_variable).deploy_fail_on == settings.deploy_fail_on
    )


@pytest.mark.parametrize(("content", "said"), [(b"short", "fewer than 16 bytes"), (None, "cannot read")])
def test_a_secret_that_cannot_be_used_is_refused(
    place: Place, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    given = Settings(store="x", deploy_webhook_url="https://x", deploy_webhook_secret_file=file)
    with pytest.raises(BadSetting, match=said):
        build_notifier(given, place.shelf, place.metrics)
    file.write_bytes(b"x" * 16 + b"\n")
    assert build_notifier(given, place.shelf, place.metrics).receiver_names == [WEBHOOK]


def test_nobody_is_told_without_a_url(place: Place) -> None:
    place.judged(DeployState.REGRESSED)
    place.told(build_notifier(Settings(store="x"), place.shelf, place.metrics))
    assert place.deploy.deliveries == ()
    assert replace(place.deploy, deliveries=()) == place.deploy


def asked(process: Process, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{process.port()}/api/v1/{path}", method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def one_of(processes: list[Process]) -> Process | None:
    """The one that looks after deploys, by its own count."""
    return next((one for one in processes if metric(one.port(), "sidelight_deploys_active")), None)


def test_of_several_collectors_each_thing_is_told_once_though_one_is_killed(
    start: Callable[..., Process],
    s3_server: S3Server,
    new_bucket: Callable[[], str],
    hook: Webhook,
) -> None:
    bucket = new_bucket()
    store = S3Store(bucket, "p", endpoint=s3_server.endpoint)
    for world in (
        ships_until_now(2 * HOUR, 0, "1", working(0.30)),
        ships_until_now(HOUR / 2, 0, "2", working(0.42, 2)),
    ):
        for entry in world.store.list(""):
            store.put(f"{entry.key}", world.store.get(entry.key))
    given = ["--s3-endpoint", s3_server.endpoint, "--deploy-webhook-url", hook.url]
    given += ["--deploy-check-interval-seconds", "0.5", "--compact-lease-seconds", "3"]
    given += ["--compact-interval-seconds", "0"]
    first = [start(f"s3://{bucket}/p", *given) for _ in range(2)]
    # Of this one the processes that serve leave it to the one that compacts.
    several = start(f"s3://{bucket}/p", *given, "--workers", "2")

    def outcome() -> str:
        """What became of the first alert; one that dies before this is written tells it again."""
        notifications = [alert for one in asked(first[0], "deploys")["deploys"] for alert in one["alerts"]]
        return notifications[0]["outcome"] if notifications else ""

    eventually("the webhook is told", lambda: outcome() == "sent", 300.0)
    holder = eventually("one of them looks after it", lambda: one_of([*first, several]), 300.0)
    holder.kill()
    others = [one for one in (*first, several) if one is not holder]
    (deploy,) = asked(others[0], "deploys")["deploys"]
    assert (deploy["version"], deploy["state"], deploy["firing"]) == ("2", "regressed", True)
    resolved = asked(others[1], f"deploys/{deploy['id']}/resolve", "POST")
    assert resolved["firing"] is False
    eventually("another goes on", lambda: len(hook.got) > 1, 300.0)
    eventually(
        "and has written that down",
        lambda: asked(others[0], "deploys")["deploys"][0]["alerts"][0]["outcome"] == "sent",
        300.0,
    )
    assert hook.events == ["regressed", "resolved"]
    assert len(asked(others[0], "deploys")["deploys"][0]["analyses"]) == 1
