"""A sidecar beside targets that are expensive to attach: it reports them and goes on with the others."""

from __future__ import annotations

import signal
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.native.conftest import PYTHONS
from tests.native.conftest import TARGETS as NATIVE_TARGETS
from tests.processes import eventually, running
from tests.sidecar.conftest import Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

OLD = [path for version, path in PYTHONS.items() if int(version.split(".")[1]) in (8, 9, 10)][-1:]
ATTACH_SLOTS = 4


@pytest.mark.parametrize("python", OLD, ids=str)
def test_targets_that_exceed_the_limits_of_attaching_are_reported_and_the_others_sampled(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path, python: Path
) -> None:
    with ExitStack() as stack:
        hostile = []
        for n in range(ATTACH_SLOTS + 1):
            kind = "names" if n else "threads"
            command = [str(python), str(NATIVE_TARGETS / "expensive.py"), kind, "300"]
            hostile.append(stack.enter_context(running(tmp_path / f"hostile-{n}.log", *command)))
        for target in hostile:
            eventually("the target runs", lambda target=target: "ready" in target.said())
        good = start("spin")
        pids = [word for target in [*hostile, good] for word in ("--pid", str(target.pid))]
        sidecar = start_sidecar(*pids)
        eventually(
            "the other process is sampled",
            lambda: any(window.quality.pid == good.pid for window in collector.taken),
        )

        def reported() -> set[str]:
            status, answer = sidecar.get("/readyz")
            assert not any(problem["about"] == f"process {good.pid}" for problem in answer["problems"])
            found = {p["about"] for p in answer["problems"] if p["error"] == "attach_limit"}
            assert status == 503 or not found
            return found

        everyone = {f"process {target.pid}" for target in hostile}
        eventually("all of them are reported", lambda: reported() == everyone)
        with urllib.request.urlopen(sidecar.url + "/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
        assert 'sidelight_sidecar_attach_failures_total{reason="attach_limit"}' in metrics
        taken = len(collector.taken)
        eventually("sampling goes on", lambda: len(collector.taken) > taken)
        sidecar.running.end(signal.SIGTERM)
