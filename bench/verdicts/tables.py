"""The promises of comparisons as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts import real, worlds
from bench.verdicts.page import Table, format_share
from bench.verdicts.recordings import names
from bench.verdicts.tally import Tally, Truth, compute_coverage
from bench.verdicts.trials import compare, compare_total
from bench.verdicts.worlds import SINGLE_FUNCTION, Program, World, draw_program
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.statistics.basis import Basis

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

BASES: Final = (Basis.CONCURRENT, Basis.PER_REQUEST, Basis.COMPOSITION)
OPTIONS: Final = ComparisonOptions()
WORLDS: Final[Sequence[tuple[str, World]]] = (
    ("usual", World()),
    ("pods alike, no drift", World(pod_spread=0.0, function_spread=0.0, drift=0.0)),
    ("pods differ by 15 %", World(pod_spread=0.15, function_spread=0.15)),
    ("slow drift by 10 %", World(drift=0.1, drift_blocks=16.0)),
    ("few samples", World(samples=10.0)),
    ("load triples", World(load_ratio=3.0, day=0.4)),
)
PODS: Final = ((3, 3), (10, 10), (10, 1), (2, 2))
PLANTED: Final = ((3, 1.3), (5, 1.6), (5, 3.0))
FUNCTION_SHARE: Final = 0.05
LOAD_NOTE: Final = (
    "Work that does not follow load takes a smaller share, and less per request, when load rises: it is "
    "called changed. The remedy is to compare periods of equal load: both versions at the same time or at "
    "the same hours."
)

Run = Callable[[Sequence[Callable[[], Any]]], Sequence[Any]]
"""Calls functions, perhaps in other processes, and returns their results in order."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A planted change: `count` functions take `factor` times as long.

    With `share`, it is one function of that share of the profile.
    """

    count: int = 0
    factor: float = 1.0
    share: float | None = None


def simulate(world: World, basis: Basis, plan: Plan, trials: int, seed: int = 1) -> Tally:
    """Compare simulated sides.

    Functions above 2 % of the profile may be planted, or one of a share.
    """
    rng, tally = np.random.default_rng(seed), Tally()
    for _ in range(trials):
        program = draw_program(rng)
        if plan.share is not None:
            program, planted = _give_share(program, plan.share)
        else:
            own = program.sum_by_function(program.weight)[0]
            heavy = np.flatnonzero(own > 0.02)
            planted = rng.choice(heavy, min(plan.count, len(heavy)), replace=False)
        factors = np.ones(program.functions)
        factors[planted] = plan.factor
        a, b = worlds.draw_sides(world, program, factors, basis, rng)
        result = compare(a, b, basis, OPTIONS)
        tally.add(result, _compute_truth(program, factors, planted, basis))
    return tally


def record(
    name: str,
    pods: int,
    basis: Basis,
    plan: Plan,
    trials: int,
    *,
    with_waits: bool = False,
    with_loads: bool = False,
) -> Tally:
    """Compare parts of a recording; functions of 1 to 12 % may be planted.

    With loads, one side has the times of least load, the other those of most.
    """
    rng, tally, grid = np.random.default_rng(11), Tally(), real.load_grid(name, with_waits=with_waits)
    own = grid.samples[1 : 1 + len(grid.names)].sum((1, 2))
    share = own / own.sum()
    candidates = np.flatnonzero((share > 0.01) & (share < 0.12))
    for _ in range(trials):
        a, b = (real.draw_loads if with_loads else real.draw_sides)(grid, pods, basis, rng)
        factors, nothing = np.ones(len(grid.names)), np.zeros(len(grid.names))
        planted = rng.choice(candidates, plan.count, replace=False)
        factors[planted] = plan.factor
        if plan.count:
            a, b = real.plant(a, b, planted, factors[planted], rng)
        whole = 1 / float(share @ (1 / factors))
        own_relative = factors / (whole if basis is Basis.COMPOSITION else 1.0) - 1
        truth = Truth(whole - 1, own_relative, factors != 1, planted=planted)
        if not plan.count:
            truth = replace(truth, total_time=nothing, total_changed=nothing > 0)
        tally.add(compare(a, b, basis, OPTIONS), truth)
    return tally


def _give_share(program: Program, share: float) -> tuple[Program, I64]:
    """Give the heaviest function a share of the profile.

    Returns the program and that function.
    """
    own = program.sum_by_function(program.weight)[0]
    heaviest = int(np.argmax(own))
    of_it = program.function == heaviest
    scale = np.where(of_it, share / own[heaviest], (1 - share) / (1 - own[heaviest]))
    return replace(program, weight=program.weight * scale), np.array([heaviest])


def _compute_truth(program: Program, factors: F64, planted: I64, basis: Basis) -> Truth:
    before, after = program.weight, program.weight * factors[program.function]
    whole = float(after.sum())
    unit = whole if basis is Basis.COMPOSITION else 1.0
    (own, total), (own_after, total_after) = (program.sum_by_function(of) for of in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        own_relative, total_relative = own_after / own / unit - 1, total_after / total / unit - 1
    paths = np.abs(program.sum_subtrees(after) - program.sum_subtrees(before)) > 1e-12
    is_planted, total_changed = factors != 1, np.abs(total_after - total) > 1e-12
    return Truth(whole - 1, own_relative, is_planted, total_relative, total_changed, paths, planted)


def tabulate_equal(trials: int, run: Run) -> Table:
    """Compare equal sides (A/A)."""
    cells, jobs = [], []
    for basis in BASES:
        for what, world in WORLDS:
            if world.load_ratio != 1 and basis is Basis.CONCURRENT:
                continue
            for pods in PODS if what == "usual" else PODS[:1]:
                cells.append((basis, what, f"{pods[0]} and {pods[1]}"))
                jobs.append(partial(simulate, replace(world, pods=pods), basis, Plan(), trials))
        for name in names():
            for count in (3, 10):
                for with_waits in (False, True):
                    what = f"recorded {name}" + (", with functions that wait" if with_waits else "")
                    cells.append((basis, what, f"{count} and {count}"))
                    jobs.append(partial(record, name, count, basis, Plan(), trials, with_waits=with_waits))
    return Table(
        "Equal sides",
        ["basis", "sides", "pods", "total changed (≤ 5 %)", "a function changed (≤ 5 %)",
         "a function outside noise", "detectable, total", "coverage: total", "self", "total time"],
        [[*row, *_format_equal(of, row[0])] for row, of in zip(cells, run(jobs), strict=True)],
    )  # fmt: skip


def _format_equal(of: Tally, basis: Basis) -> Iterator[str]:
    count, is_judged = of.comparisons, basis is not Basis.COMPOSITION
    yield format_share(of.total_changed / count) if is_judged else "not judged"
    yield format_share(of.any_changed / count)
    yield format_share(of.any_minor / count)
    yield format_share(float(np.median(of.total_detectable))) if is_judged else ""
    yield format_share(of.total_covered / count) if is_judged else ""
    yield format_share(compute_coverage(of.own_covered))
    yield format_share(compute_coverage(of.total_time_covered))


def tabulate_planted(trials: int, run: Run) -> Table:
    """Plant changes in many functions."""
    cells, jobs = [], []
    for basis in BASES:
        for count, factor in PLANTED:
            for pods in ((3, 3), (10, 10)):
                cells.append((basis, "usual", f"{pods[0]} and {pods[1]}", f"{count} by {factor}"))
                jobs.append(partial(simulate, World(pods=pods), basis, Plan(count, factor), trials))
        for name in names():
            cells.append((basis, f"recorded {name}", "10 and 10", "3 by 1.6"))
            jobs.append(partial(record, name, 10, basis, Plan(3, 1.6), trials))
    return Table(
        "Planted changes",
        ["basis", "sides", "pods", "functions changed", "of functions called changed, false (≤ 5 %)",
         "of call paths", "found", "coverage: self", "total time"],
        [[*row, *_format_planted(of)] for row, of in zip(cells, run(jobs), strict=True)],
    )  # fmt: skip


def _format_planted(of: Tally) -> Iterator[str]:
    yield format_share(float(np.mean(of.false_shares)))
    yield format_share(float(np.mean(of.path_false_shares))) if of.path_false_shares else ""
    yield format_share(of.detected / max(of.planted, 1))
    yield format_share(compute_coverage(of.own_covered))
    yield format_share(compute_coverage(of.total_time_covered))


def tabulate_power(trials: int, run: Run) -> Table:
    """Let a function of 5 % grow, with three pods and an hour a side."""
    cells = [(basis, factor) for basis in BASES for factor in (1.15, 1.3, 1.6, 2.0)]
    plans = [Plan(factor=factor, share=FUNCTION_SHARE) for _, factor in cells]
    jobs = [
        partial(simulate, World(), basis, plan, trials, seed=2)
        for (basis, _), plan in zip(cells, plans, strict=True)
    ]
    return Table(
        "A function of 5 % of the profile, three pods and an hour a side (17,000 samples)",
        ["basis", "grows by a factor", "found", "stated detectable, by itself", "another called changed"],
        [
            [basis, f"{factor}", format_share(of.detected / of.planted),
             format_share(float(np.median(of.planted_detectable))),
             format_share(of.any_changed / of.comparisons)]
            for (basis, factor), of in zip(cells, run(jobs), strict=True)
        ],
    )  # fmt: skip


def tabulate_load(trials: int, run: Run) -> Table:
    """Compare equal code where some work does not follow load, and with the remedies."""
    cells = [(ratio, background) for ratio in (1.5, 3.0) for background in (0.0, 0.05, 0.2)]
    jobs: list[Callable[[], Tally]] = []
    for ratio, part in cells:
        world = World(load_ratio=ratio, background=part)
        jobs.append(partial(simulate, world, Basis.COMPOSITION, Plan(), trials, seed=3))
        jobs.append(partial(simulate, world, Basis.PER_REQUEST, Plan(), trials, seed=3))
        same_load = replace(world, load_ratio=1.0)
        jobs.append(partial(simulate, same_load, Basis.COMPOSITION, Plan(), trials, seed=3))
    for name in names():
        jobs += [
            partial(record, name, 10, basis, Plan(), trials, with_loads=with_loads)
            for basis, with_loads in (
                (Basis.COMPOSITION, True),
                (Basis.PER_REQUEST, True),
                (Basis.COMPOSITION, False),
            )
        ]
    sides = [(f"{ratio} times", format_share(background)) for ratio, background in cells]
    sides += [(f"3 times, recorded {name}", "as recorded") for name in names()]
    found = [format_share(of.any_changed / of.comparisons) for of in run(jobs)]
    return Table(
        "Equal code, load differs between the periods: comparisons that call a function changed",
        ["load", "functions whose time does not follow load", "composition", "per_request",
         "composition of periods of equal load"],
        [[*side, *found[3 * at : 3 * at + 3]] for at, side in enumerate(sides)],
        LOAD_NOTE,
    )  # fmt: skip


def tabulate_detectable(trials: int, run: Run) -> Table:
    """Plant the median detectable change of the total."""
    sides = [(basis, pods) for basis in BASES[:2] for pods in PODS]
    equal = run([partial(_total_effects, World(pods=pods), basis, 1.0, trials, 4) for basis, pods in sides])
    cells = [
        (basis, pods, float(np.median(detectable)), part)
        for (basis, pods), (_, detectable, _) in zip(sides, equal, strict=True)
        for part in (0.5, 1.0, 1.5)
    ]
    jobs = [
        partial(_total_effects, World(pods=pods), basis, 1 + part * aim, trials, 5)
        for basis, pods, aim, part in cells
    ]
    return Table(
        "Power of the total against its stated detectable change",
        ["basis", "pods", "detectable", "planted", "found (80 % at 1 times)", "interval contains it"],
        [
            [basis, f"{pods[0]} and {pods[1]}", format_share(aim), f"{part} times",
             format_share(float(np.mean(changed))), format_share(float(np.mean(covered)))]
            for (basis, pods, aim, part), (changed, _, covered) in zip(cells, run(jobs), strict=True)
        ],
    )  # fmt: skip


def _total_effects(
    world: World, basis: Basis, factor: float, trials: int, seed: int
) -> tuple[list[bool], list[float], list[bool]]:
    """Compare many totals.

    Returns whether each is changed, its detectable effect, and whether its interval is right.
    """
    rng = np.random.default_rng(seed)
    changed, detectable, covered = [], [], []
    for _ in range(trials):
        sides = worlds.draw_sides(replace(world, drift=0.0), SINGLE_FUNCTION, np.array([factor]), basis, rng)
        _, effects = compare_total(*sides, basis, OPTIONS)
        changed.append(bool(effects.p[0] <= OPTIONS.alpha))
        detectable.append(float(effects.min_detectable_effect[0]))
        covered.append(bool(effects.relative_low[0] <= factor - 1 <= effects.relative_high[0]))
    return changed, detectable, covered


def tabulate_looks(trials: int, run: Run) -> Table:
    """Analyze an unchanged canary ten times while its hour grows."""
    [rows] = run([partial(_analyze_growing_hours, trials)])
    return Table(
        "Ten analyses of an equal canary: any false change of the total",
        ["pods", "each at 5 %", "numbered (≤ 5 %)"],
        rows,
    )


def _analyze_growing_hours(trials: int) -> list[list[str]]:
    rows = []
    rng = np.random.default_rng(6)
    for pods in ((2, 2), (3, 3), (10, 10)):
        any_plain = any_spent = 0
        for _ in range(trials):
            a, b = worlds.draw_sides(World(pods=pods), SINGLE_FUNCTION, np.ones(1), Basis.CONCURRENT, rng)
            looks = [
                compare_total(
                    a.until(window), b.until(window), Basis.CONCURRENT, replace(OPTIONS, analysis_index=look)
                )
                for look, window in enumerate(range(7, 17), 1)
            ]
            any_plain += any(effects.p[0] <= OPTIONS.alpha for _, effects in looks)
            any_spent += any(effects.p[0] <= design.alpha for design, effects in looks)
        rows.append(
            [f"{pods[0]} and {pods[1]}", *map(format_share, (any_plain / trials, any_spent / trials))]
        )
    return rows
