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
