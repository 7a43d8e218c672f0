"""The composition root of the injector: builds the parts, serves, and stops them."""

from __future__ import annotations

import asyncio
import datetime
import errno
import re
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from aiohttp import web

from sidelight import __version__
from sidelight.client_tls import CaBundle
from sidelight.connection_guard import ConnectionGuard, build_guard
from sidelight.connection_listener import accept_connections, open_listeners
from sidelight.server_tls import TlsContext
from sidelight.settings import BadSetting, mask_secrets
from sidelight.waiting import wait_for_event
from sidelight_injector.admission.namespaces import NamespaceCache
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.certificates.certificate_rotation import (
    CERTIFICATE,
    TRUST,
    CertificateObjects,
    CertificateSource,
    MountedCertificate,
    SelfSignedCertificate,
)
from sidelight_injector.certificates.certificates import CertificatePolicy
from sidelight_injector.events import EventRecorder
from sidelight_injector.health import InjectorHealth
from sidelight_injector.metrics import Metrics
from sidelight_injector.server import MutatingWebhook, StatusServer
from sidelight_injector.settings import Settings
from sidelight_kubernetes.kubernetes_client import KubernetesClient
from sidelight_model.errors import Reason, SidelightError

NATIVE_SIDECARS_SINCE: Final = (1, 29)
CLUSTER: Final = "cluster"
MAX_STATUS_CONNECTIONS: Final = 64
"""Connections of the kubelet, Prometheus and operators."""
_THREADS: Final = 8
_RETRY_SECONDS: Final = 2.0
_LOOP_CALL_TIMEOUT_SECONDS: Final = 10.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


async def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT, then return 0, or 1 if a root task failed.

    Raises SidelightError if the injector cannot start.
    """
    _log.info("the injector starts", sidelight=__version__, settings=mask_secrets(settings))
    recipe = read_recipe(settings)
    cluster = KubernetesClient.open(settings.kubernetes)
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signalled.set)
    with ThreadPoolExecutor(_THREADS, "sidelight") as executor:
        try:
            return await _serve(settings, recipe, cluster, executor, signalled)
        finally:
            cluster.close()


async def _serve(
    settings: Settings,
    recipe: Recipe,
    cluster: KubernetesClient,
    executor: ThreadPoolExecutor,
    signalled: asyncio.Event,
) -> int:
    metrics = Metrics()
    trust = {} if settings.certificate_dir else {TRUST: "the webhook's trust in the certificate"}
    health = InjectorHealth(
        metrics, {CLUSTER: "the version of Kubernetes", CERTIFICATE: "the certificate", **trust}
    )
    tls = TlsContext(metrics.record_certificate, partial(_call_on_loop, asyncio.get_running_loop()))
    certificate_source = _build_certificate_source(settings, cluster, tls, health, metrics)
    namespaces = NamespaceCache(
        cluster,
        executor,
        time.monotonic,
        ttl_seconds=settings.namespace_cache_seconds,
        timeout_seconds=settings.namespace_timeout_seconds,
    )
    events = _build_event_recorder(settings, cluster, executor, metrics)
    status = StatusServer(health, metrics)
    servers = [_GuardedServer.build(settings, MAX_STATUS_CONNECTIONS, metrics, status.build_app())]
    errors: list[BaseException] = []
    try:
        await servers[0].listen(settings.status_address, "--status-listen")
        native = status.has_native_sidecars = await _detect_native_sidecars(
            settings, cluster, executor, signalled, health
        )
        webhook = MutatingWebhook(settings, recipe, namespaces, events, metrics, has_native_sidecars=native)
        servers.append(_GuardedServer.build(settings, settings.max_connections, metrics, webhook.build_app()))
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    _refresh_certificates(certificate_source, settings, executor, metrics, health),
                    name="keep certificates",
                )
            ]
            if events is not None:
                tasks.append(group.create_task(events.run(), name="write events"))
            await servers[1].listen(settings.address, "--listen", tls)
            await signalled.wait()
            _log.info(
                "stopping: questions are answered a little longer", drain_seconds=settings.drain_seconds
            )
            status.is_stopping = True
            await asyncio.sleep(settings.drain_seconds)
            for task in tasks:
                task.cancel()
    except* Exception as failures:  # noqa: BLE001 - the root of the process
        errors += failures.exceptions
    finally:
        for server in reversed(servers):
            await server.runner.cleanup()
    for error in errors:
        if isinstance(error, SidelightError):
            raise error
        _log.error("a root task died", exc_info=error)
    return 1 if errors else 0


def read_recipe(settings: Settings) -> Recipe:
    """Read the recipe in --sidecar-file, and check it with --ca-file.

    Raises BadSetting.
    """
    try:
        text = settings.sidecar_file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadSetting(
            f"--sidecar-file cannot be read: {error}", hint="The chart mounts it from a ConfigMap of its own."
        ) from error
    recipe = Recipe.parse(text)
    if settings.ca_file is not None:
        recipe.add_ca_certificates(CaBundle(settings.ca_file).export_certificates()).check()
    return recipe


def has_native_sidecars(version: Mapping[str, Any]) -> bool:
    """Return whether an API server of this version (`/version`) has native sidecars.

    Native sidecars are init containers with restartPolicy Always.
    """
    numbers = [re.match(r"\d+", str(version.get(part, ""))) for part in ("major", "minor")]
    return tuple(int(number[0]) if number else 0 for number in numbers) >= NATIVE_SIDECARS_SINCE


async def _detect_native_sidecars(
    settings: Settings,
    cluster: KubernetesClient,
    executor: ThreadPoolExecutor,
    signalled: asyncio.Event,
    health: InjectorHealth,
) -> bool:
    """Return whether sidecars are init containers, by the setting or the API server.

    With the setting `auto`, retry until the API server returns its version.
    """
    if settings.native_sidecars != "auto":
        health.clear(CLUSTER)
        return settings.native_sidecars == "always"
    while True:
        try:
            version = await asyncio.get_running_loop().run_in_executor(executor, cluster.get, "/version")
        except SidelightError as error:
            health.report(CLUSTER, error)
            if await wait_for_event(signalled, _RETRY_SECONDS):
                return False
            continue
        native = has_native_sidecars(version)
        health.clear(CLUSTER)
        _log.info("the API server's version is known", version=version.get("gitVersion"), native=native)
        return native


def _build_certificate_source(
    settings: Settings, cluster: KubernetesClient, tls: TlsContext, health: InjectorHealth, metrics: Metrics
) -> CertificateSource:
    if settings.certificate_dir is not None:
        return MountedCertificate(settings.certificate_dir, tls, health, _get_time)
    policy = CertificatePolicy(
        settings.certificate_names,
        datetime.timedelta(days=settings.certificate_days),
        datetime.timedelta(days=settings.ca_days),
        datetime.timedelta(seconds=settings.ca_overlap_seconds),
    )
    return SelfSignedCertificate(
        cluster,
        tls,
        health,
        metrics,
        policy,
        _get_time,
        CertificateObjects(settings.namespace, settings.certificate_secret, settings.webhook_name),
    )


def _get_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _build_event_recorder(
    settings: Settings, cluster: KubernetesClient, executor: ThreadPoolExecutor, metrics: Metrics
) -> EventRecorder | None:
    if not settings.events:
        return None
    return EventRecorder(
        cluster,
        executor,
        metrics,
        time.monotonic,
        per_minute=settings.events_per_minute,
        repeat_seconds=settings.events_repeat_seconds,
    )


async def _refresh_certificates(
    certificate_source: CertificateSource,
    settings: Settings,
    executor: ThreadPoolExecutor,
    metrics: Metrics,
    health: InjectorHealth,
) -> None:
    """Refresh the certificates forever.

    While there is a problem, retry soon and then after longer and longer pauses.
    """
    loop, pause = asyncio.get_running_loop(), settings.certificate_check_interval_seconds
    while True:
        try:
            await loop.run_in_executor(executor, certificate_source.refresh)
        except Exception:  # noqa: BLE001 - the root of a loop
            metrics.loop_errors.labels("certificates").inc()
            _log.exception("an unexpected error with the certificates")
        retry_pause = _RETRY_SECONDS if pause == settings.certificate_check_interval_seconds else 2 * pause
        pause = (
            min(retry_pause, settings.certificate_check_interval_seconds)
            if health.problems
            else settings.certificate_check_interval_seconds
        )
        await asyncio.sleep(pause)


def _call_on_loop(loop: asyncio.AbstractEventLoop, change: Callable[[], None]) -> None:
    """Call `change` on the event loop and wait for it; for other threads."""

    async def call() -> None:
        change()

    asyncio.run_coroutine_threadsafe(call(), loop).result(_LOOP_CALL_TIMEOUT_SECONDS)


class _GuardedServer(NamedTuple):
    """One of the two servers, and the guard of its connections."""

    runner: web.AppRunner
    guard: ConnectionGuard

    @classmethod
    def build(
        cls, settings: Settings, max_connections: int, metrics: Metrics, app: web.Application
    ) -> _GuardedServer:
        guard = build_guard(
            settings, max_connections, lambda reason: metrics.connections_closed.labels(reason).inc()
        )
        guard.protect(app)
        runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=2.0, keepalive_timeout=guard.keepalive_seconds
        )
        return cls(runner, guard)

    async def listen(self, address: tuple[str, int], flag: str, tls: TlsContext | None = None) -> None:
        await self.runner.setup()
        host, port = address
        try:
            listeners = open_listeners(host, port)
        except OSError as error:
            raise SidelightError(
                f"cannot listen on {host}:{port}: {error.strerror}",
                reason=Reason.PORT_IN_USE if error.errno == errno.EADDRINUSE else Reason.BAD_SETTING,
                hint=f"Choose another {flag}.",
            ) from error
        await accept_connections(self.guard, self.runner, listeners, tls.context if tls else None)
        for bound in self.runner.addresses:
            _log.info("listening", url=f"{'https' if tls else 'http'}://{bound[0]}:{bound[1]}")
