"""What readiness says of states that cannot be told apart."""

from types import SimpleNamespace
from typing import cast

import pytest

from sidelight_sidecar.samplers.sampler import Sampler
from sidelight_sidecar.server import list_notices

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("missing", "causes"),
    [
        ((), []),
        (("gil_wait", "lock"), ["musl"]),
        (("gil_wait", "lock", "poll", "io", "sleep"), ["DAC_READ_SEARCH"]),
        (("gil", "gil_wait"), ["free-threaded"]),
        (("gil", "gil_wait", "lock", "poll", "io", "sleep"), ["DAC_READ_SEARCH", "free-threaded"]),
    ],
)
def test_each_cause_of_missing_states_has_a_notice(missing: tuple[str, ...], causes: list[str]) -> None:
    sampler = cast(Sampler, SimpleNamespace(mode="gil", missing_states=missing))
    notices = list_notices(sampler, is_fallback=False)
    assert len(notices) == len(causes)
    assert all(cause in notice for cause, notice in zip(causes, notices, strict=True))
