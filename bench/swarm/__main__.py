"""Run thousands of sidecars against real collectors and S3, and check the store.

    python -m bench.swarm [--sidecars 10000] [--interval 60] [--seconds 150] [--collectors 1] …

The script starts versitygw, collectors that also compact, and processes of many sidecars (`sidecars`). It
measures their memory and CPU once a second, ends them, and compares the stored windows with the
acknowledged ones (`proof`). The last line and the exit code say whether the check succeeded. With
`--compactors 1`, a process of its own compacts.

`--outage 10` stops the S3 server for that number of seconds in the middle. `--freeze 10 --down 5` stops the
collectors for 10 seconds, kills them, and starts them 5 seconds later: all waiting sidecars fail at once.
`--queries 1` asks a query a second meanwhile (`queries`). `--expired 20` writes so many windows of ten days
ago a minute, which retention has to delete. `--errors 0.05 --latency 0.2` puts a proxy in front of the S3
server: it fails that share of the requests, and delays each by those seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil

from bench.corpus import Corpus, Shape
from bench.swarm.proof import Proof, prove
from bench.swarm.queries import Queries
from bench.swarm.sidecars import Body, Result, Shipped, Task, blocks
from sidelight_collector.stack_hashing import FIRST_STATES
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.segments import write_hashed_segment
from sidelight_collector.storage.tables import DAY_NS
from sidelight_model.counts import STATES
from sidelight_model.folded import render_folded
from tests.collector.failing_proxy import FailingProxy, Mishap
from tests.processes import Collector, S3Server, collector, eventually, s3_server

MB = 1 << 20
LOOK_SECONDS = 1.0
SIDECARS = "from bench.swarm.sidecars import main; main()"
EXPIRED_DAYS = 10
EXPIRED_SECONDS = 60
RETENTION_SECONDS = 300.0
BUCKET, PREFIX = "swarm", "profiles"
FAILURES = (Mishap.SLOW_DOWN, Mishap.BROKEN, Mishap.REFUSED, Mishap.UNTOLD)
REPORTED = (
    "sidelight_segments_written_total",
    "sidelight_compacted_windows_total",
    "sidelight_windows_duplicate_total",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run; times are in seconds.

    `outage` is how long the S3 server stops in the middle. `freeze` and `down` are how long the collectors
    stop, and are gone after that. `queries` is how many are asked a second, `expired` how many windows
    are written a minute that retention has to delete. `errors` is the share of S3 requests that fail, and
    `latency` is what is added to each of them.
    """

    sidecars: int = 10_000
    interval: float = 60.0
    seconds: float = 150.0
    drain: float = 60.0
    services: int = 100
    collectors: int = 1
    compactors: int = 0
    processes: int = 1
    lost: float = 0.01
    outage: float = 0.0
    freeze: float = 0.0
    down: float = 0.0
    queries: float = 0.0
    expired: int = 0
    errors: float = 0.0
    latency: float = 0.0
    bodies: int = 256
    seed: int = 1
    options: str = ""


@dataclass(slots=True)
class Watched:
    """Memory (bytes) and CPU (seconds) of some processes, once a second."""

    pids: Sequence[int]
    memory: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def look(self) -> None:
        found = [psutil.Process(pid) for pid in self.pids]
        self.memory.append(sum(one.memory_info().rss for one in found))
        self.cpu.append(sum(sum(one.cpu_times()[:2]) for one in found))

    @property
    def used(self) -> float:
        return self.cpu[-1] - self.cpu[0]

    def sizes(self) -> str:
        """Return the memory at the start, in the middle and at the end of the load.

        Each is the median of a tenth of the time.
        """
        tenth = max(1, len(self.memory) // 10)
        middle = (len(self.memory) - tenth) // 2
        parts = self.memory[:tenth], self.memory[middle : middle + tenth], self.memory[-tenth:]
        return (
            " / ".join(f"{statistics.median(part) / MB:.0f}" for part in parts)
            + f", most {max(self.memory) / MB:.0f}"
        )

    def slope(self) -> tuple[float, float]:
        """Return the growth of memory in the second half, in MB an hour, and its standard error.

        It is the least-squares line through the medians of twenty equal parts of that half.
        """
        half = self.memory[len(self.memory) // 2 :]
        size = max(1, len(half) // 20)
        parts = [statistics.median(half[at : at + size]) / MB for at in range(0, len(half) - size + 1, size)]
        hours = [(at + 0.5) * size * LOOK_SECONDS / 3600 for at in range(len(parts))]
        if len(parts) < 3:
            return math.nan, math.nan
        slope, first = statistics.linear_regression(hours, parts)
        residual = math.fsum((y - first - slope * x) ** 2 for x, y in zip(hours, parts, strict=True))
        spread = math.fsum((x - statistics.fmean(hours)) ** 2 for x in hours)
        return slope, math.sqrt(residual / (len(parts) - 2) / spread)


@dataclass(frozen=True, slots=True)
class Restart:
    """Times (monotonic) at which the collectors died, and served again."""

    died: float
    served: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run."""

    results: Sequence[Result]
    proof: Proof
    services: Any
    metrics: Counter[str]
    watched: dict[str, Watched]
    seconds: float
    restarts: Sequence[Restart]
    queries: Queries
    expired: int
    mishaps: Counter[str]

    @property
    def shipped(self) -> list[Shipped]:
        return [one for result in self.results for one in result.windows]


def bodies(plan: Plan) -> list[Body]:
    """Prepare windows of the corpus, ready to be sent under any name."""
    corpus = Corpus(Shape(days=1 + plan.bodies / 4000, versions=1, seed=plan.seed))
    made: list[Body] = []
    for row in corpus.windows():
        text = render_folded(corpus.window(row).counts).encode()
        columns = b"".join(column.tobytes() for column in (row.hashes, *row.counts))
        unused = sum(
            len(bytes(column))
            for state, column in zip(STATES, row.counts, strict=True)
            if state not in FIRST_STATES and not any(column)
        )
        made.append(Body(len(made), row.window, blocks(text), len(text), columns, unused))
        if len(made) == plan.bodies:
            break
    return made


def run(plan: Plan, folder: Path, say: Callable[[str], None] = print) -> Outcome:
    """Run everything in this folder, and end every started process in any case."""
    made = bodies(plan)
    text, packed = (
        statistics.mean(sizes)
        for sizes in zip(*((one.text_bytes, len(one.blocks)) for one in made), strict=True)
    )
    say(f"bodies of {text / 1000:.0f} KB of text, {packed / 1000:.1f} KB compressed")
    with ExitStack() as stack:
        server = stack.enter_context(s3_server(folder / "s3"))
        location = f"s3://{server.create_bucket(BUCKET)}/{PREFIX}"
        proxy = FailingProxy(server.endpoint, seed=plan.seed)
        proxy.rate, proxy.latency = plan.errors, plan.latency
        proxy.mishaps = FAILURES if plan.errors else ()
        is_proxied = plan.errors or plan.latency
        endpoint = stack.enter_context(proxy.serving()).endpoint if is_proxied else server.endpoint
        options = ["--s3-endpoint", endpoint, *plan.options.split()]

        def start(at: int, *more: str, role: str = "serve" if plan.compactors else "all") -> Collector:
            words = [*options, "--role", role, *more]
            return stack.enter_context(
                collector(folder / f"{role}-{at}", location, *words, env=server.environment)
            )

        collectors = [start(at) for at in range(plan.collectors)]
        compactors = [start(at, role="compactor") for at in range(plan.compactors)]
        ports = [int(one.url.rpartition(":")[2]) for one in collectors]
        share = plan.sidecars // plan.processes
        tasks = [
            Task(
                ports,
                made,
                at * share,
                share,
                plan.services,
                plan.interval,
                plan.seconds,
                plan.drain,
                plan.lost,
                plan.seed,
            )
            for at in range(plan.processes)
        ]
        sidecars = [stack.enter_context(sidecar_process(folder, at, task)) for at, task in enumerate(tasks)]
        watched = {
            "collectors": Watched([one.running.pid for one in collectors]),
            **({"compactors": Watched([one.running.pid for one in compactors])} if compactors else {}),
            "S3 server": Watched([server.running.pid]),
            "sidecars": Watched([one.pid for one in sidecars]),
        }
        restarts: list[Restart] = []

        def kill_and_restart() -> None:
            died = time.monotonic()
            for one in collectors:
                one.running.end(signal.SIGKILL)
            time.sleep(plan.down)
            collectors[:] = [start(at, "--listen", f"127.0.0.1:{port}") for at, port in enumerate(ports)]
            watched["collectors"].pids = [one.running.pid for one in collectors]
            restarts.append(Restart(died, time.monotonic()))

        def freeze() -> None:
            for one in collectors:
                one.running.process.send_signal(signal.SIGSTOP)

        store = swarm_store(server)
        expired = 0

        def write_expired() -> None:
            nonlocal expired
            write_hashed_segment(store, list(islice(old, plan.expired)))
            expired += plan.expired

        faults = [(plan.seconds / 2, freeze), (plan.seconds / 2 + plan.freeze, kill_and_restart)]
        events = faults if plan.freeze else []
        if plan.expired:
            day = time.time_ns() // DAY_NS - EXPIRED_DAYS
            shape = Shape(versions=1, seed=plan.seed, start_ns=day * DAY_NS)
            old = Corpus(shape).windows()
            events += [(float(at), write_expired) for at in range(0, int(plan.seconds), EXPIRED_SECONDS)]
        queries = Queries([one.url for one in collectors], plan.services, 2 * plan.interval, plan.seed)
        with queries.asking(plan.queries) if plan.queries else nullcontext():
            seconds = _watch(plan, sidecars, watched, server, sorted(events, key=itemgetter(0)))
        if plan.expired:
            say("waiting until retention has deleted what expired")
            until_ns = time.time_ns() - EXPIRED_DAYS * DAY_NS // 2
            eventually(
                "nothing expired is left",
                lambda: not list_live_objects(store, 0, until_ns).refs,
                RETENTION_SECONDS,
            )
        results = [pickle.loads((folder / f"result-{at}").read_bytes()) for at in range(plan.processes)]
        say("the store is compared with what was sent")
        metrics = sum((read_metrics(one.url) for one in (*collectors, *compactors)), Counter())
        services = collectors[0].get(f"/api/v1/services?from={time.time() - 3600 - seconds:.0f}")
        for one in (*collectors, *compactors):
            one.running.end()
        shipped = [one for result in results for one in result.windows]
        proof = prove(store, shipped, made)
    mishaps = Counter(mishap.name.lower() for mishap, _ in proxy.happened)
    return Outcome(results, proof, services, metrics, watched, seconds, restarts, queries, expired, mishaps)


@contextmanager
def sidecar_process(folder: Path, at: int, task: Task) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of sidecars, which writes its result to the folder; it is gone afterwards."""
    given = folder / f"task-{at}"
    given.write_bytes(pickle.dumps(task))
    command = [sys.executable, "-c", SIDECARS, str(given), str(folder / f"result-{at}")]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _watch(
    plan: Plan,
    sidecars: Sequence[subprocess.Popen[bytes]],
    watched: dict[str, Watched],
    server: S3Server,
    faults: Sequence[tuple[float, Callable[[], None]]],
) -> float:
    """Measure once a second until all sidecars have ended; return how long they took.

    Calls each of `faults` after its seconds.
    """
    due = list(faults)
    begin = time.monotonic()
    limit = plan.seconds + 2 * plan.drain + 60
    outage = (plan.seconds / 2, plan.seconds / 2 + plan.outage)
    still = False
    try:
        while any(one.poll() is None for one in sidecars):
            passed = time.monotonic() - begin
            if passed > limit:
                raise SystemExit(f"the sidecars did not end within {limit:g} s")
            if due and passed >= due[0][0]:
                due.pop(0)[1]()
            if still != (outage[0] <= passed < outage[1]):
                still = not still
                server.running.process.send_signal(signal.SIGSTOP if still else signal.SIGCONT)
            with suppress(psutil.NoSuchProcess):
                for one in watched.values():
                    one.look()
            time.sleep(LOOK_SECONDS)
    finally:
        server.running.process.send_signal(signal.SIGCONT)
    for process in sidecars:
        if process.wait():
            raise SystemExit(f"a process of sidecars ended with {process.returncode}")
    return time.monotonic() - begin


def read_metrics(url: str) -> Counter[str]:
    """Read every metric without the labels of histograms."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        lines = [line.rpartition(" ") for line in answer.read().decode().splitlines() if line[0] != "#"]
    return Counter(
        {name: float(value) for name, _, value in lines if "_bucket" not in name and "_created" not in name}
    )


def swarm_store(server: S3Server) -> S3Store:
    """Open the bucket that the swarm fills."""
    os.environ.update(server.environment)
    return S3Store(BUCKET, PREFIX, endpoint=server.endpoint)


def report(plan: Plan, outcome: Outcome) -> None:
    """Print the results."""
    shipped, proof, watched = outcome.shipped, outcome.proof, outcome.watched
    took = sorted(second for result in outcome.results for second in result.took)
    waits = sorted(one.acknowledged - one.ready for one in shipped if one.acknowledged is not None)
    answers = sum((result.answers for result in outcome.results), Counter[str]())
    print(f"{len(shipped)} windows in {outcome.seconds:.0f} s, {len(shipped) / plan.seconds:.0f} a second")
    print(f"answers: {', '.join(f'{many} {what}' for what, many in answers.most_common())}")
    print(f"from a request to its answer: {_quantiles(took)}")
    print(f"from a window's end to its acknowledgement, lost answers and all: {_quantiles(waits)}")
    print(f"the same p99 in each tenth of the time: {_tenths(plan, shipped)} s")
    for restart in outcome.restarts:
        print(_format_peak(restart, outcome.results))
    print(f"sidecars were late by {max(result.late for result in outcome.results) * 1000:.0f} ms at most")
    for what, one in watched.items():
        cost = one.used * 1000 / max(len(shipped), 1)
        share = one.used / outcome.seconds
        growth, error = one.slope()
        print(
            f"{what:11} {cost:6.2f} CPU ms a window, {share:5.1%} of a core; MB of memory {one.sizes()}; "
            f"in the second half {growth:+.1f} ± {2 * error:.1f} an hour"
        )
    outcome.queries.report()
    if outcome.expired:
        print(f"{outcome.expired} expired windows were written meanwhile, and retention deleted all of them")
    if outcome.mishaps:
        print(f"S3 requests that failed: {dict(outcome.mishaps)}")
    for name in REPORTED:
        print(f"{name} {sum(value for key, value in outcome.metrics.items() if key.startswith(name)):g}")
    refused = {key: value for key, value in outcome.metrics.items() if "refusals" in key and value}
    print(f"refusals: {refused or 'none'}")
    print(
        f"{proof.bytes / max(proof.stored, 1):.0f} bytes a window in {proof.objects} segments and blocks; "
        f"{proof.repeated} windows lie in two"
    )
    print(
        f"{proof.acknowledged} acknowledged, {proof.stored} stored, {proof.unanswered} of them unanswered; "
        f"{len(shipped) - proof.acknowledged} not acknowledged in the end"
    )
    for wrong in proof.wrong[:20]:
        print(f"WRONG: {wrong}")
    print(
        "no: " + str(len(proof.wrong)) if proof.wrong else "every acknowledged window is stored exactly once"
    )


def _tenths(plan: Plan, shipped: Sequence[Shipped]) -> str:
    """Compute the p99 of the windows that were ready in each tenth of the time."""
    begin = min(one.ready for one in shipped)
    parts: list[list[float]] = [[] for _ in range(10)]
    for one in shipped:
        if one.acknowledged is not None:
            at = min(int(10 * (one.ready - begin) / plan.seconds), 9)
            parts[at].append(one.acknowledged - one.ready)
    return " ".join(f"{sorted(part)[int(0.99 * (len(part) - 1))]:.1f}" if part else "-" for part in parts)


def _format_peak(restart: Restart, results: Sequence[Result]) -> str:
    """Format the most requests in a tenth of a second and in a second, from the collectors' death on."""
    times = [at - restart.died for result in results for at in result.attempts]
    end = restart.served - restart.died + 30

    def peak(length: float, first: float) -> int:
        return max(Counter(int(at / length) for at in times if first <= at < end).values(), default=0)

    served = restart.served - restart.died
    return (
        f"the collectors were gone for {served:.1f} s; most requests in 0.1 s and 1 s: {peak(0.1, 0)} and "
        f"{peak(1, 0)} from then on, {peak(0.1, served)} and {peak(1, served)} once they served again"
    )


def _quantiles(seconds: Sequence[float]) -> str:
    if not seconds:
        return "none"
    p50, p99 = (seconds[int(part * (len(seconds) - 1))] for part in (0.5, 0.99))
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, most {seconds[-1]:.2f} s"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for each in fields(Plan):
        kind = {"int": int, "float": float, "str": str}[str(each.type)]
        arguments.add_argument(f"--{each.name}", type=kind, default=each.default)
    plan = Plan(**vars(arguments.parse_args()))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="sidelight-swarm-") as folder:
            outcome = run(plan, Path(folder))
    except KeyboardInterrupt:
        sys.exit(130)
    report(plan, outcome)
    sys.exit(1 if outcome.proof.wrong else 0)


if __name__ == "__main__":
    main()
