"""`sidelight notes` with a real collector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidelight.main import run
from sidelight.settings import BadSetting
from sidelight_cli.notes_command import NotesSettings
from tests.processes import collector


def test_notes_are_added_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str, status: int = 0) -> str:
        assert run(["notes", *words]) == status
        return capsys.readouterr().out

    with collector(tmp_path, str(tmp_path / "store")) as served:
        monkeypatch.setenv("SIDELIGHT_COLLECTOR", served.url)
        # The namespace of a pod that this runs in is not that of the service.
        monkeypatch.setenv("SIDELIGHT_NAMESPACE", "elsewhere")
        made = told(
            "add",
            "shop",
            "Cache on\nfor \x1b[2J all",
            "--from",
            "-1h",
            "--until",
            "-30m",
            "--namespace",
            "web",
        )
        identity, namespace, *_ = made.split()
        assert namespace == "web"
        assert made.splitlines()[1:] == ["  Cache on", "  for \\x1b[2J all"]
        told("add", "shop", "slow", "--function", "render (shop/views.py)")
        assert "render (shop/views.py)\n  slow\n" in told("list", "shop", "--from", "-10m")
        assert identity not in told("list", "shop", "--from", "-10m")
        assert [note["text"] for note in json.loads(told("list", "shop", "--json"))][1:] == ["slow"]
        assert told("list", "shop", "--namespace", "web") == made
        assert told("remove", identity) == ""
        assert told("list", "shop", "--namespace", "web") == ""
        assert told("remove", identity, status=1) == ""


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "'' is not list, add or remove"),
        (("show",), "'show' is not list, add or remove"),
        (("add", "shop"), "add needs the text"),
        (("list",), "list needs the service"),
        (("remove",), "remove needs the id of a note"),
        (("list", "shop", "more"), "'more' is one word too many"),
    ],
)
def test_a_missing_word_is_named(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(BadSetting, match=problem):
        NotesSettings(*words)
