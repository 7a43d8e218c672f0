"""Deploys as real collectors look after them: several on one bucket, one of them killed at work."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

from sidelight.collector.store.s3 import S3Store
from tests.collector.alertmanagers import webhook
from tests.collector.deploying import HOUR, working
from tests.collector.processes import Process, metric
from tests.collector.test_deploys_verdicts import shipped
from tests.running import S3Server, eventually


def asked(process: Process, path: str, method: str = "GET") -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{process.port()}/api/v1/{path}", method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def one_of(processes: list[Process]) -> Process | None:
    """The one that looks after deploys, by its own count."""
    return next((one for one in processes if metric(one.port(), "sidelight_deploys_watched")), None)


def test_of_several_collectors_each_thing_is_told_once_though_one_is_killed(
    start: Callable[..., Process],
    s3_server: S3Server,
    new_bucket: Callable[[], str],
) -> None:
    bucket = new_bucket()
    store = S3Store(bucket, "p", endpoint=s3_server.endpoint)
    for world in (shipped(2 * HOUR, 0, "1", working(0.30)), shipped(HOUR / 2, 0, "2", working(0.42, 2))):
        for entry in world.store.list(""):
            store.put(f"{entry.key}", world.store.get(entry.key))
    with webhook() as hook:
        given = ["--s3-endpoint", s3_server.endpoint, "--deploy-webhook-url", hook.url]
        given += ["--deploy-interval-seconds", "0.5", "--compact-lease-seconds", "3"]
        given += ["--compact-interval-seconds", "0"]
        first = [start(f"s3://{bucket}/p", *given) for _ in range(2)]
        # Of this one the processes that serve leave it to the one that compacts.
        several = start(f"s3://{bucket}/p", *given, "--workers", "2")
        eventually("somebody is told", lambda: hook.got, 90.0)
        holder = eventually("one of them looks after it", lambda: one_of([*first, several]), 60.0)
        holder.kill()
        others = [one for one in (*first, several) if one is not holder]
        (deploy,) = asked(others[0], "deploys")["deploys"]
        assert (deploy["version"], deploy["state"], deploy["firing"]) == ("2", "regressed", True)
        resolved = asked(others[1], f"deploys/{deploy['id']}/resolve", "POST")
        assert resolved["firing"] is False
        eventually("another goes on", lambda: len(hook.got) > 1, 90.0)
        eventually(
            "and has written that down",
            lambda: asked(others[0], "deploys")["deploys"][0]["alerts"][0]["outcome"] == "sent",
        )
    assert hook.events == ["regressed", "resolved"]
    assert len(asked(others[0], "deploys")["deploys"][0]["looks"]) == 1
