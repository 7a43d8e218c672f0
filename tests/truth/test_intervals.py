"""The statistics of the truth suite hold for a sampler that is right, and fail for one that is not."""

import random
from itertools import accumulate

import pytest

from tests.truth.intervals import bias, mean_is_covered, share_is_covered

TICKS, WINDOWS = 100, 300


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [(0, 10, 0.0, 0.3085), (3, 10, 0.0667, 0.6525), (10, 10, 0.6915, 1.0), (40, 200, 0.1469, 0.2622)],
)
def test_the_interval_is_that_of_clopper_and_pearson(hits, samples, low, high):
    for border, outward in ((low, -1), (high, 1)):
        if 0 < border < 1:
            assert share_is_covered(hits, samples, border - outward * 0.0005)
            assert not share_is_covered(hits, samples, border + outward * 0.0005)
    assert share_is_covered(hits, samples, (low + high) / 2)


def test_a_share_of_all_or_nothing_must_be_seen_exactly():
    assert share_is_covered(200, 200, 1.0)
    assert not share_is_covered(199, 200, 1.0)
    assert share_is_covered(0, 200, 0.0)


def test_a_mean_is_held_to_the_spread_of_what_it_is_the_mean_of():
    assert mean_is_covered(10.19, 100, 10.0, 1.0)
    assert not mean_is_covered(10.21, 100, 10.0, 1.0)
    assert mean_is_covered(5.0, 100, 5.0, 0.0)


def simulate(share, phase_ticks, luck, blind=0.0):
    """(hits, samples, truth) of windows: ticks in jittered intervals on a program that draws its phases.

    A sampler that is `blind` fails at that share of the ticks that would have been hits.
    """
    end = TICKS * WINDOWS
    starts = list(
        accumulate(luck.expovariate(1 / phase_ticks) for _ in range(int(2 * end / phase_ticks) + 100))
    )
    inside = [luck.random() < share for _ in starts]
    windows = [[0, 0, 0.0] for _ in range(WINDOWS)]
    tick, begun = luck.random(), 0.0
    for ended, hit in zip(starts, inside, strict=True):
        at = begun
        while at < min(ended, end):
            window = windows[int(at // TICKS)]
            border = min(ended, (at // TICKS + 1) * TICKS)
            window[2] += (border - at) / TICKS * hit
            while tick < border:
                if not (hit and luck.random() < blind):
                    window[0] += hit
                    window[1] += 1
                tick += luck.uniform(0.5, 1.5)
            at = border
        begun = ended
    return windows


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("phase_ticks", [0.2, 1, 10])
def test_jittered_samples_are_within_the_interval_as_often_as_it_promises(share, phase_ticks):
    windows = simulate(share, phase_ticks, random.Random(3))
    covered = sum(share_is_covered(*window) for window in windows)
    assert covered / WINDOWS > 0.93
    off = bias([hits / samples - truth for hits, samples, truth in windows])
    assert not off.beyond(0, 3)


@pytest.mark.parametrize("phase_ticks", [0.2, 1, 10])
def test_a_sampler_that_fails_at_one_hit_in_twenty_is_found_out(phase_ticks):
    windows = simulate(0.5, phase_ticks, random.Random(3), blind=0.05)
    off = bias([hits / samples - truth for hits, samples, truth in windows])
    assert off.mean == pytest.approx(-0.0128, abs=0.006)
    assert off.beyond(0, 3)
