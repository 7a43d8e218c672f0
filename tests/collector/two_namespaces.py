"""A collector with two namespaces, their readers, and questions for each path that readers may ask."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from ulid import ULID

from sidelight_collector import kubernetes_wiring, main
from sidelight_collector.auth.authorizer import Permission, required_permission
from sidelight_collector.auth.read_rules import parse_network
from sidelight_collector.auth_wiring import load_tokens
from sidelight_collector.captures import agents
from sidelight_collector.deploys.deploy import DeployPolicy, create_deploy
from sidelight_collector.deploys.deploy_repository import DeployRepository
from sidelight_collector.http.pyroscope.selector_mapping import TYPE_IDS
from sidelight_collector.kubernetes_discovery import watcher
from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from sidelight_collector.profile_metrics.rules import RuleGroup
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import ObservedSpan
from sidelight_model.counts import ProfileType
from tests.collector.clusters import deployment, pod, replicaset
from tests.collector.conftest import Answer, Running, Serve
from tests.collector.fake_sidecars import JSON, Sidecar, until
from tests.collector.test_discovery_api import Everything

RULES = """
user:root = *
user:alice = alpha
user:eve = al*
user:both = alpha, beta
"""
PROFILE_METRICS = """
groups:
  - name: functions
    rules:
      - record: shop_function_threads
        type: wall
        by: [namespace, service, function]
"""
MARK = "betamark"
RANGE = {"from": "-1h", "until": "now"}
NOTED_SERVICE = "noted-shop"
"""A service with a note in each namespace."""
DATA_AGE_SECONDS = 60
"""Windows are this old."""

SELECTORS = (
    "{}",
    '{namespace="beta"}',
    '{namespace=~".*"}',
    '{service_name=~".*mark.*"}',
    '{namespace!="alpha"}',
)
"""Selectors of Pyroscope's clients that try to reach other namespaces."""

Questions = Mapping[str, Iterable[tuple[str, Mapping[str, str]]]]


@dataclass(frozen=True, slots=True)
class Filled:
    """What a namespace has: a service, a capture, the name of its recording, a deploy, and a note."""

    service: str
    capture: str
    recording: str
    deploy: str
    note: str


NOTHING = Filled("", "", "", "", "")


def questions(of: Filled, link: str, range_: Mapping[str, str] = RANGE) -> Questions:
    """For each path that readers may ask, questions that tell something of a namespace.

    A `!` stands before a path whose answer tells nobody of a namespace.
    """
    wide = [{**range_}, {**range_, "query": 'namespace="beta"'}, {**range_, "query": 'namespace=~".*"'}]
    sides = [{**range_, "baseline": 'namespace="beta"', "comparison": 'namespace=~".+"'}]
    every = [*wide, {**range_, "query": 'service=~".*mark.*"'}, {**range_, "query": 'namespace!="alpha"'}]
    one = f"captures/{of.capture}"
    return {
        "services": [("services", given) for given in every],
        "overview": [("overview", {**given, "label": f"{MARK}_team"}) for given in every],
        "labels": [("labels", given) for given in every],
        "labels/{name}/values": [
            (f"labels/{name}/values", given)
            for name in ("service", "namespace", "pod", "version", "endpoint", f"{MARK}_team")
            for given in every
        ],
        "timeline": [("timeline", given) for given in every],
        "heatmap": [("heatmap", given) for given in every],
        "flamegraph": [("flamegraph", given) for given in every],
        "compare": [("compare", given) for given in sides],
        "verdict": [("verdict", given) for given in sides],
        "depth": [("depth", given) for given in [*every, *sides]],
        "stack-composition": [("stack-composition", given) for given in [*every, *sides]],
        "top": [("top", given) for given in [*every, *sides]],
        "functions": [("functions", given) for given in every],
        "sidecars": [("sidecars", given) for given in every],
        "endpoints": [
            ("endpoints", {**given, "format": form}) for given in every for form in ("json", "prometheus")
        ],
        "lines": [("lines", {**given, "function": "main"}) for given in every],
        "export": [
            ("export", {**given, "format": form})
            for given in every
            for form in ("folded", "speedscope", "csv", "svg")
        ],
        "export/compare": [("export/compare", {**given, "format": "folded"}) for given in sides],
        "export/{name}.speedscope.json": [("export/x.speedscope.json", given) for given in every],
        "status": [("status", {})],
        "openapi.json": [("!openapi.json", {})],
        "captures": [("captures", {}), ("captures", {"service": of.service})],
        "captures/{id}": [(one, {})],
        "captures/{id}/events": [(f"{one}/events", {})],
        "captures/{id}/recordings": [(f"{one}/recordings", {})],
        "captures/{id}/{name}.speedscope.json": [(f"{one}/{of.recording}.speedscope.json", {})],
        "captures/{id}/subsecond-heatmap": [(f"{one}/subsecond-heatmap", {})],
        "captures/{id}/loops": [(f"{one}/loops", {})],
        "captures/{id}/flamegraph": [(f"{one}/flamegraph", {})],
        "agents": [("agents", {}), ("agents", {"service": of.service})],
        "workloads": [
            ("workloads", given)
            for given in (
                {},
                {"query": 'namespace="beta"'},
                {"query": 'service=~".*mark.*"'},
                {"unprofiled": "1"},
            )
        ],
        "deploys": [
            ("deploys", {}),
            ("deploys", {"service": of.service}),
            ("deploys", {"namespace": "beta"}),
        ],
        "deploys/{id}": [(f"deploys/{of.deploy}", {})],
        "notes": [
            ("notes", {"service": NOTED_SERVICE}),
            ("notes", {"service": NOTED_SERVICE, "namespace": "beta", **range_}),
        ],
        "/l/{id}": [(f"!/l/{link}", {})],
        "/metrics/profiles": [("/metrics/profiles", {})],
        "/pyroscope/render": [
            ("/pyroscope/render", {**range_, "query": f"{TYPE_IDS[ProfileType.WALL]}{selector}"})
            for selector in SELECTORS
        ],
        "/pyroscope/render-diff": [
            (
                "/pyroscope/render-diff",
                {
                    f"{side}{field}": value
                    for side in ("left", "right")
                    for field, value in (
                        ("Query", f"{TYPE_IDS[ProfileType.WALL]}{selector}"),
                        ("From", range_["from"]),
                        ("Until", range_["until"]),
                    )
                },
            )
            for selector in SELECTORS
        ],
        "/pyroscope/label-values": [
            ("/pyroscope/label-values", {**range_, "label": name, "query": selector})
            for name in ("service_name", "namespace", "pod", "version", f"{MARK}_team")
            for selector in SELECTORS
        ],
    }


def querier_questions(range_ms: tuple[int, int]) -> Mapping[str, list[dict[str, Any]]]:
    """For each method of Grafana's datasource, messages that tell something of a namespace.

    ProfileTypes has none: its answer is the same for everybody.
    """
    span = {"start": range_ms[0], "end": range_ms[1]}
    labels = [{**span, "matchers": [selector]} for selector in SELECTORS]
    profiles = [
        {**span, "profileTypeID": TYPE_IDS[ProfileType.WALL], "labelSelector": selector}
        for selector in SELECTORS
    ]
    return {
        "LabelNames": labels,
        "LabelValues": [{**one, "name": name} for one in labels for name in ("service_name", "pod")],
        "Series": [*labels, *({**one, "labelNames": ["service_name"]} for one in labels)],
        "SelectSeries": [{**one, "groupBy": ["service_name"], "step": 60} for one in profiles],
        "SelectMergeStacktraces": profiles,
        "SelectMergeProfile": profiles,
        "Diff": [{"left": one, "right": one} for one in profiles],
        "GetProfileStats": [{}],
    }


@dataclass
class Place:
    """A collector, its application, store and cluster, and what its namespaces have."""

    collector: Running
    app: web.Application
    store: ObjectStore
    cluster: Everything
    theirs: Filled = NOTHING
    ours: Filled = NOTHING
    link: str = ""
    sidecars: list[Sidecar] = field(default_factory=list)

    async def call(self, who: str, method: str, message: Mapping[str, Any]) -> Answer:
        """Call a method of Grafana's datasource."""
        path = f"/querier.v1.QuerierService/{method}"
        return await self.ask(who, path, method="POST", body=json.dumps(message).encode())

    async def ask(
        self,
        who: str,
        path: str,
        given: Mapping[str, str] | None = None,
        method: str = "GET",
        body: bytes = b"",
        **headers: str,
    ) -> Answer:
        query = "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in (given or {}).items())
        full = path if path.startswith("/") else f"/api/v1/{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.collector.ask(
            method, full + query, body or None, {**JSON, **({"X-User": who} if who else {}), **named}
        )


@asynccontextmanager
async def open_place(
    serving: Serve,
    folder: Path,
    objects: ObjectStore | None = None,
    *,
    namespaces: Iterable[str] = ("beta", "alpha"),
    **changes: Any,
) -> AsyncIterator[Place]:
    """A collector with some of the two namespaces, in a cluster, and with the rules."""
    (folder / "rules").write_text(RULES)
    apps: list[web.Application] = []
    build, cluster = main.build_app, Everything()

    def kept(*given: Any, **named: Any) -> web.Application:
        apps.append(build(*given, **named))
        return apps[-1]

    (folder / "profile_metrics").write_text(PROFILE_METRICS)
    settings: dict[str, Any] = {
        "profile_metrics_file": folder / "profile_metrics",
        "read_rules_file": folder / "rules",
        "read_proxy_header": "X-User",
        "trusted_proxies": (parse_network("127.0.0.1"),),
        "capture_check_interval_seconds": 0.1,
        "discovery_publish_interval_seconds": 0.01,
        # However long a test takes, no deploy is found meanwhile, and no sidecar counts as gone.
        "deploy_check_interval_seconds": 1e6,
        **changes,
    }
    tokens = load_tokens(Settings(**{"store": "given", **settings}))
    store = objects or MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "build_app", kept)
        patch.setattr(main, "open_cluster", lambda _: cluster)
        patch.setattr(kubernetes_wiring, "REFRESH_SECONDS", 0.0)
        patch.setattr(watcher, "TICK_SECONDS", 0.05)
        patch.setattr(agents, "AGENT_TTL_SECONDS", 1e6)
        # The windows are younger than a complete interval. Each scrape has another end, so none is cached.
        until_ns = count(time.time_ns() // 10**9 * 10**9 + 3600 * 10**9)
        patch.setattr(RuleGroup, "find_interval", lambda *_: ((end := next(until_ns)) - 7200 * 10**9, end))
        async with serving(store, tokens, **settings) as collector:
            place = Place(collector, apps[-1], store, cluster)
            made = await place.ask(
                "root", "links", method="POST", body=json.dumps({"path": f"/s/{MARK}-shop"}).encode()
            )
            place.link = made.json["id"]
            if "beta" in namespaces:
                place.theirs = await fill(place, "beta", MARK)
            if "alpha" in namespaces:
                place.ours = await fill(place, "alpha", "alphamark")
            yield place


async def fill(place: Place, namespace: str, mark: str) -> Filled:
    """Add windows of a namespace, a sidecar, a capture with a recording, a deploy, a workload and a note."""
    labels = {
        "service": f"{mark}-shop",
        "version": f"{mark}-1",
        "namespace": namespace,
        "pod": f"{mark}-pod",
        f"{mark}_team": "x",
    }
    start_ns = time.time_ns() - DATA_AGE_SECONDS * 10**9
    header = {
        "format": 1,
        "id": str(ULID.from_timestamp(start_ns // 10**6)),
        "labels": labels,
        "start_ns": start_ns,
        "duration_ns": 10**9,
        "period_ns": 10**7,
    }
    text = f"# {json.dumps(header)}\nmain (a.py:1);{mark}_fn ({mark}.py:3) 7\n"
    assert (await place.collector.post(text.encode())).status == 200
    sidecar = Sidecar(place.collector, pod=f"{mark}-pod", service=f"{mark}-shop")
    sidecar.labels["namespace"] = namespace
    place.sidecars.append(sidecar)
    await sidecar.ask()
    made = await place.ask(
        "root", "captures", method="POST", body=json.dumps({"service": f"{mark}-shop", "seconds": 1}).encode()
    )
    assert made.status == 201, made.body

    async def ordered() -> bool:
        await sidecar.ask(hold=1)
        return bool(sidecar.orders)

    await until("the capture is assigned", ordered)
    capture = made.json["id"]
    frames = {"frames": ["main (app.py:1)", f"{mark}_fn ({mark}.py:10)"]}
    stored = await sidecar.record(capture, changes=frames)
    assert stored.status == 201, stored.body
    await sidecar.ship(capture)
    await sidecar.told(capture, "done", samples=3, windows=1)
    await add_workload(place, namespace, f"{mark}-shop", f"{mark}-pod")
    deploy = add_deploy(place.store, namespace, mark)
    note = await add_note(place, namespace, mark)
    return Filled(f"{mark}-shop", capture, stored.json["name"], deploy, note)


async def add_note(place: Place, namespace: str, mark: str) -> str:
    """Write a note in a namespace; return its id."""
    wish = {"service": NOTED_SERVICE, "namespace": namespace, "text": f"{mark} slow", "from": "-1m"}
    made = await place.ask("root", "notes", method="POST", body=json.dumps(wish).encode())
    assert made.status == 201, made.body
    note_id: str = made.json["id"]
    return note_id


async def add_workload(place: Place, namespace: str, service: str, name: str) -> None:
    """Run a Deployment with a pod in the cluster, and wait until the collector has seen both."""
    objects = (
        (ResourceKind.PODS, pod(name, namespace=namespace, owner=service, sidecar="running")),
        (ResourceKind.DEPLOYMENTS, deployment(service, 1)),
        (ResourceKind.REPLICASETS, replicaset(service, 1)),
    )
    for kind, item in objects:
        item = deepcopy(item)
        item["metadata"]["namespace"] = namespace
        place.cluster.put(kind, item)

    async def is_shown() -> bool:
        shown = (await place.ask("root", "workloads")).json["workloads"]
        return any(one["namespace"] == namespace and one["pods"] and one["rollouts"] for one in shown)

    await until("the workload is shown", is_shown)


def add_deploy(store: ObjectStore, namespace: str, mark: str) -> str:
    """Store a deploy of a namespace; return its id."""
    labels, now = (namespace, f"{mark}-shop", f"{mark}-2"), time.time()
    deploy = create_deploy(labels, now, f"{mark}-1", ObservedSpan(now - 3600, now), None, DeployPolicy())
    with closing(DeployRepository(store)) as repository:
        assert repository.create(deploy)
    return deploy.id


def list_read_paths(app: web.Application) -> set[str]:
    """The paths that readers may GET; those of the API without its prefix."""
    paths = {
        route.resource.canonical if route.resource else ""
        for route in app.router.routes()
        if route.method == "GET"
    }
    return {
        path.removeprefix("/api/v1/")
        for path in paths
        if required_permission("GET", path) is not Permission.OPEN
    }
