"""The promises about a single rate: false changes, and coverage of the intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.verdicts.page import Table, share
from bench.verdicts.trials import compared
from bench.verdicts.worlds import World, draw


@dataclass(frozen=True, slots=True)
class Found:
    """The results of many comparisons.

    `changed` is the share with a detected change, `held` the share whose interval contains the truth,
    `detectable` the median of the minimum detectable effects, and `ideal` the minimum detectable effect if
    the standard error of the ratio were known.
    """

    changed: float
    held: float
    detectable: float
    ideal: float


WORLDS: Sequence[tuple[str, World]] = (
    ("", World()),
    ("pods alike", World(pod_spread=0.0)),
    ("pods differ by 10 %", World(pod_spread=0.1)),
    ("few samples (3 a window)", World(samples=3.0)),
    ("bursts", World(bursts=0.05)),
    ("each pod's own load, slow", World(own=0.3, own_windows=10.0)),
    ("day swings by 60 %", World(day=0.6)),
)
STEADY: Sequence[tuple[str, World]] = (
    ("no load but each pod's own", World(load=0.0)),
    ("differs by 5 % from minute to minute", World(load=0.05, load_windows=0.0)),
    ("differs by 20 % from minute to minute", World(load=0.2, load_windows=0.0)),
    ("differs by 20 %, the same pods", World(load=0.2, load_windows=0.0, same_pods=True)),
    ("differs by 20 % and resembles itself for a minute", World(load=0.2, load_windows=1.0)),
)
PODS = ((2, 2), (3, 3), (4, 4), (4, 1), (10, 2), (10, 10), (40, 40))


def found(world: World, trials: int, seed: int = 1) -> Found:
    luck = np.random.default_rng(seed)
    seen = np.empty((trials, 4))
    for trial in range(trials):
        _, one = compared(*draw(world, luck), **world.how)
        held = one.relative_low[0] <= world.change <= one.relative_high[0]
        seen[trial] = one.p[0] <= 0.05, held, one.min_detectable_effect[0], one.relative[0]
    changed, held, _, _ = seen.mean(0)
    return Found(
        float(changed), float(held), float(np.median(seen[:, 2])), float((1.96 + 0.84) * seen[:, 3].std())
    )


def equal(trials: int) -> Table:
    """Compare equal sides at the same time (A/A)."""
    rows = []
    for what, world in WORLDS:
        for pods in PODS if not what else ((2, 2), (4, 4), (10, 10)):
            own = replace(world, pods_a=pods[0], pods_b=pods[1])
            rows.append([f"{pods[0]} and {pods[1]}", what, *_cells(found(own, trials))])
    return Table("Equal sides at the same time (a canary), an hour", ["pods", "", *_HEAD], rows)


def equal_load(trials: int) -> Table:
    """Compare equal sides one after the other (A/A), assuming their equal load."""
    rows = []
    for what, world in STEADY:
        for pods in (2, 4, 10):
            own = replace(world, pods_a=pods, pods_b=pods, concurrent=False)
            rows.append([f"{pods} and {pods}", what, *_cells(found(own, trials))])
    title = "Equal sides of an hour, one after the other, with equal load, which is assumed"
    return Table(title, ["pods", "", *_HEAD], rows)


def planted(trials: int) -> Table:
    """Measure coverage and power for changes that are multiples of the detectable one."""
    rows = []
    for world in _PLANTED:
        aim = found(world, trials).detectable
        for part in (0.5, 1.0, 1.5):
            got = found(replace(world, change=part * aim), trials, seed=2)
            rows.append(
                [
                    "concurrent" if world.concurrent else "one after the other, equal load assumed",
                    f"{world.pods_a} and {world.pods_b}",
                    share(aim),
                    f"{part} times: {share(part * aim)}",
                    share(got.changed),
                    share(got.held),
                ]
            )
    head = ["", "pods", "detectable", "planted", "found (80 % at 1 times)", "interval holds it"]
    return Table("Power against the stated detectable change", head, rows)


_PLANTED = (
    World(),
    World(pods_a=10, pods_b=10),
    World(pods_a=2, pods_b=2),
    World(pods_a=10, pods_b=2, pod_spread=0.1),
    World(concurrent=False, load=0.05, load_windows=0.0),
)


def looks(trials: int) -> Table:
    """Analyze an unchanged canary ten times, once every six minutes."""
    rows = []
    for pods in (2, 4, 10):
        world = World(pods_a=pods, pods_b=pods)
        luck = np.random.default_rng(3)
        any_plain = any_spent = 0
        for _ in range(trials):
            a, b = draw(world, luck)
            parts = [(a.until(6 * look), b.until(6 * look)) for look in range(1, 11)]
            found_at = [compared(*part, **world.how, look=look) for look, part in enumerate(parts, 1)]
            any_plain += any(one.p[0] <= 0.05 for _, one in found_at)
            any_spent += any(one.p[0] <= plan.alpha for plan, one in found_at)
        rows.append([f"{pods} and {pods}", share(any_plain / trials), share(any_spent / trials)])
    return Table("Ten looks at equal sides: any false change", ["pods", "each at 5 %", "as spent"], rows)


def _cells(got: Found) -> Iterator[str]:
    yield from (share(got.changed), share(got.held), share(got.detectable), share(got.ideal))


_HEAD = ["false change (≤ 5 %)", "interval holds the truth", "detectable", "with its spread known"]
