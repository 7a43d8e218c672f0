"""What a collector may be told, at the edges."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sidelight.settings import BadSetting, parse_settings
from sidelight_collector.auth.authorizer import read_tokens
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings.source_links import parse_source_url
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.settings_wiring import (
    build_compaction_policy,
    build_ingest_limits,
    build_query_limits,
    build_retention_policy,
)
from sidelight_collector.storage.lifecycle.retention import RetentionPolicy, last_expired_day

CENTURY = {
    "retention_raw_days": 36_525,
    "retention_hour_days": 36_525,
    "retention_day_days": 36_525,
    "max_age_days": 36_525.0,
    "max_range_days": 36_525.0,
    "comparison_lookback_days": 36_525.0,
    "max_future_seconds": 36_525 * 86_400.0,
}


def test_a_century_may_be_kept_and_nothing_reckons_beyond_what_dates_hold() -> None:
    settings = Settings(store="given", **CENTURY)  # type: ignore[arg-type]
    assert last_expired_day(datetime.now(UTC), settings.retention_raw_days).year > 1900
    assert (
        build_ingest_limits(settings).max_age_ns
        == build_query_limits(settings).max_range_days * 86_400 * 10**9
    )


@pytest.mark.parametrize("name", ["retention_day_days", *list(CENTURY)[3:]])
def test_more_than_a_century_is_refused_at_the_start(name: str) -> None:
    values: dict[str, Any] = {**CENTURY, name: CENTURY[name] * 10}
    with pytest.raises(ValueError, match=f"{name} must be at most"):
        Settings(store="given", **values)


@pytest.mark.parametrize(
    ("fine", "refused", "message"),
    [
        ({"max_notes_per_service": 1}, {"max_notes_per_service": 0}, "from 1 to 1000"),
        ({"max_notes_per_service": 1000}, {"max_notes_per_service": 1001}, "from 1 to 1000"),
        ({"note_retention_days": 36_525.0}, {"note_retention_days": 36_525.1}, "at most 36525"),
    ],
)
def test_notes_are_bounded(fine: dict[str, Any], refused: dict[str, Any], message: str) -> None:
    Settings(store="given", **fine)
    with pytest.raises(ValueError, match=message):
        Settings(store="given", **refused)


def test_a_tokens_file_may_come_from_any_editor(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_bytes(b"\xef\xbb\xbffirst\r\n\r\n# not one\r\n  second  ")
    assert read_tokens(file) == ("first", "second")


@pytest.mark.parametrize(
    ("least", "below"),
    [
        ({"deletion_delay_seconds": 20.0, "query_timeout_seconds": 10.0}, {"deletion_delay_seconds": 19.9}),
        ({"orphan_age_seconds": 600.0}, {"orphan_age_seconds": 599.9}),
        ({"compact_min_segments": 1}, {"compact_min_segments": 0}),
        ({"compact_max_block_rows": 1}, {"compact_max_block_rows": 0}),
        ({"compact_interval_seconds": 0.0}, {"compact_interval_seconds": -0.1}),
    ],
)
def test_what_compaction_must_not_be_asked_for_is_refused(
    least: dict[str, float], below: dict[str, float]
) -> None:
    given = {"store": "given", **least}
    assert parse_settings(Settings, "collector", "", flags(given), {}) == Settings(**given)  # type: ignore[arg-type]
    [name] = below
    with pytest.raises(BadSetting, match=rf"{name}|--{name.replace('_', '-')}"):
        parse_settings(Settings, "collector", "", flags({**given, **below}), {})


def test_replaced_objects_outlive_the_longest_query() -> None:
    settings = Settings(store="given", query_timeout_seconds=200.0)
    assert build_compaction_policy(settings).deletion_delay_seconds == 800
    settings = Settings(store="given", query_timeout_seconds=200.0, deletion_delay_seconds=400.0)
    assert build_compaction_policy(settings).deletion_delay_seconds == 400


@pytest.mark.parametrize(
    ("least", "below"),
    [
        ({"max_age_days": 7, "retention_raw_days": 7}, {"retention_raw_days": 6}),
        ({"retention_raw_days": 14, "retention_hour_days": 14}, {"retention_hour_days": 13}),
        ({"retention_hour_days": 400}, {"retention_hour_days": 401}),
        ({"retention_services": "größe=x=7/7/7"}, {"retention_services": "shop=6/7/7"}),
        ({"retention_services": "shop=7/8/9"}, {"retention_services": "shop=7/9/8"}),
        ({"retention_services": "shop=7/8/36525"}, {"retention_services": "shop=7/8/36526"}),
        ({"retention_services": "shop=07/8/9"}, {"retention_services": "shop=7/8"}),
        ({"retention_services": "shop=7/8/9"}, {"retention_services": "=7/8/9"}),
        ({"retention_services": "shop=7/8/9"}, {"retention_services": "shop=7/8/-9"}),
        ({"retention_bytes": 0}, {"retention_bytes": -1}),
    ],
)
def test_what_retention_must_not_be_asked_for_is_refused(
    least: dict[str, float], below: dict[str, float]
) -> None:
    given = {"store": "given", **least}
    parse_settings(Settings, "collector", "", flags(given), {})
    with pytest.raises(BadSetting, match="retention"):
        parse_settings(Settings, "collector", "", flags({**given, **below}), {})


def test_services_may_be_kept_for_days_of_their_own() -> None:
    words = ["--store=given", "--retention-services=shop=7/8/9", "--retention-services=ads=30/30/30"]
    settings = parse_settings(Settings, "collector", "", words, {})
    assert build_retention_policy(settings) == RetentionPolicy(
        RetentionDays(14, 90, 400), {"shop": RetentionDays(7, 8, 9), "ads": RetentionDays(30, 30, 30)}
    )
    assert (
        parse_settings(
            Settings, "collector", "", words[:1], {"SIDELIGHT_RETENTION_SERVICES": "shop=7/8/9,ads=30/30/30"}
        )
        == settings
    )
    alone = parse_settings(Settings, "collector", "", [*words, "--compact-interval-seconds=0"], {})
    assert build_retention_policy(alone) == RetentionPolicy(
        RetentionDays(14, 14, 14), {"shop": RetentionDays(7, 7, 7), "ads": RetentionDays(30, 30, 30)}
    )


@pytest.mark.parametrize(
    ("most", "beyond"),
    [
        ({"workers": 256}, {"workers": 257}),
        ({"compact_lease_seconds": 3600.0}, {"compact_lease_seconds": 3600.1}),
        ({"compact_lease_seconds": 0.0}, {"compact_lease_seconds": -0.1}),
        ({"max_connections": 1}, {"max_connections": 0}),
        ({"header_timeout_seconds": 0.1}, {"header_timeout_seconds": 0.0}),
        ({"max_worker_restarts": 0}, {"max_worker_restarts": -1}),
        ({"worker_restart_window_seconds": 0.1}, {"worker_restart_window_seconds": 0.0}),
        ({"worker_heartbeat_timeout_seconds": 1.0}, {"worker_heartbeat_timeout_seconds": 0.9}),
        ({"worker_heartbeat_timeout_seconds": 0.0}, {"worker_heartbeat_timeout_seconds": -0.1}),
        ({"role": "serve", "workers": 0}, {"role": "Serve"}),
        ({"role": "compactor", "workers": 1}, {"workers": 2}),
        ({"role": "compactor", "listen": "0.0.0.0:80"}, {"role": "serve"}),
    ],
)
def test_what_processes_must_not_be_asked_for_is_refused(
    most: dict[str, Any], beyond: dict[str, Any]
) -> None:
    given = {"store": "given", **most}
    assert parse_settings(Settings, "collector", "", flags(given), {}) == Settings(**given)
    with pytest.raises(BadSetting):
        parse_settings(Settings, "collector", "", flags({**given, **beyond}), {})


def flags(given: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]


def test_source_code_is_at_a_url_of_all_services_or_of_one() -> None:
    url, own = (
        "https://git.example/{service}/{version}/{file}#L{line}",
        "http://hg.example/x?f={file}&l={line}",
    )
    settings = Settings(store="given", source_url=(parse_source_url(url), parse_source_url(f"cart={own}")))
    assert json.loads(settings.sources) == {"urls": {"": url, "cart": own}, "strip": []}
    assert json.loads(Settings(store="given", source_strip=("opt/shop/",)).sources)["strip"] == ["opt/shop/"]
    assert Settings(store="given").sources == ""
    for wrong in (
        "javascript:alert({file})",
        "https://git.example",
        "https://a.b/{file}/{branch}",
        "https://a.b/x",
    ):
        with pytest.raises(ValueError, match=r"URL|none of"):
            parse_source_url(wrong)
