"""GET /api/v1/deploys: the deploys there were, and how each stands; POST …/resolve ends an alert."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from sidelight_collector.auth.authorizer import reader_of
from sidelight_collector.deploys.deploy import Delivery, Deploy, Look, Range, State, resolved
from sidelight_collector.deploys.deploy_repository import NoDeploy, Shelf
from sidelight_collector.deploys.notify.deploy_links import api_link, view_link
from sidelight_collector.deploys.notify.notifications import delivery_id
from sidelight_collector.http.api.parameters import count, once
from sidelight_collector.http.api.responses import json_reply, takes_gzip
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.times import SECOND_NS, parse_time, rfc3339
from sidelight_model.errors import Reason, SidelightError

PATH: Final = "/api/v1/deploys"
PARAMETERS: Final = ("service", "namespace", "state", "from", "until", "limit")
DEFAULT_LIMIT: Final = 50
MOST_LIMIT: Final = 500


class DeployRoutes:
    """The handlers. They raise BadParameter, BadTime, NoDeploy and StoreError."""

    def __init__(
        self, shelf: Shelf, prefix: str = "", public_url: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._shelf = shelf
        self._prefix = prefix
        self._public = public_url
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        one = f"{PATH}/{{id}}"
        return [
            web.get(PATH, self.list),
            web.get(one, self.get),
            web.post(f"{one}/resolve", self.resolve),
        ]

    async def list(self, request: web.Request) -> web.Response:
        reader, given = reader_of(request), once(request.query, PARAMETERS)
        now_ns = round(self._clock() * 1000) * 1_000_000
        start, until = (
            parse_time(given[name], parameter=name, now_ns=now_ns) / SECOND_NS if name in given else default
            for name, default in (("from", 0.0), ("until", float("inf")))
        )
        state = given.get("state", "")
        limit = min(count("limit", given.get("limit", ""), DEFAULT_LIMIT), MOST_LIMIT)
        if state and state not in list(State):
            raise BadParameter.value("state", state, f"one of {', '.join(State)}")
        if start >= until:
            raise BadParameter("from is not before until: the range is empty", hint="from <= seen < until.")
        wanted = {name: given[name] for name in ("service", "namespace") if name in given}

        def is_wanted(one: Deploy) -> bool:
            same = all(one.labels[name] == value for name, value in wanted.items())
            return same and (not state or one.state == state) and reader.sees(one.labels)

        found = await asyncio.to_thread(
            self._shelf.newest, limit, is_wanted, start, until, wanted.get("service", "")
        )
        answer = {"deploys": [self.told(one) for one in found]}
        return json_reply(answer, gzip=takes_gzip(request)).response(request)

    async def get(self, request: web.Request) -> web.Response:
        reader = reader_of(request)
        once(request.query, ())
        deploy = await asyncio.to_thread(self._shelf.deploy, request.match_info["id"])
        if not reader.sees(deploy.labels):
            raise NoDeploy(deploy.id)
        return self._whole(request, deploy)

    async def resolve(self, request: web.Request) -> web.Response:
        reader = reader_of(request)
        once(request.query, ())
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise SidelightError(
                "a page of another site may not resolve alerts",
                reason=Reason.FORBIDDEN,
                hint="Use the collector's own pages, or curl.",
            )

        def change(one: Deploy) -> Deploy | None:
            if not reader.sees(one.labels):
                raise NoDeploy(one.id)
            return resolved(one, self._clock(), reader.name)

        deploy = await asyncio.to_thread(self._shelf.change, request.match_info["id"], change)
        return self._whole(request, deploy)

    def _whole(self, request: web.Request, deploy: Deploy) -> web.Response:
        answer = {**self.told(deploy), "verdict": deploy.verdict}
        return json_reply(answer, gzip=takes_gzip(request)).response(request)

    def told(self, one: Deploy) -> dict[str, Any]:
        """A deploy as JSON, without its verdict."""
        rollout, path = one.rollout, f"{self._prefix}{PATH}/{one.id}"
        return {
            "id": one.id,
            **one.labels,
            "previous": one.previous,
            "started": _time(one.started),
            "first_seen": _time(one.first_seen),
            "rollout": None
            if rollout is None
            else {
                "kind": rollout.kind,
                "workload": rollout.workload,
                "revision": rollout.revision,
                "started": _time(rollout.started),
                "ended": _time(rollout.ended),
            },
            "state": one.state,
            "conclusion": one.conclusion or None,
            "firing": one.is_firing,
            "summary": _sentence(one),
            "next_analysis": _time(one.due),
            "finished": None
            if one.finished is None
            else {
                "at": _time(one.finished.at),
                "reason": one.finished.reason,
                "successor": one.finished.successor,
            },
            "resolved": None
            if one.resolved is None
            else {"at": _time(one.resolved.at), "user": one.resolved.user},
            "analyses": [_look(look) for look in one.analyses],
            "alerts": [_delivery(one, delivery) for delivery in one.deliveries],
            "links": {
                "self": path,
                "view": f"{self._prefix}{view_link(one)}",
                "verdict": self._prefix + link if (link := api_link(one)) else None,
                "resolve": f"{path}/resolve",
            },
        }


def off() -> list[web.RouteDef]:
    """The same paths where deploys are switched off."""

    async def refused(request: web.Request) -> web.Response:
        reader_of(request)
        raise SidelightError(
            "deploys are not looked after here",
            reason=Reason.NOT_FOUND,
            hint="Start the collector without --no-deploys.",
        )

    one = f"{PATH}/{{id}}"
    return [web.get(PATH, refused), web.get(one, refused), web.post(f"{one}/resolve", refused)]


def _sentence(one: Deploy) -> str:
    """What the last look said, or why there is nothing to say yet."""
    if one.analyses:
        last = one.analyses[-1]
        return last.summary or last.problem
    return "The first analysis is still to come." if one.due is not None else ""


def _look(look: Look) -> dict[str, Any]:
    return {
        "index": look.index,
        "at": _time(look.at),
        "seconds": look.seconds,
        "state": look.state,
        "comparison_mode": look.comparison_mode,
        "baseline": _range(look.baseline),
        "comparison": _range(look.comparison),
        "summary": look.summary,
        "rate": look.rate,
        "conditions": list(look.conditions),
        "problem": look.problem,
    }


def _delivery(deploy: Deploy, one: Delivery) -> dict[str, Any]:
    return {
        "receiver": one.receiver,
        "event": one.event,
        "delivery_id": delivery_id(deploy, one),
        "outcome": one.outcome,
        "attempts": one.attempts,
        "since": _time(one.since),
        "sent_at": _time(one.at),
        "next_attempt": _time(one.due) if one.outcome == "pending" else None,
        "problem": one.problem,
    }


def _range(one: Range | None) -> dict[str, str | None] | None:
    return None if one is None else {"from": _time(one.start), "until": _time(one.until)}


def _time(unix: float | None) -> str | None:
    return None if unix is None else rfc3339(round(unix * 1000) * 1_000_000)
