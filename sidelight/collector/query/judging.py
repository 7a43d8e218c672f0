"""One comparison judged: the numbers of a verdict, from sides that were cut into cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight.collector.columns import Column, is_word, one
from sidelight.collector.query.cells import F64, I64, Cut, Cuts, floats, whole
from sidelight.collector.query.drawing import Drawn, Flags, Pooled
from sidelight.collector.query.quality import added, flattened, said, seconds, share
from sidelight.collector.query.spreading import Rows, Table, functions, nodes
from sidelight.collector.query.told import (
    Effect,
    EffectColumns,
    Method,
    RoleIdle,
    ToldMore,
    Verdict,
    checked,
    columns,
    effect,
    finite,
)
from sidelight.collector.query.watched import processes
from sidelight.collector.store.tables import STATES
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.changes import Direction
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.frames import Frame, unescape
from sidelight.verdicts.bootstrap import FEWEST_PODS, ROUNDS
from sidelight.verdicts.cells import Design, Side, design, spent
from sidelight.verdicts.checks import LEAST_COVERAGE, Taken, Terms, checks, refusals
from sidelight.verdicts.discovery import benjamini_hochberg, tree_rejections
from sidelight.verdicts.spread import Effects, agreement, effects, judged, more
from sidelight.verdicts.words import POD_SECOND, REQUEST, Lack, Said, sentence

THREADS: Final = ("main", "other")
MINUTE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a verdict.

    detect: the relative change one wants to be able to see; look: the how manieth time these sides are looked
    at; alpha: how often a change may be found where there is none. limit: most functions that are listed.
    requests: of each side, where rates are per request; trouble: why they are not. least_coverage: below it
    is warned. most_rows: of samples that are read one by one; most_tested: most functions, and most nodes,
    that are tested.
    """

    detect: float = 0.05
    look: int = 1
    alpha: float = 0.05
    limit: int = 200
    requests: tuple[float, float] | None = None
    trouble: str = ""
    least_coverage: float = LEAST_COVERAGE
    most_rows: int = 5_000_000
    most_tested: int = 10_000


class Judgement:
    """One comparison while it is judged: `tree` was drawn from `pooled`, `stacks` have no lines."""

    def __init__(
        self,
        cuts: Cuts,
        tree: Drawn,
        pooled: Pooled,
        stacks: Pooled,
        kind: ProfileType,
        wanted: Wanted,
        *,
        lines: bool,
    ) -> None:
        self._cuts, self._tree, self._kind, self._wanted = (cuts.a, cuts.b), tree, kind, wanted
        self._paired, self._same_pods = cuts.paired, cuts.same_pods
        self._taken = _taken(cuts.a, 0, wanted), _taken(cuts.b, 1, wanted)
        terms = Terms(
            kind,
            cuts.paired,
            all(own.told for own in self._cuts),
            lines,
            wanted.requests is not None,
            wanted.least_coverage,
            wanted.trouble,
        )
        self._checks = checks(*self._taken, terms)
        self._refused = refusals(self._checks)
        a, b = self._rows(stacks)
        self._samples = float(a.samples.sum()), float(b.samples.sum())
        watched = _scaled(cuts.a.side, 0, wanted), _scaled(cuts.b.side, 1, wanted)
        self._design = self._designed(watched, (a.seconds(), b.seconds()))
        self._rate = self._one(self._design, (a.seconds(), b.seconds()), self._samples)
        self._functions = functions(stacks, a, b, wanted.most_tested)
        if pooled is not stacks:
            a, b = self._rows(pooled)
        self._nodes = nodes(tree, a, b, wanted.most_tested)

    def verdict(self) -> Verdict:
        """The whole of it."""
        of = self._functions
        own, total = (self._family(table) for table in (of.own, of.total))
        order = _ranked(own, total)[: self._wanted.limit]
        frames = [Frame.parse(unescape(of.names[at])) for at in order.tolist()]
        lack = self._lack()
        return {
            "sentence": self._sentence(lack),
            "direction": self._rate.direction[0].value,
            "rate": effect(self._rate),
            "idle": self._idle(None),
            "roles": self._roles(),
            "checks": checked(self._checks),
            "functions": {
                "function": [frame.function for frame in frames],
                "file": [frame.file for frame in frames],
                "renamed_from": [None] * len(frames),
                "self": own.told(order),
                "total": total.told(order),
            },
            "functions_in_all": of.in_all,
            "method": self._method(),
            "more": lack,
        }

    def changed(self) -> list[int]:
        """For each node of the tree whether it is outside noise."""
        changed = np.zeros(len(self._tree.level), np.int64)
        of = self._nodes
        if len(of.at) and not self._refused:
            found = effects(self._design, of.total.a, of.total.b, of.total.samples_a, of.total.samples_b)
            changed[of.at[tree_rejections(of.level, found.p, self._design.alpha)]] = 1
        told: list[int] = changed.tolist()
        return told

    def _rows(self, pooled: Pooled) -> tuple[Rows, Rows]:
        a, b = (Rows.of(side, own) for side, own in zip(pooled.sides[:2], self._cuts, strict=True))
        return a, b

    def _designed(self, watched: tuple[Side, Side], cells: tuple[F64, F64]) -> Design:
        wanted = self._wanted
        return design(
            *watched,
            *cells,
            same_time=bool(self._paired),
            same_pods=self._same_pods,
            alpha=wanted.alpha,
            look=wanted.look,
            detect=wanted.detect,
        )

    def _one(self, of: Design, cells: tuple[F64, F64], samples: tuple[float, float]) -> Effects:
        """The effect of one quantity."""
        a, b = (own[None] for own in cells)
        return self._unless_refused(effects(of, a, b, *(np.array([count]) for count in samples)))

    def _unless_refused(self, found: Effects) -> Effects:
        if not self._refused:
            return found
        return replace(found, direction=(Direction.INCOMPARABLE,) * len(found.direction))

    def _family(self, table: Table) -> _Family:
        """Effects of many, of which only those count as changed that are no false discoveries."""
        found = effects(self._design, table.a, table.b, table.samples_a, table.samples_b)
        q = benjamini_hochberg(found.p)
        found = self._unless_refused(judged(found, self._design, q <= self._design.alpha))
        agree, rows = agreement(found, self._design, table.b)
        return _Family(found, q, agree, rows)

    def _idle(self, thread: str | None) -> Effect | None:
        """The idle share of wall time, of all threads or one kind; None where it is not known of a side."""
        (idle_a, time_a, samples_a), (idle_b, time_b, samples_b) = (_idle(own, thread) for own in self._cuts)
        if time_a.whole <= 0 or time_b.whole <= 0:
            return None
        of = self._designed((time_a, time_b), (idle_a, idle_b))
        return effect(self._one(of, (idle_a, idle_b), (samples_a, samples_b)))

    def _roles(self) -> list[RoleIdle]:
        found = ((thread, self._idle(thread)) for thread in THREADS)
        return [{"thread": thread, "idle": idle} for thread, idle in found if idle is not None]

    def _lack(self) -> ToldMore | None:
        found = None if self._refused else more(self._rate, self._design)
        if found is None:
            return None
        watched = max(own.side.watched.shape[1] * own.side.seconds for own in self._cuts) / MINUTE_SECONDS
        minutes = None if found.minutes is None else max(found.minutes - watched, 0.0)
        return {"minutes": minutes, "pods": found.pods}

    def _sentence(self, lack: ToldMore | None) -> str:
        rate, wanted = self._rate, self._wanted
        words = Said(
            float(rate.a[0]),
            float(rate.b[0]),
            float(rate.relative[0]),
            float(rate.relative_low[0]),
            float(rate.relative_high[0]),
            float(rate.detectable[0]),
            rate.direction[0],
            round(sum(self._samples)),
            1 - self._design.alpha,
            POD_SECOND if wanted.requests is None else REQUEST,
        )
        unwatched = [name for name, taken in zip("AB", self._taken, strict=True) if taken.pod_seconds <= 0]
        refused = "; ".join(check.text for check in self._refused)
        lacking = None if lack is None else Lack(wanted.detect, lack["minutes"], lack["pods"])
        return sentence(words, self._kind, unwatched=unwatched, refused=refused, lack=lacking)

    def _method(self) -> Method:
        of, rate = self._design, self._rate
        sides = (of.a, of.b)
        counting = ((rate.variance_a, rate.counting_a), (rate.variance_b, rate.counting_b))
        return {
            "alpha": self._wanted.alpha,
            "look": self._wanted.look,
            "level": spent(self._wanted.alpha, self._wanted.look),
            "detect": self._wanted.detect,
            "fdr": of.alpha,
            "unit": POD_SECOND if self._wanted.requests is None else REQUEST,
            "pods": [own.pods for own in self._cuts],
            "rows": [side.rows for side in sides],
            "blocks": [side.blocks for side in sides],
            "frequencies": of.frequencies,
            "paired": self._paired,
            "same_pods": self._same_pods,
            "bootstrap": "pods" if min(side.rows for side in sides) >= FEWEST_PODS else "blocks",
            "rounds": ROUNDS,
            "over_dispersion": [
                finite(float(variance[0] / counted[0])) if counted[0] > 0 else None
                for variance, counted in counting
            ],
        }


@dataclass(frozen=True, slots=True)
class _Family:
    """Effects of many things with their q, and how many rows of B agree."""

    found: Effects
    q: F64
    agree: NDArray[np.int64]
    rows: int

    @property
    def changed(self) -> Flags:
        outside = {Direction.MORE, Direction.LESS, Direction.NEW, Direction.GONE}
        return np.array([direction in outside for direction in self.found.direction], bool)

    def told(self, at: I64) -> EffectColumns:
        return columns(self.found, self.q, self.agree, self.rows, at)


def _ranked(own: _Family, total: _Family) -> I64:
    """Functions that changed first, then by how much all their stacks did."""
    changed = own.changed | total.changed
    return np.lexsort((-np.abs(own.found.delta), -np.abs(total.found.delta), ~changed))


def _idle(own: Cut, thread: str | None) -> tuple[F64, Side, float]:
    """Seconds in which threads waited in each cell, all of their time, and the samples of waiting."""
    rows = _telling(own, thread)
    idle, every = own.seconds(("idle",), rows), own.seconds(STATES, rows)
    samples = float(floats(own.windows.table["idle"])[rows].sum())
    return idle, Side(every, own.side.pods, own.side.seconds), samples


def _telling(own: Cut, thread: str | None) -> Flags:
    """Windows whose sampler sees waiting threads, of one kind of thread or of all."""
    table = own.windows.table
    lists = one(table["missing_states"])
    blind = whole(pc.list_parent_indices(lists))[_bools(is_word(pc.list_flatten(lists), "idle"))]
    telling = np.ones(len(table), bool)
    telling[blind] = False
    return telling if thread is None else telling & _bools(is_word(table["thread"], thread))


def _bools(column: Column) -> Flags:
    return np.array(column.to_pylist(), bool)


def _scaled(side: Side, at: int, wanted: Wanted) -> Side:
    """What was watched, in requests where these are given: they come as evenly as time was watched."""
    if wanted.requests is None or side.whole <= 0:
        return side
    return Side(side.watched * (wanted.requests[at] / side.whole), side.pods, side.seconds)


def _taken(own: Cut, at: int, wanted: Wanted) -> Taken:
    """How a side was watched, for the checks."""
    table, watched = own.windows.table, processes(own.windows.watched)
    pod_seconds = own.side.whole
    cpu = seconds(watched["target_cpu_ns"])
    samples = sum(int(whole(table[state]).sum()) for state in STATES)
    truncated = added(table["truncated"])
    return Taken(
        windows=int(whole(table["windows"]).sum()),
        pods=own.pods,
        pod_seconds=pod_seconds,
        modes=said(watched["mode"]),
        periods_us=sorted({period / 1000 for period in whole(watched["period_ns"]).tolist()}),
        samplers=said(watched["sampler"]),
        readers=said(watched["reader"]),
        pythons=said(watched["python"]),
        missing_states=flattened(watched["missing_states"]),
        kinds=said(table["thread"]),
        truncated=truncated / max(samples, truncated, 1),
        coverage=share(added(watched["covered_ns"]), added(watched["ticking_ns"])),
        cpu=cpu / pod_seconds if cpu > 0 and pod_seconds > 0 else None,
        requests=None if wanted.requests is None or not pod_seconds else wanted.requests[at] / pod_seconds,
        first=(pc.min(table["ts"]).as_py() or 0) / SECOND_NS,
        last=(pc.max(table["end_ns"]).as_py() or 0) / SECOND_NS,
    )
