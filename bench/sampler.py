"""The cost of sampling for sampler and target, compared with `py-spy record`.

    python -m bench.sampler [--seconds 5] [--repeats 5] [--pairs 10]
                             [--only cpu,lost,tasks,idle,gap,latency,many]
    python -m bench.sampler --only cpu --baseline PYTHON

py-spy runs in blocking mode at the same rate. With --baseline `cpu` compares with another build of
sidelight_native, that of another Python environment, each time in a new process and in random order, and that
build with itself.

cpu      CPU microseconds of the sampler per tick. For py-spy it is the difference of a long and a short
         run, which excludes attaching. For Sidelight it comes from the batches, which read the sampling
         thread's own clock.
lost     Microseconds that a spinning Python thread loses per tick, measured by that thread, minus its loss
         without a sampler.
tasks    CPU microseconds of the sampler per reading of the asyncio tasks of a loop that never rests, and per
         task that was read: the difference between runs with and without readings.
idle     Stops of a waiting process.
gap      Time without sampling between two windows: py-spy starts again for each window.
latency  Open-loop p99 of the example services with and without sampling, in pairs. The difference should
         lie within the difference of two runs without sampling. aiohttp also beside 1,000 waiting tasks,
         which are read as well.
many     CPU and memory of one sidecar beside 40 idle processes at 49 Hz, which ships to a real collector.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import sidelight_native

from bench import ingest

RATE = 100
PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
TARGETS = Path(__file__).with_name("sampler_targets.py")
SHORT_SECONDS = 1
ONE_BATCH = """
import sys, time, sidelight_native
engine = sidelight_native.Engine()
session = engine.attach(int(sys.argv[1]), rate_hz=float(sys.argv[2]))
time.sleep(0.5)
session.take()
time.sleep(float(sys.argv[3]))
batch = session.stop()
print(batch.sampler_cpu_ns / 1000 / batch.attempts)
"""
"""A program that prints the CPU microseconds of a tick, run by the Python of either build."""
TASKS_RATE = 20
TASKS_READ = 64
# A sidecar's default.
TASKS_HZ = 5
# With so many more tasks.
SERVICES = (("aiohttp_asyncio", 0), ("tornado_async", 0), ("aiohttp_asyncio", 1000))


@contextmanager
def target(*arguments: str, python: str = sys.executable) -> Iterator[subprocess.Popen[str]]:
    """Run a program of sampler_targets.py and wait until it is ready."""
    process = subprocess.Popen(
        [python, TARGETS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        if arguments[0] != "service":
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"{arguments} did not start")
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def service(name: str, python: str = sys.executable, tasks: int = 0) -> Iterator[tuple[int, str]]:
    """Run an example service beside so many tasks that wait; yield its pid and URL."""
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        with target("service", name, str(port_file), str(tasks), python=python) as process:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit(f"{name} did not start")
                time.sleep(0.02)
            yield process.pid, f"http://127.0.0.1:{port_file.read_text().strip()}"


def load(url: str, rate: int, seconds: float) -> subprocess.Popen[str]:
    """Start a process that sends requests at a constant rate.

    At its end it prints one line of JSON.
    """
    command = ["--url", url, "--rate", str(rate), "--seconds", str(seconds), "--path", "/50"]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sidelight_cli.demo.processes.load_generator",
            *command,
            "--warm-up-seconds",
            "1",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


def py_spy(pid: int, seconds: int) -> tuple[float, float]:
    """Measure the CPU and wall clock seconds of one `py-spy record`."""
    with tempfile.TemporaryDirectory() as scratch:
        arguments = ["record", "-p", str(pid), "-r", str(RATE), "-d", str(seconds), "-f", "raw"]
        began = time.perf_counter()
        process = subprocess.Popen(
            [PY_SPY, *arguments, "-o", f"{scratch}/stacks"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            raise SystemExit("py-spy record failed")
        return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def py_spy_us_per_tick(pid: int, seconds: int) -> float:
    short, _ = py_spy(pid, SHORT_SECONDS)
    long, _ = py_spy(pid, SHORT_SECONDS + seconds)
    return (long - short) * 1e6 / (RATE * seconds)


def own(pid: int, seconds: float, tasks_hz: float = 0.0) -> Any:
    """Take a batch of `seconds` with the native sampler, after a warm-up."""
    engine = sidelight_native.Engine()
    session = engine.attach(pid, rate_hz=RATE, tasks_hz=tasks_hz)
    time.sleep(0.5)
    session.take()
    time.sleep(seconds)
    batch = session.stop()
    engine.close()
    if session.ended:
        raise SystemExit(f"sampling ended: {session.ended}")
    return batch


def show(what: str, theirs: list[float], ours: list[float], asked: float, unit: str = "us") -> None:
    """Print one line of the table: medians, ranges and the ratio."""
    one, two = statistics.median(theirs), statistics.median(ours)
    ratio = one / two if two > 0 else float("inf")
    print(
        f"{what:34} py-spy {one:8.1f} [{min(theirs):.0f}-{max(theirs):.0f}]  "
        f"sidelight {two:7.1f} [{min(ours):.1f}-{max(ours):.1f}] {unit}  "
        f"{ratio:6.1f}x less (asked {asked:g}x)",
        flush=True,
    )


def cpu(options: argparse.Namespace) -> None:
    print(f"sampler CPU per tick at {RATE} Hz, {options.repeats} repeats of {options.seconds} s")
    for name, depth, threads, asked in (
        ("depth 30", 30, 0, 6),
        ("depth 250", 250, 0, 12),
        ("50 idle threads, nothing spins", 0, 50, 30),
        ("50 idle threads and one that spins", 5, 50, 30),
    ):
        kind = ("spin", str(depth), str(threads)) if depth else ("wait", str(threads))
        with target(*kind) as process:
            compare_cpu(name, process.pid, options, asked)
    with service("aiohttp_asyncio", options.python) as (pid, url):
        rounds = options.repeats * (3 * options.seconds + 2 * SHORT_SECONDS + 6)
        requests = load(url, 150, rounds)
        try:
            time.sleep(1)
            compare_cpu("aiohttp, 150 requests/s", pid, options, 4)
        finally:
            requests.kill()
            requests.wait()


def compare_cpu(name: str, pid: int, options: argparse.Namespace, asked: float) -> None:
    if options.baseline:
        compare_builds(name, pid, options)
        return
    theirs, ours = [], []
    for _ in range(options.repeats):
        theirs.append(py_spy_us_per_tick(pid, options.seconds))
        batch = own(pid, options.seconds)
        ours.append(batch.sampler_cpu_ns / 1000 / batch.attempts)
    show(name, theirs, ours, asked)


def compare_builds(name: str, pid: int, options: argparse.Namespace) -> None:
    """Print medians of both builds, and ratios of measurements of one round with 95 % intervals."""
    pythons = {"before": options.baseline, "again": options.baseline, "since": sys.executable}
    costs: dict[str, list[float]] = {which: [] for which in pythons}
    for _ in range(options.repeats):
        for which in random.sample(list(pythons), len(pythons)):
            command = [pythons[which], "-c", ONE_BATCH, str(pid), str(RATE), str(options.seconds)]
            costs[which].append(float(subprocess.check_output(command, text=True)))
    before, since = statistics.median(costs["before"]), statistics.median(costs["since"])
    print(
        f"{name:34} before {before:7.1f}  since {since:7.1f} us  "
        f"ratio {format_ratio(costs['before'], costs['since'])}, "
        f"same build {format_ratio(costs['before'], costs['again'])}",
        flush=True,
    )


def format_ratio(one: list[float], two: list[float]) -> str:
    """Return the median ratio with an interval by bootstrap."""
    ratios = [b / a for a, b in zip(one, two, strict=True)]
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.2f} [{medians[50]:.2f}-{medians[1949]:.2f}]"


def lost(options: argparse.Namespace) -> None:
    print(f"time a spinning thread loses per tick at {RATE} Hz, {options.repeats} repeats")
    for name, depth, threads, asked in (
        ("depth 30", 30, 0, 4),
        ("depth 250", 250, 0, 10),
        ("depth 5 beside 50 idle threads", 5, 50, 30),
    ):
        with target("spin", str(depth), str(threads), python=options.python) as process:
            theirs, ours, stops = [], [], []
            for _ in range(options.repeats):
                rest = lost_during(process, lambda: time.sleep(options.seconds)) / options.seconds
                spied = lost_during(process, lambda: py_spy(process.pid, options.seconds))
                theirs.append((spied - rest * options.seconds) / (RATE * options.seconds) / 1000)
                before = ask(process)
                batch = own(process.pid, options.seconds)
                sampled = ask(process) - before
                ticks = RATE * (options.seconds + 0.5)
                ours.append((sampled - rest * (options.seconds + 0.5)) / ticks / 1000)
                stops.append(batch.stopped_ns / 1000 / batch.attempts)
            show(name, theirs, ours, asked)
            print(f"{'':34} stopped by our own clock {statistics.median(stops):.1f} us a tick")


def lost_during(process: subprocess.Popen[str], action: Any) -> float:
    """Measure the nanoseconds that the spinning thread loses during a call."""
    before = ask(process)
    action()
    return ask(process) - before


def ask(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def tasks(options: argparse.Namespace) -> None:
    print(f"readings of asyncio tasks at {TASKS_RATE} Hz, {options.repeats} repeats of {options.seconds} s")
    for count in (10, 100, 1000, 10_000):
        costs, longest_us, failed = [], 0.0, 0
        with target("tasks", str(count), python=options.python) as process:
            for _ in range(options.repeats):
                without = own(process.pid, options.seconds)
                batch = own(process.pid, options.seconds, TASKS_RATE)
                extra_ns = batch.sampler_cpu_ns - without.sampler_cpu_ns
                costs.append(extra_ns / 1e3 / max(batch.tasks.readings + batch.tasks.failed, 1))
                longest_us = max(longest_us, batch.longest_stop_ns / 1e3)
                failed += batch.tasks.failed
        cost = statistics.median(costs)
        print(
            f"{f'{count} tasks':34} {cost:8.1f} [{min(costs):.0f}-{max(costs):.0f}] us a reading  "
            f"{cost / min(count, TASKS_READ):6.2f} us a task read  "
            f"longest stop {longest_us:.0f} us  {failed} failed",
            flush=True,
        )


def idle(options: argparse.Namespace) -> None:
    with target("wait", "3", python=options.python) as process:
        batch = own(process.pid, options.seconds)
    print(
        f"a process that waits: {batch.stops} stops in {batch.attempts} ticks "
        f"(py-spy: every thread each time); {batch.sampler_cpu_ns / 1000 / batch.attempts:.1f} us CPU a tick"
    )


def gap(options: argparse.Namespace) -> None:
    with target("wait", "0", python=options.python) as process:
        waits = [py_spy(process.pid, 1)[1] - 1 for _ in range(options.repeats)]
        engine = sidelight_native.Engine()
        session = engine.attach(process.pid, rate_hz=RATE)
        batches = []
        for _ in range(20):
            time.sleep(0.1)
            batches.append(session.take())
        engine.close()
    gaps = [b.start_ns - (a.start_ns + a.duration_ns) for a, b in pairwise(batches)]
    print(
        f"between windows: py-spy {statistics.median(waits) * 1000:.1f} ms, "
        f"sidelight {max(map(abs, gaps))} ns at most of {len(gaps)}"
    )


def latency(options: argparse.Namespace) -> None:
    print(f"open-loop p99 at 400 requests/s, 50 ms handler, {RATE} Hz, {options.pairs} pairs")
    for name, tasks in SERVICES:
        with service(name, options.python, tasks) as (pid, url):
            # A run without sampling is the neighbour of two with it.
            off, sampled = [p99(url, options.latency_seconds)], []
            for _ in range(options.pairs):
                engine = sidelight_native.Engine()
                session = engine.attach(pid, rate_hz=RATE, tasks_hz=TASKS_HZ if tasks else 0)
                sampled.append(p99(url, options.latency_seconds))
                assert session.ended is None
                engine.close()
                off.append(p99(url, options.latency_seconds))
        spread = statistics.median(abs(a - b) for a, b in pairwise(off))
        difference = statistics.median(
            on - (a + b) / 2 for on, (a, b) in zip(sampled, pairwise(off), strict=True)
        )
        title = f"{name}, {tasks} tasks" if tasks else name
        print(
            f"{title:28} off {statistics.median(off):.2f} ms "
            f"[{min(off):.2f}-{max(off):.2f}], on {statistics.median(sampled):.2f} "
            f"[{min(sampled):.2f}-{max(sampled):.2f}]; on - off {difference:+.2f}, "
            f"off/off differ by {spread:.2f} (median)",
            flush=True,
        )


def p99(url: str, seconds: float) -> float:
    line, _ = load(url, 400, seconds).communicate()
    return float(json.loads(line)["overall"]["p99_ms"])


def many(options: argparse.Namespace) -> None:
    count, rate = 40, 49
    waiting = [options.python, TARGETS, "wait", "0"]
    processes = [
        subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        collector = ingest.start(str(Path(scratch, "store")), port_file)
        command = [
            sys.executable,
            "-m",
            "sidelight.main",
            "sidecar",
            "--service",
            "bench",
            "--rate",
            str(rate),
        ]
        command += ["--collector", f"http://127.0.0.1:{port_file.read_text().strip()}"]
        command += [
            "--listen",
            "127.0.0.1:0",
            "--spool-dir",
            f"{scratch}/spool",
            "--budget-cpu-percent",
            "50",
        ]
        command += [word for process in processes for word in ("--pid", str(process.pid))]
        sidecar = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            kernel = psutil.Process(sidecar.pid)
            time.sleep(15)
            before, began = sum(kernel.cpu_times()[:2]), time.perf_counter()
            time.sleep(30)
            share = (sum(kernel.cpu_times()[:2]) - before) / (time.perf_counter() - began)
            memory = kernel.memory_info().rss / 2**20
        finally:
            for one in (sidecar, collector, *processes):
                with suppress(ProcessLookupError):
                    one.terminate()
                one.wait()
    print(
        f"{count} idle processes at {rate} Hz, one sidecar: {share:.1%} of a core "
        f"(limit {count / 5:.0f} %), {memory:.0f} MiB RSS (limit 60)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--latency-seconds", type=float, default=7.0)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the targets")
    parser.add_argument("--baseline", help="a Python with another build of sidelight_native")
    parser.add_argument("--only", default="cpu,lost,tasks,idle,gap,latency,many")
    options = parser.parse_args()
    sections = {
        "cpu": cpu,
        "lost": lost,
        "tasks": tasks,
        "idle": idle,
        "gap": gap,
        "latency": latency,
        "many": many,
    }
    for name in options.only.split(","):
        sections[name](options)


if __name__ == "__main__":
    main()
