from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.local.sampling.quality import Ledger, beside, percent

numbers = st.integers(0, 10**9)
ledgers = st.builds(
    Ledger,
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
def test_ledgers_add_up_in_any_order(a: Ledger, b: Ledger, c: Ledger) -> None:
    assert a.then(b).then(c) == a.then(b.then(c))
    assert a.then(b) == b.then(a)
    assert beside([a, b, c]) == beside([c, a, b])
    assert a.then(Ledger()) == a


def test_threads_are_the_most_at_once_of_one_process_and_added_over_several() -> None:
    assert Ledger(threads=3).then(Ledger(threads=5)).threads == 5
    assert Ledger(threads=3).beside(Ledger(threads=5)).threads == 8


def test_rates_and_losses_are_of_the_time_watched() -> None:
    ledger = Ledger(watched_ns=2 * 10**9, attempts=198, stopped_ns=10**7, errors={"read": 2, "moved": 1})
    assert (ledger.rate_hz, ledger.lost, ledger.failed) == (99.0, 0.005, 3)
    assert ledger.errors_text() == "3 errors (2 read, 1 moved)"
    assert (Ledger().rate_hz, Ledger().lost, Ledger().errors_text()) == (0.0, 0.0, "no errors")


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.00 %"), (0.00001, "<0.01 %"), (0.0016, "0.16 %"), (0.314, "31.4 %")]
)
def test_a_small_share_is_not_written_as_none(share: float, text: str) -> None:
    assert percent(share) == text
