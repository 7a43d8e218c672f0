"""Builds deploy detection and evaluation from a collector's settings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from sidelight.settings import BadSetting
from sidelight_collector.deploys.deploy import DeployPolicy
from sidelight_collector.deploys.deploy_detector import DeployContext
from sidelight_collector.deploys.deploy_repository import DeployRepository
from sidelight_collector.deploys.evaluation import Analyser, make_analyser, make_compare_function
from sidelight_collector.deploys.evaluator import DeployEvaluator
from sidelight_collector.deploys.notify.notifiers import DeployNotifier, ReceiverAddress, Receivers
from sidelight_collector.deploys.query_client import EngineQueryClient
from sidelight_collector.deploys.rate_limiter import AnalysisRateLimiter
from sidelight_collector.deploys.routes import DeployRoutes, build_disabled_routes
from sidelight_collector.kubernetes_discovery.shared_state import load_rollouts, load_running_versions
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.lease import Leases, ShouldStop
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.gates import BadCondition

MIN_SECRET_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class DeployFeatures:
    """Everything about deploys that a collector runs.

    `evaluator` is None if deploys are switched off.
    """

    repository: DeployRepository
    routes: list[web.RouteDef]
    evaluator: DeployEvaluator | None
    retention_days: float

    def delete_expired(self, now: float, should_stop: ShouldStop) -> int:
        """Delete deploys that are too old; return how many."""
        return self.repository.delete_expired(now, self.retention_days, should_stop)


def build_deploys(
    settings: Settings, store: ObjectStore, engine: QueryEngine, metrics: Metrics, stop: asyncio.Event
) -> DeployFeatures:
    """Build deploy detection and evaluation from the settings.

    Raises BadSetting.
    """
    repository = DeployRepository(store)
    retention_days = settings.deploy_retention_days
    if not settings.deploys:
        return DeployFeatures(repository, build_disabled_routes(), None, retention_days)
    lease_seconds = settings.compact_lease_seconds
    policy = build_policy(settings)
    context = DeployContext(
        repository,
        EngineQueryClient(engine, stop.is_set, asyncio.get_running_loop()),
        policy,
        metrics,
        AnalysisRateLimiter(
            settings.deploy_max_analyses_per_minute,
            settings.deploy_cpu_budget_percent / 100,
            time.monotonic(),
        ),
        retention_days,
        lambda: load_rollouts(store).values(),
        lambda: load_running_versions(store, time.time()),
    )
    evaluator = DeployEvaluator(
        context,
        build_analyser(engine.limits, policy),
        interval_seconds=settings.deploy_check_interval_seconds,
        notifier=build_notifier(settings, repository, metrics),
        leases=Leases(store, lease_seconds) if lease_seconds else None,
    )
    return DeployFeatures(
        repository, DeployRoutes(repository, settings.path_prefix).build_routes(), evaluator, retention_days
    )


def build_analyser(limits: QueryLimits, policy: DeployPolicy) -> Analyser:
    """Build the analyser from the settings.

    Raises BadSetting for a pattern that is invalid in RE2.
    """
    try:
        return make_analyser(make_compare_function(limits, policy.fail_on), policy)
    except BadCondition as error:
        raise BadSetting(f"deploy_fail_on: {error.message}", hint=error.hint) from error


def build_notifier(settings: Settings, repository: DeployRepository, metrics: Metrics) -> DeployNotifier:
    """Build the notifier from the settings.

    Raises BadSetting.
    """
    url = settings.deploy_webhook_url
    return DeployNotifier(
        repository,
        metrics,
        Receivers(
            ReceiverAddress(url) if url else None,
            _read_secret(settings.deploy_webhook_secret_file),
            tuple(map(ReceiverAddress, settings.alertmanager_url)),
        ),
        resend_seconds=settings.alertmanager_resend_seconds,
        retry_seconds=settings.deploy_alert_retry_seconds,
        public_url=settings.public_url,
    )


def _read_secret(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise BadSetting(
            f"cannot read the secret in {path}: {error}", hint="Check --deploy-webhook-secret-file."
        ) from error
    if len(secret) < MIN_SECRET_BYTES:
        raise BadSetting(
            f"the secret in {path} has fewer than {MIN_SECRET_BYTES} bytes",
            hint="Make one: `openssl rand -hex 32 > FILE`.",
        )
    return secret


def build_policy(settings: Settings) -> DeployPolicy:
    return DeployPolicy(
        settings.deploy_first_analysis_seconds,
        settings.deploy_last_analysis_seconds,
        settings.deploy_warmup_seconds,
        settings.deploy_absent_seconds,
        max_arrivals_per_day=settings.deploy_max_detections_per_day,
        max_versions_per_day=settings.deploy_max_versions_per_day,
        fail_on=settings.deploy_fail_on,
        min_effect=settings.deploy_min_effect_percent / 100,
    )
