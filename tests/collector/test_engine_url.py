"""What --engine takes, and what nobody gets to see of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight.settings import BadSetting, mask_secrets, parse_settings
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engines.clickhouse.sql import build_object_prefix
from sidelight_collector.settings import engine
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings.engine import ClickHouseUrl, EngineUrl, TrinoUrl, parse_engine_url
from sidelight_collector.settings_wiring import build_stage1

SECRET = "s3cr%2Ft"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clickhouse://host", ClickHouseUrl("host")),
        ("clickhouse://host:9000/", ClickHouseUrl("host", 9000)),
        ("clickhouse://[::1]:1", ClickHouseUrl("::1", 1)),
        ("clickhouse://me:pa%40%2F%3A@host", ClickHouseUrl("host", user="me", password="pa@/:")),
        ("clickhouse://host?secure=1", ClickHouseUrl("host", 8443, secure=True)),
        ("clickhouse://host:1/?secure=0&cluster=prod-1.x", ClickHouseUrl("host", 1, cluster="prod-1.x")),
        (
            "clickhouse://host/?collection=profiles&endpoint=https://s3.internal:9000",
            ClickHouseUrl("host", collection="profiles", endpoint="https://s3.internal:9000"),
        ),
        ("trino://host/profiles/sidelight", TrinoUrl("host")),
        ("trino://me@[::1]:1/lake/prod_1", TrinoUrl("::1", 1, user="me", catalog="lake", schema="prod_1")),
        (
            "trino://me:pa%40%2F%3A@host/profiles/sidelight?secure=1",
            TrinoUrl("host", 8443, secure=True, user="me", password="pa@/:"),
        ),
    ],
)
def test_a_url_says_where_the_engine_is_and_how_it_comes_to_the_objects(
    text: str, expected: EngineUrl
) -> None:
    assert parse_engine_url(text) == expected
    assert "pa@" not in f"{expected} {expected!r}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:8123",
        f"http://u:{SECRET}@host",
        f"clickhouse://u:{SECRET}@",
        f"clickhouse://u:{SECRET}@host/database",
        f"clickhouse://u:{SECRET}@host/?max_threads=1",
        f"clickhouse://u:{SECRET}@host/?secure=yes",
        f"clickhouse://u:{SECRET}@host/?secure=1&secure=1",
        f"clickhouse://u:{SECRET}@host/?cluster=",
        f"clickhouse://u:{SECRET}@host/?cluster=a'b",
        f"clickhouse://u:{SECRET}@host/?collection=a.b",
        f"clickhouse://u:{SECRET}@host/?endpoint=file:///etc",
        f"clickhouse://u:{SECRET}@host/?cluster",
        f"clickhouse://u:{SECRET}@host:port",
        "clickhouse://u:s3cr/t@host",
        "clickhouse://u:s3cr#t@host",
        f"clickhouse://u:{SECRET}@host/#there",
        f"clickhouse://a%3Ab:{SECRET}@host",
        f"trino://u:{SECRET}@host",
        f"trino://u:{SECRET}@host/catalog?secure=1",
        f"trino://u:{SECRET}@host/Catalog/schema?secure=1",
        f"trino://u:{SECRET}@host/catalog/sche;ma?secure=1",
        f"trino://u:{SECRET}@host/catalog/schema/table?secure=1",
        f"trino://u:{SECRET}@host/catalog/schema?secure=1&cluster=a",
        f"trino://%C3%BC:{SECRET}@host/catalog/schema?secure=1",
        f"trino://u:{SECRET}@host/catalog/schema",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(BadSetting) as refused:
        parse_settings(Settings, "collector", "", ["--store", "s3://bucket", "--engine", text], {})
    assert "s3cr" not in f"{refused.value.message} {refused.value.hint}"


def test_neither_the_settings_nor_the_help_show_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"SIDELIGHT_ENGINE": f"clickhouse://u:{SECRET}@host", "SIDELIGHT_STORE": "s3://bucket"}
    settings = parse_settings(Settings, "collector", "", [], environ)
    assert settings.engine == ClickHouseUrl("host", user="u", password="s3cr/t")
    assert mask_secrets(settings)["engine"] == "***"
    assert "s3cr" not in repr(settings)
    with pytest.raises(SystemExit):
        parse_settings(Settings, "collector", "", ["--help"], environ)
    told = capsys.readouterr().out
    assert "--engine-password-file" in told
    assert "s3cr" not in told


@pytest.mark.parametrize("url", [ClickHouseUrl("host"), TrinoUrl("host")])
@pytest.mark.parametrize("store", ["./data", "/s3/bucket", "given"])
def test_an_engine_needs_a_store_that_it_can_read(store: str, url: EngineUrl) -> None:
    with pytest.raises(BadSetting, match="not in S3"):
        Settings(store=store, engine=url)
    assert Settings(store="s3://bucket", engine=url).engine_fallback


def test_trino_gets_a_password_over_https_only(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    for url in (TrinoUrl("host", password="x"), TrinoUrl("host")):
        with pytest.raises(BadSetting, match="no HTTPS"):
            Settings(store="s3://bucket", engine=url, engine_password_file=None if url.password else file)
    given = Settings(store="s3://bucket", engine=TrinoUrl("host", secure=True), engine_password_file=file)
    made = build_stage1(given, Metrics())
    assert made is not None
    assert made.client.server.password == "secret"


def test_trino_needs_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _: None)
    with pytest.raises(BadSetting, match="not installed"):
        Settings(store="s3://bucket", engine=TrinoUrl("host"))
    assert Settings(store="s3://bucket", engine=ClickHouseUrl("host")).engine


@pytest.mark.parametrize("store", ["s3://bucket/a b", "s3://bucket/${day}", "s3://bucket//a", "s3://"])
def test_a_prefix_that_trino_would_read_otherwise_is_refused(store: str) -> None:
    with pytest.raises(BadSetting, match="otherwise"):
        build_stage1(Settings(store=store, engine=TrinoUrl("host")), Metrics())


@pytest.mark.parametrize(
    "store", ["s3://bucket/a b", "s3://bucket/{a,b}", "s3://bucket/a*", "s3://bucket/h=1"]
)
def test_a_prefix_that_clickhouse_would_read_otherwise_is_refused(store: str) -> None:
    settings = Settings(store=store, engine=ClickHouseUrl("host"), s3_endpoint="http://s3")
    with pytest.raises(BadSetting, match="pattern"):
        build_stage1(settings, Metrics())


def test_objects_are_where_the_server_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    at = ClickHouseUrl("host")
    assert build_object_prefix(at, "s3://bucket", "http://s3:9000/") == "http://s3:9000/bucket/"
    assert (
        build_object_prefix(at, "s3://bucket/some/prefix/", "http://s3:9000")
        == "http://s3:9000/bucket/some/prefix/"
    )
    assert (
        build_object_prefix(at, "s3://bucket/prefix", None)
        == "https://s3.eu-west-1.amazonaws.com/bucket/prefix/"
    )
    elsewhere = ClickHouseUrl("host", endpoint="http://minio:9000")
    assert (
        build_object_prefix(elsewhere, "s3://bucket/prefix", "http://s3")
        == "http://minio:9000/bucket/prefix/"
    )
    named = ClickHouseUrl("host", collection="profiles")
    assert build_object_prefix(named, "s3://bucket/prefix", "http://s3") == "prefix/"
    assert build_object_prefix(named, "s3://bucket", "http://s3") == ""


def test_the_password_comes_from_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" with spaces \r\n")
    given = Settings(
        store="s3://bucket",
        engine=ClickHouseUrl("host"),
        engine_password_file=file,
        s3_endpoint="http://s3",
    )
    made = build_stage1(given, Metrics())
    assert made is not None
    assert made.client.server.password == " with spaces "
    file.unlink()
    with pytest.raises(BadSetting, match="cannot read the password"):
        build_stage1(given, Metrics())


@pytest.mark.parametrize("url", [None, ClickHouseUrl("host", password="x")])
def test_a_password_file_stands_beside_a_url_without_one(url: ClickHouseUrl | None, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="engine_password_file"):
        Settings(store="s3://bucket", engine=url, engine_password_file=tmp_path / "password")
