"""Versions of a service with something planted: pods with a sidecar each, and load that treats all alike.

How much more one version takes than another is known at any speed of the machine: the work of a request is
counted in turns, and a request goes to one pod after the other, in rounds of all pods in changing order, so
every pod has had as many. At most one pod works at a time: pods do not slow each other, and what slows the
machine slows neighbours in a round alike. The kernel's clock of each process says what was true.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.processes import Collector, Running, eventually, running, sidelight

SOURCE: Final = Path(__file__).parent / "targets" / "shop.py"
SERVICE: Final = "shop"
Edits = Sequence[tuple[str, str]]

_WRAPPERS: Final = "".join(
    f"def layer_{at}() -> None:\n    {f'layer_{at - 1}()' if at else 'work()'}\n\n\n" for at in range(10)
)
PLANTED: Final[Mapping[str, Edits]] = {
    "base": (),
    "more": (("range(12)", "range(23)"),),
    "equal": (),
    "double": (("range(12)", "range(132)"),),
    "deeper": (
        ("async def handle", f"{_WRAPPERS}async def handle"),
        ("    work()\n    return", "    layer_9()\n    return"),
    ),
    "less": (("range(48)", "range(37)"),),
    "new": (
        (
            "def work()",
            "def check() -> None:\n    for _ in range(6):\n        "
            'pbkdf2_hmac("sha256", b"check", b"shop", ITERATIONS)\n\n\ndef work()',
        ),
        ("    render()\n", "    render()\n    check()\n"),
    ),
    "renamed": (
        ("def price()", "# Moved down a little, and\n# called by a better name.\n\n\ndef quote()"),
        ("    price()", "    quote()"),
    ),
}
"""What each version has that `base` has not: `more` takes 8 % more CPU, all in `tax`; `double` twice as much;
`less` 8 % less, in `search`; `new` has a function of its own that takes 4 %."""


def source(edits: Edits, path: Path = SOURCE) -> str:
    """The service's text with these edits, each of which fits once."""
    text = path.read_text()
    for before, after in edits:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@dataclass(frozen=True, slots=True)
class Pod:
    """A process of the service with its sidecar."""

    version: str
    name: str
    port: int
    process: Running
    sidecar: Running

    def clock(self) -> float:
        """CPU seconds of the process, by the kernel's clock in nanoseconds."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in tasks) / 1e9


@dataclass(slots=True)
class Load:
    """Rounds of a request to each pod, from a thread, until it is ended.

    With a rate, so many requests a second of all pods together, at random times: what is late is made up
    for."""

    pods: Sequence[Pod]
    rate: float = 0.0
    seed: int = 1
    rounds: int = 0
    failed: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        luck = random.Random(self.seed)
        lines = [socket.create_connection(("127.0.0.1", pod.port), timeout=60) for pod in self.pods]
        due = time.monotonic()
        try:
            while not self._over.is_set():
                for line in luck.sample(lines, len(lines)):
                    if self.rate:
                        due += luck.expovariate(self.rate)
                        self._over.wait(max(due - time.monotonic(), 0.0))
                    ask(line)
                self.rounds += 1
        except (OSError, AssertionError) as error:
            # `loaded` tells of it, in the test's own thread
            self.failed.append(repr(error))
        finally:
            for line in lines:
                line.close()

    def end(self) -> None:
        self._over.set()


def ask(line: socket.socket) -> None:
    """A request on a connection that stays; with no client library, so that pods are idle for short times."""
    line.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
    answer = b""
    while not answer.endswith(b"\r\n\r\nok\n"):
        received = line.recv(4096)
        assert received, answer
        answer += received
    assert answer.startswith(b"HTTP/1.1 200 "), answer


@contextmanager
def loaded(pods: Sequence[Pod], rate: float = 0.0, seed: int = 1) -> Iterator[Load]:
    """Load on these pods, as fast as they answer or at a rate; it has ended afterwards."""
    load = Load(pods, rate, seed)
    thread = threading.Thread(target=load.run, name="load")
    thread.start()
    try:
        yield load
    finally:
        load.end()
        thread.join()
    assert not load.failed, load.failed


@contextmanager
def planted(
    folder: Path,
    collector: Collector,
    pods: Mapping[str, int],
    *,
    seconds: float,
    rate: int = 1000,
    program: Path = SOURCE,
    versions: Mapping[str, Edits] = PLANTED,
) -> Iterator[list[Pod]]:
    """So many pods of each version, whose sidecars ship windows to the collector."""
    with ExitStack() as stack:
        started: list[tuple[str, str, Running]] = []
        for version, count in pods.items():
            code = folder / version
            code.mkdir(parents=True)
            script = code / program.name
            script.write_text(source(versions[version], program))
            for at in range(count):
                name = f"{version}-{at}"
                argv = (sys.executable, str(script), str(folder / f"{name}.port"), str(seconds))
                started.append((version, name, stack.enter_context(running(folder / f"{name}.log", *argv))))
        ready = []
        for version, name, process in started:
            port = eventually(f"{name} listens", lambda name=name: _port(folder / f"{name}.port"), 60)
            argv = sidelight(
                "sidecar", "--collector", collector.url, "--pid", str(process.pid), "--service", SERVICE,
                "--version", version, "--pod", name, "--rate", str(rate), "--window-seconds", "2",
                "--budget-cpu-percent", "100", "--budget-stop-percent", "100",
                "--spool-dir", str(folder / f"{name}.spool"), "--listen", "127.0.0.1:0",
                "--no-captures-from-collector", "--scan-interval-seconds", "5",
            )  # fmt: skip
            carrier = stack.enter_context(running(folder / f"{name}.sidecar.log", *argv))
            ready.append(Pod(version, name, port, process, carrier))
        yield ready


def _port(file: Path) -> int | None:
    return int(file.read_text()) if file.exists() and file.read_text().endswith("\n") else None


def sampled(collector: Collector, pods: Sequence[Pod], since: float) -> set[str]:
    """The pods of which windows are stored of after `since`."""
    for pod in pods:
        assert pod.process.alive(), pod.process.said()
        assert pod.sidecar.alive(), pod.sidecar.said()
    query = quote(f'{{service="{SERVICE}"}}')
    answer = collector.get(f"/api/v1/labels/pod/values?query={query}&from={since}&until={since + 3600}")
    return set(answer["values"])


def clocks(pods: Sequence[Pod]) -> dict[str, float]:
    """CPU seconds of each version's pods together, until now."""
    told: dict[str, float] = {}
    for pod in pods:
        told[pod.version] = told.get(pod.version, 0.0) + pod.clock()
    return told


@dataclass(frozen=True, slots=True)
class Run:
    """What was true from `start` to `until` (Unix seconds): rounds of requests, CPU seconds by version."""

    start: float
    until: float
    rounds: int
    clocks: Mapping[str, float]
    pods: Mapping[str, int]

    def truth(self, version: str) -> float:
        """How much more CPU a pod of `version` took than one of base, by the kernel's clock."""
        each = {name: self.clocks[name] / self.pods[name] for name in (version, "base")}
        return each[version] / each["base"] - 1


def compare(
    collector: Collector, version: str, start: float, until: str, *options: str, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Ask the command, as a pipeline would, about a version beside base; JSON goes to standard output."""
    return subprocess.run(
        sidelight(
            "compare", "--collector", collector.url, "--baseline", "version:base",
            "--comparison", f"version:{version}", "--from", f"{start}", "--until", until, "--json", "-",
            "--limit", "200",            *options, f'{{service="{SERVICE}"}}',
        ),
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that the command wrote."""
    assert done.stdout, (done.returncode, done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode
    return told


def row(told: Mapping[str, Any], function: str) -> dict[str, Any]:
    """The row of one of the service's own functions."""
    (found,) = [one for one in told["rows"] if one["function"] == function and one["file"] == "shop.py"]
    return dict(found)


def ran(collector: Collector, pods: Sequence[Pod], enough: Callable[[float], None]) -> Run:
    """Put load on pods, and once all of them are sampled, for as long as `enough` takes; it is given the
    first moment that counts. The windows of that time are stored afterwards."""
    names = {pod.name for pod in pods}
    with loaded(pods) as load:
        begun = time.time()
        eventually("all pods are sampled", lambda: sampled(collector, pods, begun) == names, 90)
        before, rounds, start = clocks(pods), load.rounds, time.time()
        enough(start)
        after, rounds, until = clocks(pods), load.rounds - rounds, time.time()
        eventually("the last windows are stored", lambda: sampled(collector, pods, until) == names, 60)
    spent = {version: after[version] - before[version] for version in after}
    return Run(start, until, rounds, spent, Counter(pod.version for pod in pods))
