"""`sidelight storage trino-ddl`: the statements that make stored objects tables of Trino."""

from __future__ import annotations

import pytest

from sidelight_collector.storage.tables import SCHEMAS
from sidelight_collector.storage.trino_ddl import TRINO_PARTS, build_trino_ddl
from tests.collector.test_storage_command import run


def test_every_table_has_the_stored_columns_and_reads_the_folder_of_a_day() -> None:
    schema, *tables = build_trino_ddl("s3://bucket/some/prefix/", "profiles", "sidelight")
    assert schema == "CREATE SCHEMA IF NOT EXISTS profiles.sidelight"
    assert len(tables) == len(TRINO_PARTS)
    for part, text in zip(TRINO_PARTS, tables, strict=True):
        assert text.startswith(f"CREATE TABLE IF NOT EXISTS profiles.sidelight.{part} (")
        assert all(f'"{name}" ' in text for name in SCHEMAS[part].names)
        assert '"h" bigint' in text
        assert "location_template = 's3://bucket/some/prefix/v1/${level}/${day}/'" in text


def test_the_command_prints_statements_and_drops_tables_only_to_replace_them() -> None:
    plain = run("trino-ddl", "--store", "s3://bucket")
    assert (plain.returncode, plain.stdout.count(";\n")) == (0, 1 + len(TRINO_PARTS))
    assert "DROP" not in plain.stdout
    named = ("--catalog", "lake", "--schema", "prod")
    replaced = run("trino-ddl", "--store", "s3://bucket", "--replace", *named)
    assert replaced.stdout.count("DROP TABLE IF EXISTS lake.prod.") == len(TRINO_PARTS)


@pytest.mark.parametrize(
    "changed",
    [
        {"store": "./data"},
        {"store": "s3://bucket/it's"},
        {"store": "s3://bucket/${day}"},
        {"catalog": "a.b"},
        {"schema": "Profiles"},
        {"schema": "a;b"},
    ],
)
def test_names_that_trino_would_read_otherwise_are_refused(changed: dict[str, str]) -> None:
    given = {"store": "s3://bucket", "catalog": "profiles", "schema": "sidelight", **changed}
    with pytest.raises(ValueError, match="is no"):
        build_trino_ddl(given["store"], given["catalog"], given["schema"])
