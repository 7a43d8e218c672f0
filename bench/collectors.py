"""Kill and upgrade several collectors and compactors under load, and check the store and the leases.

    python -m bench.collectors [--seconds 600] [--sidecars 400] [--collectors 3] [--compactors 2] …

All of them share a bucket of a real S3 server. Sidecars ship (`bench.swarm`), and a client asks queries. For
`--seconds`, and until each lease has moved, a random collector and a compactor are killed, and started
anew once the living have renewed the leases of discovery and deploys. Then each one is ended by SIGTERM and
started anew, one after the other, as in a rolling upgrade. A request that fails is repeated, a query at the
next collector.

The exit code is 1 if a law is broken: every acknowledged window is stored once with all its samples, every
window is acknowledged in the end and none is refused, no count of windows ever falls, no query fails at all
collectors, each lease moves on, and whoever gets SIGTERM ends with 0.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import yaml

from bench.swarm.__main__ import BUCKET, PREFIX, Plan, bodies, read_metrics, sidecar_process, swarm_store
from bench.swarm.proof import Proof, prove
from bench.swarm.sidecars import Result, Task
from sidelight_collector.deploys.evaluator import LEASE_NAME
from sidelight_collector.kubernetes_discovery.shared_state import WATCHER_KEY
from sidelight_collector.storage.lease import key_of
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore
from sidelight_sidecar.shipping.ingest_response import RequestOutcome
from tests.processes import Collector, Running, collector, eventually, s3_server

LEASES: Final = {"discovery": WATCHER_KEY, "deploys": key_of(LEASE_NAME)}
OPTIONS: Final = (
    "--allow-anonymous-writes --allow-anonymous-reads --flush-seconds 0.5 --compact-interval-seconds 1 "
    "--compact-min-segments 4 --query-timeout-seconds 30 --deletion-delay-seconds 60 "
    "--deploy-check-interval-seconds 0.5"
)
QUERIES: Final = (
    "services?",
    "timeline?query=service%3D%22service-0%22&",
    "depth?query=service%3D%22service-0%22&",
)
FAILURES: Final = (OSError, HTTPException)
RETRIED_STATUSES: Final = (429, 502, 503, 504)
RETRIED_ANSWERS: Final = (RequestOutcome.ACCEPTED, RequestOutcome.BUSY, RequestOutcome.UNREACHABLE)
WAIT_SECONDS: Final = 180.0
ASK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a run; times are in seconds, and `interval` is that of a sidecar's windows."""

    seconds: float = 600.0
    sidecars: int = 400
    interval: float = 10.0
    collectors: int = 3
    compactors: int = 2
    services: int = 10
    lost: float = 0.02
    bodies: int = 64
    pause: float = 5.0
    lease: float = 10.0
    seed: int = 1


class Asker:
    """A client that asks queries until it is ended, and repeats those that fail at the other collectors."""

    def __init__(self, ports: Sequence[int], begin: float) -> None:
        self.asked = self.repeated = self.windows = 0
        self.wrong: list[str] = []
        self._ports, self._begin = ports, begin
        self._turn = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def ask(self, query: str, attempts: int) -> Any:
        """Ask a query; a failure is repeated at the next collector. Raises the last failure."""
        self.asked += 1
        for attempt in range(attempts):
            self._turn += 1
            port = self._ports[self._turn % len(self._ports)]
            url = f"http://127.0.0.1:{port}/api/v1/{query}from={self._begin:.0f}"
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    return json.load(answer)
            except FAILURES as error:
                refused = isinstance(error, urllib.error.HTTPError) and error.code not in RETRIED_STATUSES
                if refused or attempt == attempts - 1:
                    raise
                self.repeated += 1
        raise AssertionError("the last attempt returns or raises")

    def _run(self) -> None:
        while not self._ended.wait(ASK_SECONDS):
            query = QUERIES[self.asked % len(QUERIES)]
            try:
                answer = self.ask(query, len(self._ports))
            except FAILURES as error:
                self.wrong.append(f"{query} failed at every collector: {error}")
                continue
            if query == QUERIES[0]:
                windows = answer["basis"]["windows"]
                if windows < self.windows:
                    self.wrong.append(f"of {self.windows} windows a later query had {windows}")
                self.windows = windows


@dataclass(slots=True)
class Member:
    """A collector or compactor: how it is started, and its process."""

    start: Callable[[], Collector]
    collector: Collector

    @property
    def running(self) -> Running:
        return self.collector.running

    def restart(self) -> None:
        self.collector = self.start()

    def end(self, wrong: list[str]) -> None:
        """End it as Kubernetes does."""
        if code := self.running.end(signal.SIGTERM, WAIT_SECONDS):
            wrong.append(f"{self.running.log} ended with {code}")


@dataclass(slots=True)
class Outcome:
    """The outcome of a run: `answers` to sidecars by phase, `holders` of each lease in turn."""

    proof: Proof
    answers: list[Counter[str]]
    shipped: int
    kills: int
    holders: dict[str, list[str]]
    asked: int
    repeated: int
    wrong: list[str] = field(default_factory=list)


class LeaseWatch:
    """Who held the leases, in turn."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.holders: dict[str, list[str]] = {name: [] for name in LEASES}

    def read(self, name: str) -> tuple[str, int] | None:
        """Return the holder of a lease and its last sign of life."""
        try:
            lease = json.loads(self._store.get(LEASES[name]))
        except ObjectMissing:
            return None
        if self.holders[name][-1:] != [lease["holder"]]:
            self.holders[name].append(lease["holder"])
        return lease["holder"], lease["beat"]

    @property
    def all_moved(self) -> bool:
        """Return whether each lease has had more than one holder."""
        return all(len(set(holders)) > 1 for holders in self.holders.values())

    def wait_renewed(self) -> None:
        """Wait until each lease was renewed from now on."""
        for name in LEASES:
            before = self.read(name)
            eventually(
                f"the lease of {name} is renewed",
                lambda name=name, before=before: self.read(name) not in (None, before),  # type: ignore[misc]
                WAIT_SECONDS,
            )


def run(given: Parameters, folder: Path, say: Callable[[str], None] = print) -> Outcome:
    """Run everything in this folder, and end every started process in any case."""
    luck, begin = random.Random(given.seed), time.time() - 60
    made = bodies(Plan(bodies=given.bodies, seed=given.seed))
    results: list[Result] = []
    wrong: list[str] = []
    kills = 0
    with ExitStack() as stack:
        server = stack.enter_context(s3_server(folder / "s3"))
        store = swarm_store(server)
        location = f"s3://{server.create_bucket(BUCKET)}/{PREFIX}"
        # Leases need no answer of the cluster.
        cluster = _write_kubeconfig(folder / "kubeconfig")

        def start(name: str, *options: str) -> Collector:
            lease = f"--compact-lease-seconds {given.lease} --discovery-lease-seconds {given.lease}"
            words = ["--s3-endpoint", server.endpoint, *OPTIONS.split(), *lease.split(), *options]
            return stack.enter_context(collector(folder / name, location, *words, env=server.environment))

        def member(name: str, *options: str) -> Member:
            first = start(name, *options)
            port = first.url.rpartition(":")[2]
            return Member(lambda: start(name, *options, "--listen", f"127.0.0.1:{port}"), first)

        threads = stack.enter_context(ThreadPoolExecutor(2))
        starting = [
            threads.submit(member, f"collector-{at}", "--role", "serve", "--kubernetes", str(cluster))
            for at in range(given.collectors)
        ]
        starting += [
            threads.submit(member, f"compactor-{at}", "--role", "compactor") for at in range(given.compactors)
        ]
        members = [one.result() for one in starting]
        collectors, compactors = members[: given.collectors], members[given.collectors :]
        ports = [int(one.collector.url.rpartition(":")[2]) for one in collectors]
        leases = LeaseWatch(store)
        leases.wait_renewed()

        def sidecars(phase: int, lost: float, stack: ExitStack) -> Callable[[], None]:
            """Let sidecars ship; the returned function ends that, and waits for all acknowledgements."""
            task = Task(
                ports, made, phase * given.sidecars, given.sidecars, given.services, given.interval,
                given.seconds + 3600, WAIT_SECONDS, lost, given.seed,
            )  # fmt: skip
            process = stack.enter_context(sidecar_process(folder, phase, task))

            def end() -> None:
                process.send_signal(signal.SIGTERM)
                if code := process.wait(2 * WAIT_SECONDS):
                    raise SystemExit(f"a process of sidecars ended with {code}")
                results.append(pickle.loads((folder / f"result-{phase}").read_bytes()))

            known = asker.windows
            eventually("the sidecars ship", lambda: asker.windows > known, WAIT_SECONDS)
            return end

        with Asker(ports, begin) as asker:
            with ExitStack() as phase:
                end = sidecars(0, given.lost, phase)
                until = time.monotonic() + given.seconds
                while time.monotonic() < until or not leases.all_moved:
                    victims = [luck.choice(collectors), compactors[kills // 2 % len(compactors)]]
                    if kills % 4 == 0:  # every other time the one that has the lease
                        victims[0] = next(filter(_is_watching, collectors), victims[0])
                    for one in victims:
                        one.running.end(signal.SIGKILL)
                    leases.wait_renewed()
                    list(threads.map(Member.restart, victims))
                    kills += len(victims)
                    time.sleep(luck.random() * given.pause)
                end()
            say(f"{kills} killed; now one after the other is upgraded")
            with ExitStack() as phase:
                end = sidecars(1, 0.0, phase)
                for one in members:
                    one.end(wrong)
                    one.restart()
                leases.wait_renewed()
                end()
        # A comparison that takes longer than the delay of deletion would miss objects.
        list(threads.map(lambda one: one.end(wrong), compactors))
        say("the store is compared with what was sent")
        shipped = [one for result in results for one in result.windows]
        proof = prove(store, shipped, made)
        for port in ports:
            answer = Asker([port], begin).ask(QUERIES[0], 1)
            told = answer["basis"]["windows"], sum(one["samples"] for one in answer["services"])
            if told != (proof.stored, proof.samples):
                wrong.append(
                    f"a collector reports {told} of {(proof.stored, proof.samples)} windows and samples"
                )
        list(threads.map(lambda one: one.end(wrong), collectors))
    if lost := sum(one.acknowledged is None for one in shipped):
        wrong.append(f"{lost} windows were never acknowledged")
    answers = {what for result in results for what in result.answers}
    wrong += [f"a sidecar got: {what}" for what in answers if what.partition(" ")[0] not in RETRIED_ANSWERS]
    return Outcome(
        proof,
        [result.answers for result in results],
        len(shipped),
        kills,
        leases.holders,
        asker.asked,
        asker.repeated,
        [*proof.wrong, *asker.wrong, *wrong],
    )


def _is_watching(member: Member) -> bool:
    """Return whether a collector has the lease of discovery."""
    return read_metrics(member.collector.url)["sidelight_discovery_watching"] == 1


def _write_kubeconfig(path: Path) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
        "current-context": "none",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def report(outcome: Outcome) -> None:
    """Print the results."""
    proof = outcome.proof
    print(f"{outcome.kills} collectors and compactors killed")
    for phase, answers in zip(("kills", "upgrade"), outcome.answers, strict=True):
        print(f"answers, {phase}: {', '.join(f'{many} {what}' for what, many in answers.most_common())}")
    print(f"{outcome.asked} queries, {outcome.repeated} repeated at another collector")
    for name, holders in outcome.holders.items():
        print(f"the lease of {name} had {len(set(holders))} holders")
    print(
        f"{outcome.shipped} windows shipped, {proof.acknowledged} acknowledged, {proof.stored} stored, "
        f"{proof.repeated} in two of {proof.objects} objects"
    )
    for wrong in outcome.wrong[:20]:
        print(f"WRONG: {wrong}")
    print(f"no: {len(outcome.wrong)}" if outcome.wrong else "nothing lost, nothing double, all leases moved")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for each in fields(Parameters):
        kind = int if each.type == "int" else float
        parser.add_argument(f"--{each.name}", type=kind, default=each.default)
    given = Parameters(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory(prefix="sidelight-collectors-") as folder:
        outcome = run(given, Path(folder))
    report(outcome)
    sys.exit(1 if outcome.wrong else 0)


if __name__ == "__main__":
    main()
