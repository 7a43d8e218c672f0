"""What a collector may be told, at the edges."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sidelight.collector.door import read_tokens
from sidelight.collector.main import admission, query_limits
from sidelight.collector.retention import last_expired
from sidelight.collector.settings import Settings
from sidelight.settings import BadSetting, parse

CENTURY = {
    "retention_raw_days": 36_525,
    "max_age_days": 36_525.0,
    "max_range_days": 36_525.0,
    "max_future_seconds": 36_525 * 86_400.0,
}


def test_a_century_may_be_kept_and_nothing_reckons_beyond_what_dates_hold() -> None:
    settings = Settings(store="given", **CENTURY)  # type: ignore[arg-type]
    assert last_expired(datetime.now(UTC), settings.retention_raw_days).year > 1900
    assert admission(settings).max_age_ns == query_limits(settings).max_range_days * 86_400 * 10**9


@pytest.mark.parametrize("name", CENTURY)
def test_more_than_a_century_is_refused_at_the_start(name: str) -> None:
    values: dict[str, Any] = {**CENTURY, name: CENTURY[name] * 10}
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        Settings(store="given", **values)


def test_a_tokens_file_may_come_from_any_editor(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n\r\n# not one\r\n  second  ")
    assert read_tokens(file) == ("first", "second")


@pytest.mark.parametrize(
    ("least", "below"),
    [
        ({"compact_gone_seconds": 20.0, "query_timeout_seconds": 10.0}, {"compact_gone_seconds": 19.9}),
        ({"compact_stray_seconds": 600.0}, {"compact_stray_seconds": 599.9}),
        ({"compact_segments": 1}, {"compact_segments": 0}),
        ({"compact_block_rows": 1}, {"compact_block_rows": 0}),
        ({"compact_interval_seconds": 0.0}, {"compact_interval_seconds": -0.1}),
    ],
)
def test_what_compaction_must_not_be_asked_for_is_refused(
    least: dict[str, float], below: dict[str, float]
) -> None:
    given = {"store": "given", **least}
    assert parse(Settings, "collector", "", flags(given), {}) == Settings(**given)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="compact"):
        parse(Settings, "collector", "", flags({**given, **below}), {})


def flags(given: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
