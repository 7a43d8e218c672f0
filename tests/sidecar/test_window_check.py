"""What a window without stacks says about its process."""

from __future__ import annotations

import pytest

from sidelight_model.window import Quality
from sidelight_sidecar.samplers.sampler import COMMAND_MODE, SampleBatch
from sidelight_sidecar.sampling.window_check import find_window_problem, has_stacks

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("quality", "seconds", "problem"),
    [
        (Quality(attempts=3, errors={"slow": 2}), 10, ""),
        (
            Quality(attempts=3, errors={"slow": 1, "read": 2}),
            10,
            "no stacks in a whole window: read 2, slow 1",
        ),
        (Quality(mode="gil"), 10, "the sampling thread does not answer"),
        (Quality(mode="gil"), 1, ""),
        (Quality(mode=COMMAND_MODE), 10, ""),
    ],
)
def test_a_window_without_stacks_is_a_problem_also_if_no_tick_was_tried(
    quality: Quality, seconds: int, problem: str
) -> None:
    found = find_window_problem("process 7", SampleBatch({}, 0, seconds * SECOND, quality))
    assert (problem in found.message) if found is not None and problem else (found is None and not problem)
    assert has_stacks(quality) == (quality.attempts == 3 and "read" not in quality.errors)
