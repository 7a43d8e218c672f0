from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.local.sampling.quality import SamplingQuality, format_percent, merge_qualities

numbers = st.integers(0, 10**9)
ledgers = st.builds(
    SamplingQuality,
    watched_ns=numbers,
    attempts=numbers,
    samples=numbers,
    errors=st.dictionaries(st.sampled_from(["read", "moved"]), st.integers(1, 99)),
    threads=st.integers(0, 50),
    stops=numbers,
    stopped_ns=numbers,
    longest_stop_ns=numbers,
)


@given(ledgers, ledgers, ledgers)
def test_ledgers_add_up_in_any_order(a: SamplingQuality, b: SamplingQuality, c: SamplingQuality) -> None:
    assert a.append(b).append(c) == a.append(b.append(c))
    assert a.append(b) == b.append(a)
    assert merge_qualities([a, b, c]) == merge_qualities([c, a, b])
    assert a.append(SamplingQuality()) == a


def test_threads_are_the_most_at_once_of_one_process_and_added_over_several() -> None:
    assert SamplingQuality(threads=3).append(SamplingQuality(threads=5)).threads == 5
    assert SamplingQuality(threads=3).merge(SamplingQuality(threads=5)).threads == 8


def test_rates_and_losses_are_of_the_time_watched() -> None:
    ledger = SamplingQuality(
        watched_ns=2 * 10**9, attempts=198, stopped_ns=10**7, errors={"read": 2, "moved": 1}
    )
    assert (ledger.rate_hz, ledger.stopped_share, ledger.failed_ticks) == (99.0, 0.005, 3)
    assert ledger.format_errors() == "3 errors (2 read, 1 moved)"
    assert (
        SamplingQuality().rate_hz,
        SamplingQuality().stopped_share,
        SamplingQuality().format_errors(),
    ) == (0.0, 0.0, "no errors")


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.00 %"), (0.00001, "<0.01 %"), (0.0016, "0.16 %"), (0.314, "31.4 %")]
)
def test_a_small_share_is_not_written_as_none(share: float, text: str) -> None:
    assert format_percent(share) == text
