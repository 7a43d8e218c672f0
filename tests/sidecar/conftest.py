"""Real targets and a sidecar beside them."""

from __future__ import annotations

import itertools
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers import native_sampler
from sidelight_sidecar.samplers.sampler_registry import SamplerRegistry
from tests.processes import Running, eventually, running, sidelight
from tests.sidecar.fake_collector import FakeCollector, collecting

TARGETS = Path(__file__).parent / "targets"
Start = Callable[..., Running]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Start targets by name; each has said that it is ready, and all are gone afterwards."""
    with ExitStack() as stack:
        count = itertools.count()

        def begin(name: str, *arguments: str, wrapper: tuple[str, ...] = ()) -> Running:
            log = folder / f"{name}-{next(count)}.log"
            argv = [*wrapper, sys.executable, str(TARGETS / f"{name}.py"), *arguments]
            target = stack.enter_context(running(log, *argv))
            eventually("the target runs", lambda: "ready" in target.said())
            return target

        yield begin


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a target by name and waits until it says ready."""
    with starting(tmp_path) as begin:
        yield begin


@pytest.fixture
def procfs() -> ProcFs:
    return ProcFs()


def proc_of(target: Running) -> Proc:
    proc = ProcFs().read_process(target.pid)
    assert proc is not None
    return proc


@pytest.fixture
def collector() -> Iterator[FakeCollector]:
    with collecting() as one:
        yield one


@dataclass
class Sidecar:
    """A running sidecar and its own port."""

    running: Running
    url: str

    def get(self, path: str) -> tuple[int, Any]:
        return self.ask(urllib.request.Request(self.url + path))

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        return self.ask(urllib.request.Request(self.url + path, data=body, headers=headers))

    def ask(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, told = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, told = error.code, error.read()
        lines = [line for line in told.split(b"\n") if line]
        return status, [json.loads(line) for line in lines] if len(lines) > 1 else json.loads(told)

    def metric(self, name: str) -> float:
        """A metric's value, added up over its labels."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as answer:
            text = answer.read().decode()
        found = re.findall(rf"^sidelight_sidecar_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        return sum(map(float, found))


StartSidecar = Callable[..., Sidecar]


@contextmanager
def sidecars(folder: Path, collector: FakeCollector) -> Iterator[StartSidecar]:
    """Start `sidelight sidecar` with short windows; it listens, and is gone afterwards."""
    with ExitStack() as stack:
        count = itertools.count()

        def begin(*options: str, url: str = "", wrapper: tuple[str, ...] = ()) -> Sidecar:
            given = {
                "--collector": url or collector.url,
                "--service": "shop",
                "--version": "1",
                "--window-seconds": "0.5",
                "--scan-interval-seconds": "0.1",
                "--send-backoff-max-seconds": "0.5",
                # A crowded machine makes sampling dear: only tests about budgets are about budgets.
                "--budget-cpu-percent": "100",
                "--budget-stop-percent": "100",
                "--capture-budget-percent": "100",
                "--spool-dir": str(folder / "spool"),
                "--listen": "127.0.0.1:0",
            }
            arguments = [
                word for flag, value in given.items() if flag not in options for word in (flag, value)
            ]
            process = stack.enter_context(
                running(
                    folder / f"sidecar-{next(count)}.log",
                    *wrapper,
                    *sidelight("sidecar", *arguments, *options),
                )
            )

            def listens() -> str | None:
                assert process.alive(), process.said()
                found = re.search(r"listening\S*\s+url=(\S+)", process.said())
                return found[1] if found else None

            return Sidecar(process, eventually("the sidecar listens", listens))

        yield begin


@pytest.fixture
def start_sidecar(tmp_path: Path, collector: FakeCollector) -> Iterator[StartSidecar]:
    """Starts `sidelight sidecar` with short windows and waits until it listens."""
    with sidecars(tmp_path, collector) as begin:
        yield begin


def samplers() -> SamplerRegistry:
    """The samplers of this machine; the extension must be built."""
    extension = native_sampler.load_extension()
    assert extension is not None, "the extension is missing: run `make native`"
    return SamplerRegistry(extension, ProcFs(), max_depth=1024)
