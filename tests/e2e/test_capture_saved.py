"""A capture's result in a file, by the command that took it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidelight.saving import FORMATS, saved_as
from tests.e2e.test_capture_command import served, told
from tests.running import Collector

__all__ = ["served"]


@pytest.mark.parametrize(("name", "begins"), [("p.json", '{"$schema"'), ("p.folded", ""), ("p.svg", "<")])
def test_a_result_is_saved_in_the_format_that_the_name_says(
    served: Collector,
    tmp_path: Path,
    name: str,
    begins: str,
) -> None:
    file = tmp_path / name
    done = told(served.url, "--seconds", "1", "--save", str(file), "shares")
    assert done.returncode == 0, done.stderr
    assert f"written to {file}" in done.stderr
    text = file.read_text()
    assert "seventy" in text
    assert text.startswith(begins)
    if name.endswith(".json"):
        assert json.loads(text)["profiles"]
    assert [one.name for one in tmp_path.glob("*p.*part")] == []


def test_a_name_that_says_no_format_and_a_place_that_takes_no_file_are_refused(
    served: Collector,
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="does not end with"):
        saved_as("profile.bin")
    assert set(FORMATS.values()) == {"folded", "speedscope", "pprof", "svg", "html", "csv"}
    refused = told(served.url, "--save", "p.bin", "shares")
    assert refused.returncode == 2
    failed = told(served.url, "--seconds", "1", "--save", str(tmp_path / "none" / "p.svg"), "shares")
    assert failed.returncode == 1
    assert "cannot write" in failed.stderr


def test_what_does_not_go_together_is_refused(served: Collector) -> None:
    for argv in (("--detach", "--open"), ("--container", "app")):
        assert told(served.url, *argv, "shares").returncode == 2
    refused = told(served.url, "--attach", "shares")
    assert refused.returncode == 1
    assert "--attach-image" in refused.stderr
