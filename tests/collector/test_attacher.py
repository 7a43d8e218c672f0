"""What an attached sidecar gets from the collector; tests/cluster attaches them to real pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from sidelight_collector.captures.attach.attacher import Attacher, AttachPolicy
from sidelight_collector.captures.attach.ephemeral_container import AttachTarget
from sidelight_collector.captures.capture import Capture, Claim
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.metrics import Metrics
from sidelight_sidecar.settings import parse_sidecar_settings
from tests.cluster.pki import Authority
from tests.collector.test_captures import made

TARGET = AttachTarget("shop", "shop-1", "u-1", "node-1", "shop", "2", "app")


class FakeApi:
    """Takes every patch."""

    def __init__(self) -> None:
        self.containers: list[Mapping[str, Any]] = []

    def get(self, path: str, /, **query: str) -> dict[str, Any]:
        return {}

    def patch(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]:
        self.containers += body["spec"]["ephemeralContainers"]
        return {}


class FakeCoordinator:
    """Claims every sidecar, and keeps why one failed."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.problems: list[str] = []

    async def add_claims(self, capture_id: str, claims: Sequence[Claim]) -> Capture:
        return replace(self.capture, claims=tuple(claims))

    def has_reported_or_ended(self, capture_id: str, agent: str) -> bool:
        return True

    async def fail_part(self, capture_id: str, agent: str, problem: str, hint: str) -> None:
        self.problems.append(problem)


async def attach(ca_file: Path | None) -> tuple[FakeApi, FakeCoordinator]:
    """Attach one sidecar; what the API server and the capture were told."""
    api, coordinator = FakeApi(), FakeCoordinator(made())
    policy = AttachPolicy("image", ("shop",), "https://collector:8080", 60.0, ca_file)
    known = cast("CaptureCoordinator", coordinator)
    attacher = Attacher(api, known, cast("Callable[[], Any]", None), policy, Metrics())
    stop = asyncio.Event()
    running = asyncio.create_task(attacher.run(stop))
    await attacher.start_attaching(coordinator.capture, [TARGET])
    async with asyncio.timeout(60):
        while not (api.containers or coordinator.problems):
            await asyncio.sleep(0.01)
        stop.set()
        await running
    return api, coordinator


async def test_an_attached_sidecar_trusts_the_authorities_of_the_collector(tmp_path: Path) -> None:
    authority = Authority(tmp_path).certificate
    api, _ = await attach(authority)
    [container] = api.containers
    variables = {one["name"]: one["value"] for one in container["env"]}
    settings = parse_sidecar_settings(container["args"][1:], variables)
    assert settings.ca_certificates == authority.read_text()
    assert len(settings.open_ca_bundle().get_context().get_ca_certs()) == 1


async def test_without_a_file_it_trusts_those_of_its_system() -> None:
    api, _ = await attach(None)
    assert [one["name"] for one in api.containers[0]["env"]] == ["SIDELIGHT_ONE_SHOT_TOKEN"]


async def test_a_file_that_is_gone_is_the_failure_of_the_capture(tmp_path: Path) -> None:
    api, coordinator = await attach(tmp_path / "none")
    assert api.containers == []
    assert coordinator.problems[0].startswith("cannot read the CA certificates in ")
