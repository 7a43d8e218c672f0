"""The flame graph of asyncio tasks names what a real service waits for."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.processes import collector, eventually, running, sidelight

TARGET = Path(__file__).parent / "targets" / "slow_pool.py"
SELECTOR = quote('{service="pool"}')
SAMPLES = 2000


LONG = ("aiohttp on uvloop", "Starlette on anyio", "Tornado")


@pytest.mark.parametrize(
    "framework", ["aiohttp", *(pytest.param(framework, marks=pytest.mark.long) for framework in LONG)]
)
def test_the_await_path_that_holds_the_requests_is_named(tmp_path: Path, framework: str) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(collector(tmp_path, str(tmp_path / "store")))
        service = [sys.executable, str(TARGET), "serve", framework]
        target = stack.enter_context(running(tmp_path / "target.log", *service))
        eventually("the service runs", lambda: "ready" in target.said())
        port = target.said().split("ready ")[1].split()[0]
        stack.enter_context(running(tmp_path / "clients.log", sys.executable, str(TARGET), "load", port))
        arguments = ["--collector", served.url, "--service", "pool", "--pid", str(target.pid)]
        arguments += ["--window-seconds", "1", "--tasks-rate", "20", "--budget-cpu-percent", "100"]
        arguments += ["--budget-stop-percent", "100", "--spool-dir", str(tmp_path / "spool")]
        arguments += ["--listen", "127.0.0.1:0"]
        carrier = stack.enter_context(running(tmp_path / "sidecar.log", *sidelight("sidecar", *arguments)))

        def ask(path: str) -> dict[str, object]:
            answer: dict[str, object] = served.get(f"/api/v1/{path}&query={SELECTOR}&type=tasks")
            return answer

        eventually("tasks are stored", lambda: sum(ask("timeline?from=-1h")["samples"]) > SAMPLES)  # type: ignore[call-overload]
        assert carrier.end() == 0, carrier.said()
        tree = ask("flamegraph?lines=0&states=1")
        timeline = ask("timeline?from=-1h")
    names, level, name = tree["names"], tree["level"], tree["name"]
    (side,) = tree["sides"]  # type: ignore[misc]
    path: list[str] = []
    handled = held = 0
    for at, samples in enumerate(side["self_samples"]):
        path[level[at] :] = [names[name[at]]]  # type: ignore[index]
        if any(frame.startswith("handle (") for frame in path):
            handled += samples
            held += samples * any(frame.startswith("Pool.acquire (") for frame in path)
    assert held >= 0.8 * handled > 0
    assert handled > 0.25 * side["samples"]
    assert sum(side["self_samples_by_state"]["task_waiting"]) > 0.8 * side["samples"]
    # 20 requests at a time: tasks per pod are a number of tasks, whatever the sampling rate.
    assert 18 < side["seconds"] / side["pod_seconds"] < 100
    assert any(wait is not None for wait in timeline["longest_ready_seconds"])  # type: ignore[attr-defined]
