from __future__ import annotations

import asyncio
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.samplers.attach_limiter import AttachLimiter, compute_cooldown


async def test_few_have_their_turn_at_the_same_time_and_all_have_one() -> None:
    turns = AttachLimiter(time.monotonic, random.random)
    having, most, had = 0, 0, 0

    async def take() -> None:
        nonlocal having, most, had
        async with turns.acquire():
            having += 1
            most = max(most, having)
            await asyncio.sleep(0)
            having -= 1
            had += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(take())
    assert (most, had) == (4, 40)


async def test_a_turn_that_fails_is_passed_on_too() -> None:
    turns = AttachLimiter(time.monotonic, random.random)
    for _ in range(10):
        try:
            async with turns.acquire():
                raise ProcessLookupError
        except ProcessLookupError:
            continue


@given(st.floats(0.0001, 0.06), st.floats(0, 0.999))
def test_all_turns_together_stay_near_a_quarter_of_a_core(took: float, luck: float) -> None:
    # Four at a time, each taken for the turn and its rest.
    assert 4 * took / (took + compute_cooldown(took, 0.5)) == pytest.approx(0.25)
    assert compute_cooldown(took, luck) >= compute_cooldown(took, 0) > 7 * took


def test_a_long_turn_is_not_followed_by_an_endless_rest() -> None:
    assert compute_cooldown(10.0, 0.9) == 1.0
