"""The webhook's HTTP server, and the status pages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web

from sidelight.client_tls import CaBundle
from sidelight.request_origin import ANY_HOST, ForeignRequest
from sidelight_injector.admission import review
from sidelight_injector.admission.decide import (
    UNCHANGED,
    AdmissionContext,
    Decision,
    decide,
    skip_pod,
)
from sidelight_injector.admission.namespaces import NamespaceCache
from sidelight_injector.admission.pod_security import ENFORCE_LABEL
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.review import AdmissionReview
from sidelight_injector.admission.skip_reasons import Skip, SkipReason
from sidelight_injector.events import EventRecorder
from sidelight_injector.health import InjectorHealth
from sidelight_injector.metrics import Metrics
from sidelight_injector.settings import Settings
from sidelight_kubernetes import label_names
from sidelight_kubernetes.profiling_request import get_metadata
from sidelight_model.errors import Reason, SidelightError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

PATH: Final = "/mutate"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


class MutatingWebhook:
    """Responds to the API server's admission reviews of new pods."""

    def __init__(
        self,
        settings: Settings,
        recipe: Recipe,
        namespaces: NamespaceCache,
        event_recorder: EventRecorder | None,
        metrics: Metrics,
        *,
        has_native_sidecars: bool,
    ) -> None:
        self._settings = settings
        self._recipe = recipe
        self._ca_bundle = CaBundle(settings.ca_file) if settings.ca_file else None
        self._namespaces = namespaces
        self._event_recorder = event_recorder
        self._metrics = metrics
        self._has_native_sidecars = has_native_sidecars

    def build_app(self) -> web.Application:
        @web.middleware
        async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                ANY_HOST.check(request.method, request.headers)
            except ForeignRequest as error:
                hint = "Only the API server calls this webhook."
                body = {"error": error.reason, "message": error.message, "hint": hint}
                return web.json_response(body, status=403)
            return await handler(request)

        app = web.Application(client_max_size=self._settings.max_body_bytes, middlewares=[check_origin])
        app.router.add_post(PATH, self.mutate)
        return app

    async def mutate(self, request: web.Request) -> web.Response:
        """Allow the pod, with the sidecar if it gets one.

        An unreadable review gets 400, and one that does not arrive 408.
        """
        start = time.perf_counter()
        try:
            admission_review = review.parse_review(await request.read())
        except web.HTTPRequestEntityTooLarge:
            self._metrics.admission_reviews.labels("too_large").inc()
            raise
        except SidelightError as error:
            self._metrics.admission_reviews.labels("unreadable").inc()
            body = {"error": error.reason, "message": error.message, "hint": error.hint}
            return web.json_response(body, status=408 if error.reason is Reason.REQUEST_TIMEOUT else 400)
        decision = await self._decide_or_skip(admission_review)
        self._metrics.admission_review_seconds.observe(time.perf_counter() - start)
        return web.json_response(review.build_response(admission_review, decision.patch, decision.warnings))

    async def _decide_or_skip(self, admission_review: AdmissionReview) -> Decision:
        try:
            decision = await self._decide(admission_review)
        except Exception:  # noqa: BLE001 - the root of a request: a pod must never pay for an error here
            self._metrics.loop_errors.labels("review").inc()
            _log.exception("an unexpected error about a pod", namespace=admission_review.namespace)
            skip = Skip(SkipReason.INTERNAL, "the injector failed unexpectedly", "see its log")
            decision = Decision(
                skip=skip, warnings=(f"Sidelight did not inject its sidecar. {skip.message}",)
            )
        self._record_decision(admission_review, decision)
        return decision

    async def _decide(self, admission_review: AdmissionReview) -> Decision:
        if not admission_review.pod or admission_review.namespace in self._settings.excluded_namespaces:
            return UNCHANGED
        try:
            policies = await self._namespaces.get(admission_review.namespace)
        except SidelightError as error:
            if get_metadata(admission_review.pod, "labels").get(label_names.INJECT) == "false":
                return UNCHANGED
            # The namespace's policies are unknown, so a patch could make the API server refuse the pod.
            return skip_pod(
                admission_review.pod,
                Skip(SkipReason.NAMESPACE_UNKNOWN, error.message, error.hint or "make the pod again"),
            )
        level = policies.labels.get(ENFORCE_LABEL, self._settings.pod_security_default)
        if admission_review.namespace in self._settings.pod_security_exempt:
            level = "privileged"
        context = AdmissionContext(
            admission_review.namespace,
            policies.labels,
            self._has_native_sidecars,
            level,
            limit_ranges=policies.limit_ranges,
            resource_quotas=policies.resource_quotas,
        )
        recipe = self._recipe
        if self._ca_bundle is not None:
            try:
                certificates = await asyncio.to_thread(self._ca_bundle.export_certificates)
            except SidelightError as error:
                return skip_pod(admission_review.pod, Skip(SkipReason.INTERNAL, error.message, error.hint))
            recipe = recipe.add_ca_certificates(certificates)
        return decide(admission_review.pod, context, recipe)

    def _record_decision(self, admission_review: AdmissionReview, decision: Decision) -> None:
        skip = decision.skip
        outcome = "skipped" if skip else "injected" if decision.is_injected else "ignored"
        self._metrics.admission_reviews.labels(outcome).inc()
        if skip is None:
            return
        self._metrics.skipped_pods.labels(skip.reason.value).inc()
        metadata = admission_review.pod.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or ""
        _log.warning(
            "a pod was not injected",
            reason=skip.reason,
            namespace=admission_review.namespace,
            pod=name,
            told=skip.message,
        )
        if self._event_recorder is not None and not admission_review.is_dry_run:
            self._event_recorder.record(admission_review.namespace, admission_review.pod, skip)


class StatusServer:
    """/livez, /readyz and /metrics over plain HTTP, for the kubelet and Prometheus."""

    def __init__(self, health: InjectorHealth, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self.has_native_sidecars: bool | None = None
        self.is_stopping = False

    def build_app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 16)
        app.router.add_get("/livez", self.livez)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_get("/metrics", self.metrics)
        return app

    async def livez(self, request: web.Request) -> web.Response:
        """Return 200 while the event loop runs."""
        return web.json_response({"live": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """Return 200 if pods can be injected, else 503; list the problems and hints."""
        problems = [
            {"about": subject, "error": problem.reason, "message": problem.message, "hint": problem.hint}
            for subject, problem in self._health.problems.items()
        ]
        if self.is_stopping:
            problem = {"about": "injector", "error": Reason.SHUTTING_DOWN, "message": "it ends", "hint": ""}
            problems.append(problem)
        ready = self._health.is_ready and not self.is_stopping
        body = {"ready": ready, "native": self.has_native_sidecars, "problems": problems}
        return web.json_response(body, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": self._metrics.content_type})
