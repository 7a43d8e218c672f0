"""The webhook, which answers whatever happens, and the pages that say how it goes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web

from sidelight_injector.admission import review
from sidelight_injector.admission.decide import LEFT, Decision, Place, decide, skipped, texts
from sidelight_injector.admission.namespaces import Namespaces
from sidelight_injector.admission.pod_security import ENFORCE
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.review import Review
from sidelight_injector.admission.skip_reasons import Skip, Why
from sidelight_injector.events import Events
from sidelight_injector.health import Board
from sidelight_injector.metrics import Metrics
from sidelight_injector.settings import Settings
from sidelight_kubernetes import label_names
from sidelight_model.errors import Reason, SidelightError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PATH: Final = "/mutate"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


class Webhook:
    """Answers the API server's questions about new pods."""

    def __init__(
        self,
        settings: Settings,
        recipe: Recipe,
        namespaces: Namespaces,
        events: Events | None,
        metrics: Metrics,
        *,
        native: bool,
    ) -> None:
        self._settings = settings
        self._recipe = recipe
        self._namespaces = namespaces
        self._events = events
        self._metrics = metrics
        self._native = native

    def app(self) -> web.Application:
        app = web.Application(client_max_size=self._settings.max_body_bytes)
        app.router.add_post(PATH, self.mutate)
        return app

    async def mutate(self, request: web.Request) -> web.Response:
        """Allow the pod, with the sidecar if it is to have one; 400 for what is no question at all."""
        begun = time.perf_counter()
        try:
            asked = review.read(await request.read())
        except web.HTTPRequestEntityTooLarge:
            self._metrics.admission_reviews.labels("too_large").inc()
            raise
        except SidelightError as error:
            self._metrics.admission_reviews.labels("unreadable").inc()
            told = {"error": error.reason, "message": error.message, "hint": error.hint}
            return web.json_response(told, status=400)
        decision = await self._decided(asked)
        self._metrics.admission_review_seconds.observe(time.perf_counter() - begun)
        return web.json_response(review.allowed(asked, decision.patch, decision.warnings))

    async def _decided(self, asked: Review) -> Decision:
        try:
            decision = await self._decide(asked)
        except Exception:  # noqa: BLE001 - the root of a request: a pod must never pay for an error here
            self._metrics.loop_errors.labels("review").inc()
            _log.exception("an unexpected error about a pod", namespace=asked.namespace)
            skip = Skip(Why.INTERNAL, "the injector failed unexpectedly", "see its log")
            decision = Decision(
                skip=skip, warnings=(f"Sidelight did not inject its sidecar. {skip.sentence}",)
            )
        self._note(asked, decision)
        return decision

    async def _decide(self, asked: Review) -> Decision:
        if not asked.pod or asked.namespace in self._settings.excluded:
            return LEFT
        try:
            there = await self._namespaces.get(asked.namespace)
        except SidelightError as error:
            if texts(asked.pod, "labels").get(label_names.INJECT) == "false":
                return LEFT
            # What the namespace refuses is not known, so nothing is risked.
            return skipped(
                asked.pod, Skip(Why.NAMESPACE_UNKNOWN, error.message, error.hint or "make the pod again")
            )
        enforced = there.labels.get(ENFORCE, self._settings.pod_security_default)
        if asked.namespace in self._settings.pod_security_exempt:
            enforced = "privileged"
        place = Place(
            asked.namespace, there.labels, self._native, enforced, ranges=there.ranges, quotas=there.quotas
        )
        return decide(asked.pod, place, self._recipe)

    def _note(self, asked: Review, decision: Decision) -> None:
        skip = decision.skip
        outcome = "skipped" if skip else "injected" if decision.injected else "ignored"
        self._metrics.admission_reviews.labels(outcome).inc()
        if skip is None:
            return
        self._metrics.skipped_pods.labels(skip.why.value).inc()
        metadata = asked.pod.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or ""
        _log.warning(
            "a pod was not injected", reason=skip.why, namespace=asked.namespace, pod=name, told=skip.sentence
        )
        if self._events is not None and not asked.dry_run:
            self._events.say(asked.namespace, asked.pod, skip)


class Status:
    """/livez, /readyz and /metrics, over plain HTTP: for the kubelet and Prometheus."""

    def __init__(self, board: Board, metrics: Metrics) -> None:
        self._board = board
        self._metrics = metrics
        self.native: bool | None = None
        self.stopping = False

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 16)
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        return app

    async def livez(self, request: web.Request) -> web.Response:
        """200 as long as the event loop turns."""
        return web.json_response({"live": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """200 when pods can be injected, else 503; either way with what is wrong and what to do."""
        problems = [
            {"about": subject, "error": problem.reason, "message": problem.message, "hint": problem.hint}
            for subject, problem in self._board.problems.items()
        ]
        if self.stopping:
            told = {"about": "injector", "error": Reason.SHUTTING_DOWN, "message": "it ends", "hint": ""}
            problems.append(told)
        ready = self._board.ready and not self.stopping
        answer = {"ready": ready, "native": self.native, "problems": problems}
        return web.json_response(answer, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": self._metrics.content_type})
