"""All that has to do with deploys, made from a collector's settings."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from sidelight.settings import BadSetting
from sidelight_collector.deploys.deploy import Rules
from sidelight_collector.deploys.deploy_repository import Shelf
from sidelight_collector.deploys.evaluation import Judge, comparing, judge_with
from sidelight_collector.deploys.evaluator import Watch
from sidelight_collector.deploys.notify.notifiers import Address, Receivers
from sidelight_collector.deploys.query_client import Asking
from sidelight_collector.deploys.rate_limiter import Pace
from sidelight_collector.deploys.routes import DeployRoutes, off
from sidelight_collector.kubernetes_discovery.shared_state import kept_rollouts
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.lease import Leases, Stopped
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.gates import BadCondition

LEAST_SECRET: Final = 16


@dataclass(frozen=True, slots=True)
class Deploys:
    """The routes, the task and what is to be closed; `watch` is None where deploys are switched off."""

    shelf: Shelf
    routes: list[web.RouteDef]
    watch: Watch | None
    keep_days: float

    def expire(self, now: float, stopped: Stopped) -> int:
        """Delete deploys that are too old; how many."""
        return self.shelf.expire(now, self.keep_days, stopped)


def made(
    settings: Settings, store: ObjectStore, engine: QueryEngine, metrics: Metrics, stop: asyncio.Event
) -> Deploys:
    """All of it. Raises BadSetting."""
    shelf = Shelf(store)
    keep = settings.deploy_retention_days
    if not settings.deploys:
        return Deploys(shelf, off(), None, keep)
    seconds = settings.compact_lease_seconds
    rules = rules_of(settings)
    watch = Watch(
        shelf,
        Asking(engine, stop.is_set, asyncio.get_running_loop()),
        judge(engine.limits, rules),
        rules,
        metrics,
        alerts=receivers(settings, shelf, metrics),
        pace=Pace(
            settings.deploy_max_analyses_per_minute,
            settings.deploy_cpu_budget_percent / 100,
            time.monotonic(),
        ),
        interval_seconds=settings.deploy_check_interval_seconds,
        keep_days=keep,
        rollouts=lambda: kept_rollouts(store).values(),
        leases=Leases(store, seconds) if seconds else None,
    )
    return Deploys(shelf, DeployRoutes(shelf, settings.path_prefix).routes(), watch, keep)


def judge(limits: QueryLimits, rules: Rules) -> Judge:
    """What compares, from the settings. Raises BadSetting for a pattern that RE2 does not take."""
    try:
        return judge_with(comparing(limits, rules.fail_on), rules)
    except BadCondition as error:
        raise BadSetting(f"deploy_fail_on: {error.message}", hint=error.hint) from error


def receivers(settings: Settings, shelf: Shelf, metrics: Metrics) -> Receivers:
    """Who is told of deploys, from the settings. Raises BadSetting."""
    url = settings.deploy_webhook_url
    return Receivers(
        shelf,
        metrics,
        webhook=Address(url) if url else None,
        secret=_secret(settings.deploy_webhook_secret_file),
        alertmanagers=tuple(map(Address, settings.alertmanager_url)),
        resend_seconds=settings.alertmanager_resend_seconds,
        retry_seconds=settings.deploy_alert_retry_seconds,
        public_url=settings.public_url,
    )


def _secret(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        found = path.read_bytes().strip()
    except OSError as error:
        raise BadSetting(
            f"cannot read the secret in {path}: {error}", hint="Check --deploy-webhook-secret-file."
        ) from error
    if len(found) < LEAST_SECRET:
        raise BadSetting(
            f"the secret in {path} has fewer than {LEAST_SECRET} bytes",
            hint="Make one: `openssl rand -hex 32 > FILE`.",
        )
    return found


def rules_of(settings: Settings) -> Rules:
    """When deploys are looked at, from the settings."""
    return Rules(
        settings.deploy_first_analysis_seconds,
        settings.deploy_last_analysis_seconds,
        settings.deploy_warmup_seconds,
        settings.deploy_absent_seconds,
        arrivals=settings.deploy_max_detections_per_day,
        fail_on=settings.deploy_fail_on,
        detect=settings.deploy_min_effect_percent / 100,
    )
