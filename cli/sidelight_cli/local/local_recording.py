"""What has been recorded so far: counts by stack, samples in time, and how well they were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidelight_cli.local.sampling.process_set import Taken
from sidelight_cli.local.sampling.process_tree import called
from sidelight_cli.local.sampling.quality import Ledger, beside
from sidelight_cli.local.timeline_export import Lanes
from sidelight_model.counts import ZERO, Counts
from sidelight_model.folded import Stack
from sidelight_model.frames import OTHER, escape
from sidelight_model.profile import Profile
from sidelight_sidecar.discovery.processes import Key, Proc

MOST_STACKS = 500_000


@dataclass(frozen=True, slots=True)
class Roots:
    """Which frames are put below every stack, so that threads and processes are kept apart."""

    processes: bool = False
    threads: bool = False

    def under(self, proc: Proc, thread: str, stack: str) -> Stack:
        if self.threads:
            stack = f"{escape('thread ' + thread)};{stack}"
        if self.processes:
            stack = f"{escape(process_name(proc))};{stack}"
        return Stack(stack)


def process_name(proc: Proc) -> str:
    """`process 4711 python app.py`."""
    return f"process {proc.pid} {called(proc)}"


class Recording:
    """Adds up what a watch gives; beyond `most_stacks` different stacks, the rest is `(other)`."""

    def __init__(self, rate_hz: float, roots: Roots, *, most_stacks: int = MOST_STACKS) -> None:
        self._period_ns = round(1e9 / rate_hz)
        self._roots = roots
        self._most = most_stacks
        self._counts: dict[Stack, Counts] = {}
        self._ledgers: dict[Key, Ledger] = {}
        self._other = 0
        self.lanes = Lanes()

    @property
    def period_ns(self) -> int:
        return self._period_ns

    @property
    def processes(self) -> int:
        """How many processes gave something."""
        return len(self._ledgers)

    def add(self, taken: Taken) -> None:
        for thread, stack, *states in taken.batch.counts:
            self._count(self._roots.under(taken.proc, thread, stack), Counts(*states))
        before = self._ledgers.get(taken.proc.key, Ledger())
        self._ledgers[taken.proc.key] = before.then(Ledger.of(taken.batch))
        if taken.timeline is not None:
            self.lanes.add(taken.session, process_name(taken.proc), taken.timeline)

    def absorb(self, other: Recording) -> None:
        """Add what another recording counted later (not its samples in time)."""
        for stack, counts in other._counts.items():
            self._count(stack, counts)
        for key, ledger in other._ledgers.items():
            self._ledgers[key] = self._ledgers.get(key, Ledger()).then(ledger)
        self._other += other._other

    @property
    def counts(self) -> Mapping[Stack, Counts]:
        return self._counts

    def profile(self) -> Profile:
        """The counts, and the time they stand for: a sample is a period of one thread."""
        times = {stack: counts.times(self._period_ns) for stack, counts in self._counts.items()}
        return Profile(dict(self._counts), times)

    def ledger(self) -> Ledger:
        """How well all of it was watched."""
        return beside([*self._ledgers.values(), Ledger(other=self._other)])

    def _count(self, stack: Stack, counts: Counts) -> None:
        if stack not in self._counts and len(self._counts) >= self._most and stack != OTHER:
            stack = Stack(OTHER)
            self._other += counts.wall
        self._counts[stack] = self._counts.get(stack, ZERO).plus(counts)
