"""What all pods of one side have and none of the other is new, however far pods scatter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sidelight.stacks.changes import Direction
from sidelight.verdicts.absence import FEWEST, LEAST, absent, at_most
from sidelight.verdicts.cells import design
from sidelight.verdicts.spread import Effects, effects
from tests.verdicts.sides import F64, even

PODS = 3


def judged(b: F64, *, gone: bool = False, same_time: bool = True, other_days: bool = False) -> Effects:
    """A function of so many samples in each cell of B, (3, 8), and none in A; `gone` has them in A."""
    whole = np.full((PODS, 8), 40.0)
    none = np.zeros_like(b)
    sides = (b, none) if gone else (none, b)
    side = even(PODS, 8)
    plan = design(side, side, whole, whole, same_time=same_time, other_days=other_days)
    return effects(plan, *(one[None] for one in sides), *(np.array([one.sum()]) for one in sides))


def scattered(*pods: float) -> F64:
    return np.repeat(np.array(pods)[:, None], 8, 1)


UNEQUAL = scattered(3, 9, 20)
"""Pods so far apart that Student's t finds nothing."""


def test_what_no_pod_of_the_other_side_has_is_new() -> None:
    found = judged(UNEQUAL)
    assert found.direction == (Direction.NEW,)
    assert found.p[0] < 1e-4
    assert 0 < found.low[0] < found.delta[0] < found.high[0]
    assert judged(UNEQUAL, same_time=False).p[0] > 0.05


def test_what_only_the_other_side_has_is_gone() -> None:
    found = judged(UNEQUAL, gone=True)
    assert found.direction == (Direction.GONE,)
    assert found.low[0] < found.delta[0] < found.high[0] < 0
    assert found.relative[0] == -1
    assert -1 < found.relative_high[0] < -0.5


def test_another_hour_may_have_had_it_in_all_pods() -> None:
    for same_time, other_days in ((False, False), (True, True)):
        found = judged(UNEQUAL, same_time=same_time, other_days=other_days)
        assert found.p[0] > 1e-4


def test_what_one_pod_does_for_all_is_not_new_by_that() -> None:
    found = judged(scattered(0, 0, 30))
    assert found.p[0] > 0.05
    assert found.low[0] < 0


@pytest.mark.parametrize(
    ("seconds", "samples", "chance"),
    [
        ([10.0, 10.0], 20.0, 2 / 11**2),
        ([10.0, 10.0], FEWEST, 2 / 6**2),
        ([10.0, 10.0], FEWEST - 1, 1),
        ([10.0, 10.0], np.inf, 1),
        ([20.0 - 10 * LEAST, 10 * LEAST], 20.0, 2 / 11**2),
        ([20.5 - 10 * LEAST, 9.5 * LEAST], 20.0, 1),
        ([0.0, 0.0], 0.0, 1),
    ],
)
def test_the_chance_of_seeing_nothing(seconds: list[float], samples: float, chance: float) -> None:
    found = absent(np.array([seconds]), np.array([samples]), np.ones(2), np.ones(2))
    assert found == pytest.approx(chance)


def test_one_pod_says_nothing_and_pods_that_were_not_watched_neither() -> None:
    one = np.array([[10.0]]), np.array([50.0])
    assert absent(*one, np.ones(1), np.ones(4)) == 1
    two = np.array([[10.0, 0.0]]), np.array([50.0])
    assert absent(*two, np.array([1.0, 0.0]), np.ones(4)) == 1
    assert absent(np.array([[10.0, 10.0]]), np.array([50.0]), np.ones(2), np.zeros(3)) == 1
    some = absent(np.array([[10.0, 10.0]]), np.array([50.0]), np.ones(2), np.array([1.0, 0.0]))
    assert some == pytest.approx(2 / 26)


@pytest.mark.parametrize(("pods", "samples"), list(product((1, 3, 10), (20.0, 500.0))))
def test_as_much_as_may_have_been_missed_shows_nothing_with_the_chance(pods: int, samples: float) -> None:
    there = np.ones(pods)
    (part,) = at_most(0.025, np.array([samples]), np.ones(4), there)
    chance_of_all = (1 + samples / 4) ** -pods
    assert (1 + part * samples / 4) ** -pods == pytest.approx(max(0.025, chance_of_all))


def test_equal_functions_are_new_no_more_often_than_is_said() -> None:
    luck, level = np.random.default_rng(3), 1e-3
    # pods that differ as widely as is allowed for
    a, b = luck.poisson(luck.exponential(4, (2, 200_000, PODS)))
    there = np.ones(PODS)
    p = absent(b.astype(float), b.sum(1), there, there)
    nothing = a.sum(1) == 0
    assert (nothing & (p < 1)).mean() > level  # more would be told by saying so of all
    assert 0 < (nothing & (p <= level)).mean() <= level / 2
