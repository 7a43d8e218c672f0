"""One comparison judged: the numbers of a verdict, from sides that were cut into cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
)
from sidelight_collector.comparison.blocking_summary import looped
from sidelight_collector.comparison.blocking_summary import told as told_loop
from sidelight_collector.comparison.cost_tables import Functions, Rows, Table, functions, nodes
from sidelight_collector.comparison.matrix import (
    Cuts,
)
from sidelight_collector.comparison.model import (
    Effect,
    EffectColumns,
    Method,
    RoleIdle,
    ToldCondition,
    ToldDepth,
    ToldExplanation,
    ToldLoop,
    Verdict,
    bare,
    checked,
    columns,
    deep,
    effect,
    finite,
)
from sidelight_collector.comparison.rename_matching import merged, relabelled, with_old_names
from sidelight_collector.comparison.request import THREADS, Wanted, scaled, taken, waited
from sidelight_collector.query.call_tree import Drawn, Flags, Pooled
from sidelight_collector.query.select.matchers import fullmatches
from sidelight_collector.statistics.attribution import explain, own_time
from sidelight_collector.statistics.comparability import Check, Terms, checks, refusals
from sidelight_collector.statistics.depths import Depths, depths
from sidelight_collector.statistics.event_loop import mentioned
from sidelight_collector.statistics.inference.bootstrap import FEWEST_PODS, ROUNDS
from sidelight_collector.statistics.inference.cluster_variance import (
    ALONE,
    Effects,
    agreement,
    effects,
    judged,
)
from sidelight_collector.statistics.inference.design import Design, Load, Side, design, spent
from sidelight_collector.statistics.inference.fdr import benjamini_hochberg, tree_rejections
from sidelight_collector.statistics.inference.power import More, more
from sidelight_collector.statistics.inference.shrinkage import Usual
from sidelight_collector.statistics.renames import Rename
from sidelight_collector.statistics.summary_text import POD_SECOND, REQUEST, Lack, Said, sentence
from sidelight_model.change import Direction
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape
from sidelight_model.gates import DEPTHS, FUNCTIONS, Condition, judge

MINUTE_SECONDS: Final = 60
FEWEST_ROWS: Final = 2
CHANGED: Final = frozenset((Direction.MORE, Direction.LESS, Direction.NEW, Direction.GONE))


class Judgement:
    """One comparison while it is judged: `tree` was drawn from `pooled`, `stacks` have no lines.

    `all_stacks`: these are looked at, so that the kernel's clock tells what they took of the CPU. `other` has
    both sides' rows of another type, `waiting` the tree of all samples with their rows, `renames` which
    functions are one under two names; `requests` are those of each cell of both sides, where rates are per
    request.
    """

    def __init__(
        self,
        cuts: Cuts,
        tree: Drawn,
        pooled: Pooled,
        stacks: Pooled,
        kind: ProfileType,
        wanted: Wanted,
        other: Callable[[ProfileType], Sequence[Rows]],
        waiting: Callable[[], tuple[Drawn, Sequence[Rows]]],
        renames: Callable[[Functions], Sequence[Rename]],
        *,
        all_stacks: bool,
        lines: bool,
        requests: tuple[F64, F64] | None = None,
    ) -> None:
        self._cuts, self._tree, self._kind, self._wanted = (cuts.a, cuts.b), tree, kind, wanted
        self._paired, self._same_pods = cuts.paired, cuts.same_pods
        of_a, of_b = requests or (None, None)
        self._per_request = requests is not None
        self._taken = taken(cuts.a, of_a), taken(cuts.b, of_b)
        self._other, self._waiting, self._stacks = other, waiting, stacks
        self._terms = Terms(
            kind,
            cuts.paired,
            all(own.told for own in self._cuts),
            lines,
            self._per_request,
            wanted.least_coverage,
            wanted.trouble,
            wanted.assume_equal_load,
        )
        self._checks = checks(*self._taken, self._terms)
        self._refused = refusals(self._checks)
        a, b = self._of_stacks = self._rows(stacks)
        self._samples = float(a.samples.sum()), float(b.samples.sum())
        watched = scaled(cuts.a, of_a), scaled(cuts.b, of_b)
        self._design = self._designed(watched, (a.seconds(), b.seconds()))
        self._sampled = self._one(self._design, (a.seconds(), b.seconds()), self._samples)
        self._clocked = all_stacks and all(own.clocked for own in self._cuts)
        self._clock_sides = scaled(cuts.a, of_a, clock=True), scaled(cuts.b, of_b, clock=True)
        by_clock = self._measured(kind) == "clock"
        self._rate = self._unless_refused(self._by_clock()) if by_clock else self._sampled
        found = functions(stacks, a, b, wanted.most_tested)
        self.renamed = renames(found)
        self._functions, self._was = merged(found, self.renamed)
        self._tree = tree = relabelled(tree, self.renamed)
        if pooled is not stacks:
            a, b = self._rows(pooled)
        self._nodes = nodes(tree, a, b, wanted.most_tested)
        self._own, self._total = (self._family(of) for of in (self._functions.own, self._functions.total))
        self._outside = self._changed_nodes()

    def verdict(self) -> Verdict:
        """The whole of it."""
        of, own, total = self._functions, self._own, self._total
        order = _ranked(own, total)[: self._wanted.limit]
        frames = [Frame.parse(unescape(of.names[at])) for at in order.tolist()]
        lack, idle, depths_ = self._lack(), self._idle(None), self._depths()
        depth = deep(depths_, self._unless_refused) if depths_ else None
        return {
            "summary": self._sentence(lack),
            "direction": self._rate.direction[0].value,
            "rate": effect(self._rate),
            "sampling_only": effect(self._sampled),
            "idle": idle,
            "depth": depth,
            "loop": self._loop() if idle else None,
            "thread_kinds": self._roles(),
            "checks": checked(self._checks),
            "explanation": self._explanation(own),
            "functions": {
                "function": [frame.function for frame in frames],
                "file": [frame.file for frame in frames],
                "renamed_from": [_before(self._was[at], of.names[at]) for at in order.tolist()],
                "self": own.told(order),
                "total": total.told(order),
            },
            "functions_total": of.in_all,
            "method": self._method(),
            "required": None if lack is None else {"minutes": lack.minutes, "pods": lack.pods},
            "conditions": self._conditions(idle, depth),
        }

    def changed(self) -> list[int]:
        """For each node of the tree whether it is outside noise."""
        changed = np.zeros(len(self._tree.level), np.int64)
        changed[self._nodes.at[self._outside]] = 1
        told: list[int] = changed.tolist()
        return told

    def _changed_nodes(self) -> Flags:
        """Which nodes are outside noise. Those that are not by counting alone need no closer look."""
        of, level = self._nodes, self._design.alpha
        p = np.ones(len(of.at))
        if self._refused or self._blind or self._design.a.whole <= 0 or self._design.b.whole <= 0:
            return np.zeros(len(p), bool)
        near = np.flatnonzero(_beyond_counting(of.total, self._design))
        if len(near):
            table = of.total.take(near)
            sides = table.a, table.b, table.samples_a, table.samples_b
            p[near] = effects(self._design, *sides, family=True, usual=self._total.found.usual).p
        return tree_rejections(of.level, p, level)

    def _explanation(self, own: _Family) -> ToldExplanation:
        """What accounts for the change: the fewest call paths, and functions by their own time."""
        of, sampled = self._nodes, self._sampled
        a, b = (whole if whole > 0 else 1.0 for whole in (self._design.a.whole, self._design.b.whole))
        delta = of.total.b.sum((1, 2)) / b - of.total.a.sum((1, 2)) / a
        names = list(map(unescape, self._tree.names))
        # The whole may be known by the clock, what explains it is known by samples.
        agreed = sampled.delta[0] * self._rate.delta[0] > 0
        changed = bool(agreed) and self._rate.direction[0] in CHANGED
        found = explain(names, of.level, of.name, delta, self._outside, changed=changed)
        owned = own_time(own.found.delta, own.changed, float(sampled.delta[0]) if changed else 0.0)
        frames = [Frame.parse(unescape(self._functions.names[one.at])) for one in owned]
        return {
            "share": found.share,
            "paths": [
                {"names": list(path.names), "delta": path.delta, "share": path.share} for path in found.paths
            ],
            "functions": [
                {"function": frame.function, "file": frame.file, "delta": one.delta, "share": one.share}
                for frame, one in zip(frames, owned, strict=True)
            ],
        }

    def _depths(self) -> Depths | None:
        """Samples by how deep their stacks are, compared."""
        depth, of = np.unique(self._stacks.canvas.depths(), return_inverse=True)
        a, b = (rows.table(of.astype(np.int64), len(depth)) for rows in self._of_stacks)
        seen = (a.sum((1, 2)) > 0) | (b.sum((1, 2)) > 0)
        return depths(self._design, depth[seen].astype(np.int64), a[seen], b[seen])

    def _conditions(self, idle: Effect | None, depth: ToldDepth | None) -> list[ToldCondition]:
        told: list[ToldCondition] = []
        for condition in self._wanted.conditions:
            found = self._about(condition, idle, depth)
            state, said_ = judge(condition, found, whole=float(self._sampled.baseline[0]))
            told.append(
                {"condition": condition.text, "state": state.value, "summary": said_, "effect": found}
            )
        return told

    def _about(self, condition: Condition, idle: Effect | None, depth: ToldDepth | None) -> Effect | None:
        """The effect that a condition is about; None where there is nothing of the kind."""
        subject = condition.subject
        if subject in FUNCTIONS:
            return self._of_functions(condition)
        if subject == "idle":
            return idle
        if subject == "depth.max":
            direction = Direction.INCOMPARABLE if self._refused else Direction.UNCLEAR
            return bare(depth["max"][0], depth["max"][1], direction) if depth else None
        if subject in DEPTHS:
            of = cast("Mapping[str, Effect]", depth or {})
            return of.get(subject.removeprefix("depth."))
        if subject in ("rate", self._kind.value):
            return effect(self._rate)
        return self._of_type(ProfileType(subject))

    def _of_type(self, kind: ProfileType) -> Effect:
        """The whole rate of another type than that asked for, comparable or not by its own states."""
        rows = self._other(kind)
        (a, samples_a), (b, samples_b) = ((own.seconds(), float(own.samples.sum())) for own in rows)
        of = self._designed((self._design.a, self._design.b), (a, b))
        refused = refusals(checks(*self._taken, replace(self._terms, kind=kind)))
        by_clock = self._measured(kind) == "clock"
        found = self._by_clock() if by_clock else self._raw(of, (a, b), (samples_a, samples_b))
        return effect(_told(found, refused))

    def _measured(self, kind: ProfileType) -> str:
        """What the whole of a type is taken from."""
        return "clock" if self._clocked and kind is ProfileType.CPU else "samples"

    def _by_clock(self) -> Effects:
        """The CPU time of all threads as the kernel counts it, which no sampling blurs."""
        cells = self._cuts[0].clock, self._cuts[1].clock
        of = self._designed(self._clock_sides, cells)
        return self._raw(of, cells, (math.inf, math.inf))

    def _of_functions(self, condition: Condition) -> Effect | None:
        """The time of stacks that have (or end with) any function of a condition, each stack once."""
        canvas = self._stacks.canvas
        frames = [Frame.parse(unescape(word)) for word in canvas.words()]
        function, file = condition.patterns
        wanted = np.array(fullmatches(function, [frame.function for frame in frames]), bool)
        if file:
            wanted &= np.array(fullmatches(file, [frame.file for frame in frames]), bool)
        wanted = with_old_names(wanted, canvas.words(), self.renamed)
        any_of, last = canvas.holding(wanted)
        held, of = (any_of, self._total) if condition.subject == "function" else (last, self._own)
        a, b = self._of_stacks
        counted = a.counted(held), b.counted(held)
        if not any(counted):
            return self._nowhere()
        cells = a.seconds(held), b.seconds(held)
        found = self._raw(self._design, cells, counted, family=True, usual=of.found.usual)
        return effect(self._unless_refused(found))

    def _nowhere(self) -> Effect | None:
        """The effect of what no stack has: none, but of sides that say nothing nothing follows."""
        if self._refused:
            return bare(0.0, 0.0, Direction.INCOMPARABLE)
        watched = all(taken.pod_seconds > 0 for taken in self._taken)
        return None if watched else bare(0.0, 0.0, Direction.UNKNOWN)

    def _rows(self, pooled: Pooled) -> tuple[Rows, Rows]:
        a, b = (Rows.of(side, own) for side, own in zip(pooled.sides[:2], self._cuts, strict=True))
        return a, b

    def _designed(self, watched: tuple[Side, Side], cells: tuple[F64, F64]) -> Design:
        wanted = self._wanted
        return design(
            *watched,
            *cells,
            same_time=bool(self._paired),
            other_days=self._paired == "hours",
            same_pods=self._same_pods,
            alpha=wanted.alpha,
            look=wanted.look,
            detect=wanted.detect,
            load=Load.ASSUMED_EQUAL if wanted.assume_equal_load else Load.UNKNOWN,
        )

    def _one(self, of: Design, cells: tuple[F64, F64], samples: tuple[float, float]) -> Effects:
        """The effect of one quantity."""
        return self._unless_refused(self._raw(of, cells, samples))

    def _raw(
        self,
        of: Design,
        cells: tuple[F64, F64],
        samples: tuple[float, float],
        *,
        family: bool = False,
        usual: Usual = ALONE,
    ) -> Effects:
        a, b = (own[None] for own in cells)
        return effects(of, a, b, *(np.array([count]) for count in samples), family=family, usual=usual)

    def _unless_refused(self, found: Effects) -> Effects:
        if not self._refused and self._blind and self._design.a.whole > 0 and self._design.b.whole > 0:
            return replace(found, direction=(Direction.UNCLEAR,) * len(found.direction))
        return _told(found, self._refused)

    @property
    def _blind(self) -> bool:
        """Whether nothing tells how far a side varies: it has one pod, in one block of time."""
        return not self._design.frequencies and min(self._design.a.rows, self._design.b.rows) < FEWEST_ROWS

    def _family(self, table: Table) -> _Family:
        """Effects of many, of which only those count as changed that are no false discoveries."""
        sides = table.a, table.b, table.samples_a, table.samples_b
        found = effects(self._design, *sides, akin=True)
        q = benjamini_hochberg(found.p)
        found = self._unless_refused(judged(found, self._design, q <= self._design.alpha))
        agree, rows = agreement(found, self._design, table.b)
        return _Family(found, q, agree, rows)

    def _idle(self, thread: str | None) -> Effect | None:
        """The idle share of wall time, of all threads or one kind; None where it is not known of a side."""
        (idle_a, time_a, samples_a), (idle_b, time_b, samples_b) = (waited(own, thread) for own in self._cuts)
        if time_a.whole <= 0 or time_b.whole <= 0:
            return None
        of = self._designed((time_a, time_b), (idle_a, idle_b))
        return effect(self._one(of, (idle_a, idle_b), (samples_a, samples_b)))

    def _roles(self) -> list[RoleIdle]:
        found = ((thread, self._idle(thread)) for thread in THREADS)
        return [{"thread": thread, "idle": idle} for thread, idle in found if idle is not None]

    def _loop(self) -> ToldLoop | None:
        """Who holds the event loop, if there is one: what waits is among it, whatever type was asked for."""
        if not mentioned(self._stacks.canvas.words()):
            return None
        tree, rows = self._waiting()
        found = looped(self._design, relabelled(tree, self.renamed), rows)
        return told_loop(found, self._unless_refused) if found else None

    def _lack(self) -> More | None:
        """What is lacking; minutes are those beyond what was watched."""
        found = None if self._refused else more(self._rate, self._design)
        if found is None or found.minutes is None:
            return found
        watched = max(own.side.watched.shape[1] * own.side.seconds for own in self._cuts) / MINUTE_SECONDS
        return replace(found, minutes=max(found.minutes - watched, 0.0))

    def _sentence(self, lack: More | None) -> str:
        rate, wanted = self._rate, self._wanted
        words = Said(
            float(rate.baseline[0]),
            float(rate.comparison[0]),
            float(rate.relative[0]),
            float(rate.relative_low[0]),
            float(rate.relative_high[0]),
            float(rate.min_detectable_effect[0]),
            rate.direction[0],
            round(sum(self._samples)),
            1 - self._design.alpha,
            REQUEST if self._per_request else POD_SECOND,
            load_known=self._design.load is not Load.UNKNOWN,
        )
        unwatched = [name for name, taken in zip("AB", self._taken, strict=True) if taken.pod_seconds <= 0]
        refused = "; ".join(check.text.rstrip(".") for check in self._refused)
        lacking = None if lack is None else Lack(wanted.detect, **asdict(lack))
        return sentence(words, self._kind, unwatched=unwatched, refused=refused, lack=lacking)

    def _method(self) -> Method:
        of, sampled = self._design, self._sampled
        sides = (of.a, of.b)
        counting = ((sampled.variance_a, sampled.counting_a), (sampled.variance_b, sampled.counting_b))
        return {
            "alpha": self._wanted.alpha,
            "analysis_index": self._wanted.look,
            "alpha_spent": spent(self._wanted.alpha, self._wanted.look),
            "min_effect": self._wanted.detect,
            "fdr": of.alpha,
            "unit": REQUEST if self._per_request else POD_SECOND,
            "pods": [own.pods for own in self._cuts],
            "pod_groups": [side.rows for side in sides],
            "time_blocks": [side.blocks for side in sides],
            "frequencies": of.frequencies,
            "paired": self._paired,
            "same_pods": self._same_pods,
            "bootstrap": "pods" if min(side.rows for side in sides) >= FEWEST_PODS else "blocks",
            "bootstrap_rounds": ROUNDS,
            "over_dispersion": [
                finite(float(variance[0] / counted[0])) if counted[0] > 0 else None
                for variance, counted in counting
            ],
            "rate_source": self._measured(self._kind),
            "load": of.load.value,
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
        return np.array([direction in CHANGED for direction in self.found.direction], bool)

    def told(self, at: I64) -> EffectColumns:
        return columns(self.found, self.q, self.agree, self.rows, at)


def _told(found: Effects, refused: Sequence[Check]) -> Effects:
    if not refused:
        return found
    return replace(found, direction=(Direction.INCOMPARABLE,) * len(found.direction))


def _beyond_counting(table: Table, of: Design) -> Flags:
    """What differs by more than counting alone allows: the rest cannot be outside noise."""
    rates = [cells.sum((1, 2)) / side.whole for cells, side in ((table.a, of.a), (table.b, of.b))]
    counts = (table.samples_a, table.samples_b)
    variance = sum(rate**2 / np.maximum(count, 1) for rate, count in zip(rates, counts, strict=True))
    differs: Flags = np.abs(rates[1] - rates[0]) > NormalDist().inv_cdf(1 - of.alpha / 2) * np.sqrt(variance)
    return differs


def _before(old: str | None, new: str) -> str | None:
    """What a function was called: with its file where that is another."""
    if old is None:
        return None
    was, now = Frame.parse(unescape(old)), Frame.parse(unescape(new))
    return was.function if was.file == now.file else was.text


def _ranked(own: _Family, total: _Family) -> I64:
    """Functions that changed first, then by how much all their stacks did."""
    changed = own.changed | total.changed
    return np.lexsort((-np.abs(own.found.delta), -np.abs(total.found.delta), ~changed))
