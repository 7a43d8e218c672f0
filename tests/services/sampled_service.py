"""Runs one service under load beside a sidecar, and says what was seen of it."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from sidelight_cli.demo.processes.load_generator import LoadRound
from sidelight_model.folded import split_stack
from sidelight_model.window import Window
from tests.processes import Running, eventually, running, sidelight
from tests.services.expectations import Process, Seen
from tests.services.stacks import APPS, Service
from tests.services.truth import Account, Watcher, watching
from tests.services.venvs import Environment
from tests.sidecar.fake_collector import FakeCollector, collecting

REQUESTS_PER_SECOND = 30.0
RATE_HZ = 100
BURN_SECONDS = 0.004
_LONGEST_LOAD = 600
_NEW_NS = 3 * 10**9


def watch(service: Service, environment: Environment, folder: Path, seconds: float) -> Seen:
    """See `seconds` of a service; raises AssertionError when it does not start or is not found."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    modules = [str(APPS), *([str(environment.modules)] if environment.modules else [])]
    words = {
        "bin": environment.bin, "python": environment.python, "lib": environment.lib, "port": port,
        "rate": REQUESTS_PER_SECOND,
    }  # fmt: skip
    env = {name: value.format(**words) for name, value in service.env.items()}
    env |= {"PYTHONPATH": ":".join(modules), "PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as stack:
        process = stack.enter_context(running(folder / "service.log", *_filled(service.argv, words), env=env))
        stack.callback(process.end)
        watcher = stack.enter_context(watching(process.pid))
        eventually("the service serves", lambda: _serves(service, process, watcher, port), seconds=120)
        if service.http:
            stack.enter_context(running(folder / "load.log", *_load(port)))
        collector = stack.enter_context(collecting())
        sidecar = stack.enter_context(running(folder / "sidecar.log", *_sidecar(collector, process, folder)))
        started = _all_found(service, collector, watcher, sidecar)
        until = started + round(seconds * 1e9)
        eventually(
            "windows have come in for long enough",
            lambda: _covered(collector, watcher, until),
            seconds=seconds + 120,
        )
        native = _native(service, collector, sidecar) if service.native else frozenset()
        assert sidecar.end(seconds=60) == 0, sidecar.said()
        alive = watcher.alive()
        rounds = _rounds(folder / "load.log") if service.http else []
        seen = _seen(collector.taken, started, until, watcher, alive, rounds)
        return replace(seen, native=native)


def _seen(
    windows: Sequence[Window],
    started: int,
    until: int,
    watcher: Watcher,
    alive: Sequence[int],
    rounds: Sequence[LoadRound],
) -> Seen:
    latest = until + 2 * 10**9
    by_pid: dict[int, list[Window]] = {}
    for one in windows:
        if "capture" not in one.labels and started <= one.start_ns <= latest - one.duration_ns:
            by_pid.setdefault(one.quality.pid, []).append(one)
    processes = [_process(of_one, watcher.accounts) for of_one in by_pid.values()]
    known = {one.quality.pid for one in windows}
    unseen = [pid for pid in alive if pid not in known and _expected(pid, watcher.accounts, until)]
    whole = [one for one in rounds if one.start * 1e9 >= started]
    # Rounds are a second long.
    answered = sum(one.overall.answered for one in whole) / max(1, len(whole))
    last = [one for one in windows if "capture" not in one.labels][-1].quality
    return Seen(
        processes=processes,
        alive=list(alive),
        unseen=unseen,
        stopped=[pid for pid in alive if _stopped(pid)],
        burnt=(answered or REQUESTS_PER_SECOND) * BURN_SECONDS,
        unanswered=dict(sum((Counter(one.errors) for one in whole), Counter())),
        mode=last.mode,
        sampler=last.sampler,
        python=last.python,
    )


def _process(windows: Sequence[Window], accounts: dict[int, Account]) -> Process:
    """One process over the whole of its windows; several of one span are its kinds of threads."""
    ticks: dict[int, tuple[int, int]] = {}
    leaves: Counter[str] = Counter()
    busy = 0
    for window in windows:
        ticks[window.start_ns] = (window.quality.attempts, window.quality.failed_attempts)
        for text, counts in window.counts.items():
            busy += counts.cpu
            leaves[split_stack(text)[-1].partition(" (")[0]] += counts.cpu
    attempts, failed = (sum(column) for column in zip(*ticks.values(), strict=True))
    pid = windows[0].quality.pid
    cpu, waited = accounts[pid].cores(
        windows[0].start_ns, max(one.start_ns + one.duration_ns for one in windows)
    )
    leaves += Counter()  # those that were only idle are no leaves of work
    return Process(pid, windows[-1].labels["process"], attempts - failed, failed, busy, leaves, cpu, waited)


def _native(service: Service, collector: FakeCollector, sidecar: Running) -> frozenset[str]:
    """The frames below the leaf in a short native capture."""
    listens = re.search(r"listening\S*\s+url=(\S+)", sidecar.said())
    assert listens is not None, sidecar.said()
    wish = json.dumps({"seconds": 4, "rate": 20, "mode": "native"}).encode()
    with urllib.request.urlopen(urllib.request.Request(listens[1] + "/capture", wish), timeout=120) as answer:
        last = json.loads(answer.read().splitlines()[-1])

    def captured() -> list[Window]:
        return [one for one in collector.taken if one.labels.get("capture") == last["id"]]

    eventually("its windows have come in", lambda: len(captured()) == last["windows"])
    below: set[str] = set()
    for window in captured():
        for stack in window.counts:
            frames = split_stack(stack)
            leaf = [place for place, frame in enumerate(frames) if frame.startswith(f"{service.leaf} (")]
            below.update(frames[leaf[-1] + 1 :] if leaf else ())
    return frozenset(below)


def _all_found(service: Service, collector: FakeCollector, watcher: Watcher, sidecar: Running) -> int:
    """The moment from which every process is in the windows."""

    def found() -> bool:
        assert sidecar.alive(), sidecar.said()
        roles = Counter({one.quality.pid: one.labels["process"] for one in collector.taken}.values())
        return roles >= Counter(service.roles)

    try:
        eventually("its processes are found", found, seconds=60)
    except AssertionError:
        seen = {one.quality.pid: one.labels["process"] for one in collector.taken}
        raise AssertionError(f"of processes {watcher.alive()} the sidecar found {seen}") from None
    return time.time_ns()


def _covered(collector: FakeCollector, watcher: Watcher, until: int) -> bool:
    last: dict[int, int] = {}
    for window in collector.taken:
        last[window.quality.pid] = window.start_ns + window.duration_ns
    return max(last.values()) >= until and all(last.get(pid, until) >= until for pid in watcher.alive())


def _serves(service: Service, process: Running, watcher: Watcher, port: int) -> bool:
    assert process.alive(), process.said()[-2000:]
    if not service.http:
        return len(watcher.alive()) >= sum(service.roles.values())
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _load(port: int) -> list[str]:
    plan = {"--url": f"http://127.0.0.1:{port}", "--path": "/", "--rate": f"{REQUESTS_PER_SECOND}",
            "--seconds": "1", "--rounds": str(_LONGEST_LOAD)}  # fmt: skip
    return [
        sys.executable,
        "-m",
        "sidelight_cli.demo.processes.load_generator",
        *(word for pair in plan.items() for word in pair),
    ]


def _rounds(log: Path) -> list[LoadRound]:
    return [
        LoadRound.parse(line)
        for line in log.read_text().splitlines()
        if line.startswith("{") and line.endswith("}")
    ]


def _sidecar(collector: FakeCollector, process: Running, folder: Path) -> list[str]:
    return sidelight(
        "sidecar", "--collector", collector.url, "--service", "services", "--pid", str(process.pid),
        "--rate", str(RATE_HZ), "--window-seconds", "1", "--scan-interval-seconds", "0.2",
        "--spool-dir", str(folder / "spool"), "--listen", "127.0.0.1:0",
        # How fast is sampled is another test's; here every tick helps to judge.
        "--budget-cpu-percent", "100", "--budget-stop-percent", "100",
    )  # fmt: skip


def _expected(pid: int, accounts: dict[int, Account], until: int) -> bool:
    """Whether it must have been sampled: no aid of multiprocessing, and none that has just started."""
    account = accounts.get(pid)
    return account is not None and not account.aid and account.moments[0] < until - _NEW_NS


def _stopped(pid: int) -> bool:
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(path.read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return any(state in "Tt" for state in states)


def _filled(argv: Sequence[str], words: dict[str, object]) -> list[str]:
    filled = [word.format(**words) for word in argv]
    return [str(APPS / word) if word.endswith("_app.py") else word for word in filled]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
