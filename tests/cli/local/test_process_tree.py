from __future__ import annotations

import pytest

from sidelight_cli.local.sampling.process_tree import describe_process, find_descendants
from tests.cli.local.fake_engine import proc


def test_descendants_are_found_however_deep_and_the_root_is_none_of_them() -> None:
    tree = [proc(1, 0), proc(10), proc(11, 10), proc(12, 11), proc(20), proc(21, 20)]
    assert [one.pid for one in find_descendants(tree, {10})] == [11, 12]
    assert [one.pid for one in find_descendants(tree, {10, 20})] == [11, 12, 21]
    assert find_descendants(tree, {99}) == []


def test_a_process_that_is_its_own_parent_does_not_go_on_forever() -> None:
    assert [one.pid for one in find_descendants([proc(0, 0), proc(5, 0)], {0})] == [5]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/python3.11", "/srv/shop/app.py", "--token", "s3cret"], "python3.11 app.py"),
        (["python3", "-u", "-X", "dev", "-m", "http.server", "8000"], "python3 -m http.server"),
        (["python3", "-c", "import secrets"], "python3 -c"),
        (["python3"], "python3"),
        (["python3", "-"], "python3 -"),
        (["/opt/venv/bin/uwsgi", "--ini", "x"], "uwsgi"),
        (["gunicorn: worker [shop]"], "gunicorn: worker [shop]"),
        (["x" * 200], "x" * 79 + "…"),
    ],
)
def test_a_process_is_called_by_what_it_runs_and_never_by_its_arguments(words: list[str], name: str) -> None:
    assert describe_process(proc(1, 0, *words)) == name


def test_a_process_without_a_command_line_is_called_by_its_executable() -> None:
    silent = proc(7)
    assert describe_process(type(silent)(silent.key, 1, executable="/usr/bin/dash")) == "dash"
    assert describe_process(type(silent)(silent.key, 1)) == "?"
