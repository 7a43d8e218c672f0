from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.times import MAX_TIME_NS, BadTime, format_rfc3339, parse_time
from sidelight_model.errors import Reason

NOW_NS = 1_795_253_400 * 10**9


def read(text: str) -> int:
    return parse_time(text, parameter="from", now_ns=NOW_NS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", 0),
        ("-15m", -900),
        ("now-15m", -900),
        ("now+30s", 30),
        ("-2h", -7200),
        ("-1d", -86_400),
        ("-1w", -604_800),
        ("2026-11-21T09:30:00Z", 0),
        ("2026-11-21t09:30:00z", 0),
        ("2026-11-21 10:30:00+01:00", 0),
        ("2026-11-21T10:30:00 01:00", 0),
        ("2026-11-21T09:30:00.5Z", 0.5),
        ("1795253400", 0),
        ("1795253400.25", 0.25),
        ("1795253400000", 0),
        ("1795253400250", 0.25),
    ],
)
def test_a_time_may_be_written_in_each_of_these_ways(text: str, seconds: float) -> None:
    assert read(text) - NOW_NS == seconds * 10**9


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "-15", "15m", "-15 m", "-15M", "now-", "--5m", "2026-11-21", "-1795253400", "1e9"),
        *("2026-13-01T00:00:00Z", "2026-11-21T09:30:00", "2026-02-30T00:00:00Z", "2026-11-21T09:30:61Z"),
        *("0x10", "٣", "1" * 20, "nan", "9999-12-31T23:59:59Z", "-99999w", "1795253400."),
    ],
)
def test_a_time_that_cannot_be_read_is_refused_by_the_name_of_its_parameter(text: str) -> None:
    with pytest.raises(BadTime) as refused:
        read(text)
    assert refused.value.reason is Reason.BAD_TIME
    assert refused.value.message.startswith("from=")
    assert "-15m" in refused.value.hint


@given(st.integers(0, MAX_TIME_NS))
def test_a_moment_written_as_rfc_3339_is_read_back_to_the_nanosecond(moment_ns: int) -> None:
    assert read(format_rfc3339(moment_ns)) == moment_ns


@given(st.integers(0, 10**10 - 1), st.integers(0, 10**9 - 1))
def test_epoch_seconds_keep_their_nine_decimals(whole: int, fraction: int) -> None:
    moment = whole * 10**9 + fraction
    if moment <= MAX_TIME_NS:
        assert read(f"{whole}.{fraction:09d}") == moment
