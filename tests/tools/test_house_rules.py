"""Checks of the rules in CONTRIBUTING.md that no linter covers."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.tools.naming import (
    find_banned_names,
    find_large_classes,
    find_large_folders,
    find_long_summaries,
    find_repeated_classes,
    find_repeated_modules,
    read_modules,
)

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 500
WORDS_THAT_SAY_NOTHING = {
    "utils",
    "util",
    "helpers",
    "common",
    "manager",
    "processor",
    "data",
    "info",
    "misc",
}
NO_METHODS = ("depth_comparison", "design", "rate_estimates")
"""Modules that only arrange the data of the methods."""
GENERATED = [ROOT / "web/src/api/schema.ts"]
"""Written by a program: nobody reads them from top to bottom."""
SOURCES = [
    path
    for top, suffixes in (
        *((folder.parent.name, {".py"}) for folder in sorted(ROOT.glob("*/pyproject.toml"))),
        ("native/src", {".rs"}),
        ("web/src", {".ts", ".tsx"}),
    )
    for path in sorted((ROOT / top).rglob("*"))
    if path.suffix in suffixes and path not in GENERATED
]


def test_no_module_is_longer_than_a_reader_can_hold():
    long = {
        str(path.relative_to(ROOT)): count
        for path in SOURCES
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_modules_of_statistics_are_short_and_their_methods_cite_a_source():
    folder = ROOT / "collector/sidelight_collector/statistics"
    texts = {path: path.read_text() for path in folder.rglob("*.py")}
    assert not [str(path) for path, text in texts.items() if len(text.splitlines()) >= 200]
    methods = {
        path.stem: text
        for path, text in texts.items()
        if path.parent.name in ("inference", "depths") and path.stem not in ("__init__", *NO_METHODS)
    }
    assert methods
    assert not [
        name for name, text in methods.items() if not re.search(r"\b(18|19|20)\d\d\b", text.split('"""')[1])
    ]


def test_no_module_is_named_by_a_word_that_says_nothing():
    assert [str(path) for path in SOURCES if path.stem.lower() in WORDS_THAT_SAY_NOTHING] == []


@pytest.mark.parametrize(
    "find",
    [
        find_large_folders,
        find_repeated_modules,
        find_repeated_classes,
        find_banned_names,
        find_long_summaries,
        find_large_classes,
    ],
)
def test_names_and_sizes_follow_the_rules(find):
    assert not find(read_modules())


def test_make_help_lists_every_target_a_person_may_ask_for():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE))
    assert _listed_by_make() == phony


def test_contributing_explains_every_make_target():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`make ([a-z0-9.-]+)", text))
    assert explained == _listed_by_make()


def _listed_by_make() -> set[str]:
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {line.split()[0] for line in listed.stdout.splitlines()}
