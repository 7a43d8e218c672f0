"""Weights that are no numbers of samples are recognised, derived or refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.folded import parse_folded
from sidelight_model.recordings.inputs.sample_weights import (
    LEAST_WEIGHT,
    MAX_CHANCE,
    MIN_STACKS,
    UnknownSampleWeight,
    find_sample_weight,
)
from tests.cli.compare.compare_runner import compare

RECORDING = Path(__file__).with_name("recordings") / "shop.folded"
CLOCK_99_HZ = 10_101_010


def test_weights_of_one_period_are_samples_of_that_period() -> None:
    assert find_sample_weight("x", [CLOCK_99_HZ * count for count in (7, 1, 2)]) == CLOCK_99_HZ
    assert find_sample_weight("x", [10_000 * count for count in (700, 1, 24, 3)]) == 10_000


@pytest.mark.parametrize(("count", "found"), [(19, 1), (20, 2)])
def test_counts_that_are_even_by_chance_stay_counts(count: int, found: int) -> None:
    """19 even counts happen once in 520,000 cases, 20 once in a million."""
    assert (2.0**-count < MAX_CHANCE) is (found == 2)
    assert find_sample_weight("x", [2] * count) == found


@pytest.mark.parametrize(("stacks", "least", "refused"), [(9, 100, False), (10, 100, True), (10, 99, False)])
def test_many_stacks_without_a_rare_one_are_refused(stacks: int, least: int, refused: bool) -> None:
    assert (MIN_STACKS, LEAST_WEIGHT) == (10, 100)
    weights = [least, *(least + 1 + step for step in range(stacks - 1))]
    weights[0] = 3  # a tenth may be smaller
    weights[1] = least
    if not refused:
        assert find_sample_weight("x", weights) == 1
        return
    with pytest.raises(UnknownSampleWeight, match="nine tenths of 10 stacks weigh 100 or more"):
        find_sample_weight("x", weights)


@given(st.integers(0, 2**32), st.integers(10, 300), st.integers(50, 5000))
def test_numbers_of_samples_of_a_profile_are_themselves(seed: int, stacks: int, samples: int) -> None:
    """Stacks of a profile are as unequal as words of a text (Zipf)."""
    random_generator = random.Random(seed)
    chances = [1 / (rank + 1) for rank in range(stacks)]
    counts = Counter(random_generator.choices(range(stacks), chances, k=samples))
    if samples / stacks < 100:
        assert find_sample_weight("x", list(counts.values())) == 1


def test_a_recorded_profile_is_itself_and_its_microseconds_are_its_samples(tmp_path: Path) -> None:
    counts = {stack: found.wall for stack, found in parse_folded(RECORDING.read_text()).items()}
    assert find_sample_weight("x", list(counts.values())) == 1
    scaled = [5_000 * count for count in counts.values()]
    assert find_sample_weight("x", scaled) == 5_000
    generator = random.Random(1)
    jittered = [sum(5_000 + generator.randrange(200) for _ in range(count)) for count in counts.values()]
    with pytest.raises(UnknownSampleWeight):
        find_sample_weight("x", jittered)


def write(file: Path, weights: list[int]) -> str:
    file.write_text("".join(f"main (m.py:1);f{at} (m.py:1) {weight}\n" for at, weight in enumerate(weights)))
    return str(file)


def test_derived_weights_are_shown_with_the_option_against_them(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [500_000, 300_000, 200_000])
    b = write(tmp_path / "b", [501, 299, 203])
    done = compare(a, b)
    assert f"A  {a}  10 samples" in done.stdout
    assert "warning (sample_weight): A: all weights are multiples of 100,000" in done.stdout
    assert "B: all weights" not in done.stdout
    done = compare(a, b, "--sample-weight", "1")
    assert f"A  {a}  1,000,000 samples" in done.stdout
    assert "sample_weight" not in done.stdout


def test_unknown_weights_are_refused_and_the_option_states_them(tmp_path: Path) -> None:
    generator = random.Random(2)
    files = [
        write(tmp_path / name, [generator.randrange(90_000, 900_000) for _ in range(12)]) for name in "ab"
    ]
    done = compare(*files)
    assert (done.returncode, done.stdout) == (65, "")
    assert "its weights are no numbers of samples" in done.stderr
    assert "hint: Give the weight of one sample with --sample-weight" in done.stderr
    assert compare(*files, "--sample-weight", "10000").returncode == 0


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40))
def test_a_derived_weight_divides_every_weight(weights: list[int]) -> None:
    try:
        found = find_sample_weight("x", weights)
    except UnknownSampleWeight:
        assert min(sorted(weights)[len(weights) // 10 :]) >= LEAST_WEIGHT
        return
    assert all(weight % found == 0 for weight in weights)
    assert found in (1, math.gcd(*weights))
