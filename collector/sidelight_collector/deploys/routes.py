"""HTTP handlers of deploys: list, get, and resolve an alert."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from aiohttp import web

from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.deploys.deploy import (
    Delivery,
    Deploy,
    DeployAnalysis,
    DeployState,
    TimeRange,
    resolve_deploy,
)
from sidelight_collector.deploys.deploy_repository import DeployNotFound, DeployRepository
from sidelight_collector.deploys.notify.deploy_links import build_api_link, build_view_link
from sidelight_collector.deploys.notify.notifications import build_delivery_id
from sidelight_collector.http.api.parameters import parse_count, read_single_values
from sidelight_collector.http.api.responses import accepts_gzip, encode_json_response
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.times import SECOND_NS, format_rfc3339, parse_time
from sidelight_model.errors import Reason, SidelightError

PATH: Final = "/api/v1/deploys"
PARAMETERS: Final = ("service", "namespace", "state", "from", "until", "limit")
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500


class DeployRoutes:
    """The handlers of deploys.

    They raise BadParameter, BadTime, DeployNotFound and StoreError.
    """

    def __init__(self, repository: DeployRepository, path_prefix: str) -> None:
        self._repository = repository
        self._path_prefix = path_prefix

    def build_routes(self) -> list[web.RouteDef]:
        deploy_path = f"{PATH}/{{id}}"
        return [
            web.get(PATH, self.list_deploys),
            web.get(deploy_path, self.get_deploy),
            web.post(f"{deploy_path}/resolve", self.resolve_alert),
        ]

    async def list_deploys(self, request: web.Request) -> web.Response:
        reader, parameters = get_principal(request), read_single_values(request.query, PARAMETERS)
        now_ns = round(time.time() * 1000) * 1_000_000
        start, until = (
            parse_time(parameters[name], parameter=name, now_ns=now_ns) / SECOND_NS
            if name in parameters
            else default
            for name, default in (("from", 0.0), ("until", float("inf")))
        )
        state = parameters.get("state", "")
        limit = min(parse_count("limit", parameters.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        if state and state not in list(DeployState):
            raise BadParameter.invalid_value("state", state, f"one of {', '.join(DeployState)}")
        if start >= until:
            raise BadParameter("from is not before until: the range is empty", hint="from <= seen < until.")
        labels = {name: parameters[name] for name in ("service", "namespace") if name in parameters}

        def is_wanted(deploy: Deploy) -> bool:
            has_labels = all(deploy.labels[name] == value for name, value in labels.items())
            return has_labels and (not state or deploy.state == state) and reader.can_read(deploy.labels)

        deploys = await asyncio.to_thread(
            self._repository.list_newest, limit, is_wanted, start, until, labels.get("service", "")
        )
        answer = {"deploys": [self.to_json(deploy) for deploy in deploys]}
        return encode_json_response(answer, gzip=accepts_gzip(request)).to_response(request)

    async def get_deploy(self, request: web.Request) -> web.Response:
        reader = get_principal(request)
        read_single_values(request.query, ())
        deploy = await asyncio.to_thread(self._repository.get, request.match_info["id"])
        if not reader.can_read(deploy.labels):
            raise DeployNotFound(deploy.id)
        return self._respond_with_deploy(request, deploy)

    async def resolve_alert(self, request: web.Request) -> web.Response:
        reader = get_principal(request)
        read_single_values(request.query, ())

        def change(deploy: Deploy) -> Deploy | None:
            if not reader.can_read(deploy.labels):
                raise DeployNotFound(deploy.id)
            return resolve_deploy(deploy, time.time(), reader.name)

        deploy = await asyncio.to_thread(self._repository.update, request.match_info["id"], change)
        return self._respond_with_deploy(request, deploy)

    def _respond_with_deploy(self, request: web.Request, deploy: Deploy) -> web.Response:
        answer = {**self.to_json(deploy), "verdict": deploy.verdict}
        return encode_json_response(answer, gzip=accepts_gzip(request)).to_response(request)

    def to_json(self, deploy: Deploy) -> dict[str, Any]:
        """Encode a deploy as JSON, without its verdict."""
        rollout, path = deploy.rollout, f"{self._path_prefix}{PATH}/{deploy.id}"
        return {
            "id": deploy.id,
            **deploy.labels,
            "previous": deploy.previous,
            "started": _format_time(deploy.started),
            "first_seen": _format_time(deploy.first_seen),
            "rollout": None
            if rollout is None
            else {
                "kind": rollout.kind,
                "workload": rollout.workload,
                "revision": rollout.revision,
                "started": _format_time(rollout.started),
                "ended": _format_time(rollout.ended),
            },
            "state": deploy.state,
            "conclusion": deploy.conclusion or None,
            "firing": deploy.is_firing,
            "summary": _summarize_state(deploy),
            "next_analysis": _format_time(deploy.due),
            "finished": None
            if deploy.finished is None
            else {
                "at": _format_time(deploy.finished.at),
                "reason": deploy.finished.reason,
                "successor": deploy.finished.successor,
            },
            "resolved": None
            if deploy.resolved is None
            else {"at": _format_time(deploy.resolved.at), "user": deploy.resolved.user},
            "analyses": [_analysis_to_json(analysis) for analysis in deploy.analyses],
            "alerts": [_delivery_to_json(deploy, delivery) for delivery in deploy.deliveries],
            "links": {
                "self": path,
                "view": f"{self._path_prefix}{build_view_link(deploy)}",
                "verdict": self._path_prefix + link if (link := build_api_link(deploy)) else None,
                "resolve": f"{path}/resolve",
            },
        }


def build_disabled_routes() -> list[web.RouteDef]:
    """Return the same routes, for a collector with deploys switched off."""

    async def refuse(request: web.Request) -> web.Response:
        get_principal(request)
        raise SidelightError(
            "deploys are not looked after here",
            reason=Reason.NOT_FOUND,
            hint="Start the collector without --no-deploys.",
        )

    deploy_path = f"{PATH}/{{id}}"
    return [web.get(PATH, refuse), web.get(deploy_path, refuse), web.post(f"{deploy_path}/resolve", refuse)]


def _summarize_state(deploy: Deploy) -> str:
    """Return the summary of the last analysis, or why there is none yet."""
    if deploy.analyses:
        last = deploy.analyses[-1]
        return last.summary or last.problem
    return "The first analysis is still to come." if deploy.due is not None else ""


def _analysis_to_json(analysis: DeployAnalysis) -> dict[str, Any]:
    return {
        "index": analysis.index,
        "at": _format_time(analysis.at),
        "seconds": analysis.seconds,
        "state": analysis.state,
        "comparison_mode": analysis.comparison_mode,
        "baseline": _range_to_json(analysis.baseline),
        "comparison": _range_to_json(analysis.comparison),
        "summary": analysis.summary,
        "rate": analysis.rate,
        "conditions": list(analysis.conditions),
        "problem": analysis.problem,
    }


def _delivery_to_json(deploy: Deploy, delivery: Delivery) -> dict[str, Any]:
    return {
        "receiver": delivery.receiver,
        "event": delivery.event,
        "delivery_id": build_delivery_id(deploy, delivery),
        "outcome": delivery.outcome,
        "attempts": delivery.attempts,
        "since": _format_time(delivery.since),
        "sent_at": _format_time(delivery.at),
        "next_attempt": _format_time(delivery.due) if delivery.outcome == "pending" else None,
        "problem": delivery.problem,
    }


def _range_to_json(time_range: TimeRange | None) -> dict[str, str | None] | None:
    return (
        None
        if time_range is None
        else {"from": _format_time(time_range.start), "until": _format_time(time_range.until)}
    )


def _format_time(unix: float | None) -> str | None:
    return None if unix is None else format_rfc3339(round(unix * 1000) * 1_000_000)
