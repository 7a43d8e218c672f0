from __future__ import annotations

from sidelight_cli.local.sampling.process_tree import find_descendants
from tests.cli.local.fake_engine import proc


def test_descendants_are_found_however_deep_and_the_root_is_none_of_them() -> None:
    tree = [proc(1, 0), proc(10), proc(11, 10), proc(12, 11), proc(20), proc(21, 20)]
    assert [one.pid for one in find_descendants(tree, {10})] == [11, 12]
    assert [one.pid for one in find_descendants(tree, {10, 20})] == [11, 12, 21]
    assert find_descendants(tree, {99}) == []


def test_a_process_that_is_its_own_parent_does_not_go_on_forever() -> None:
    assert [one.pid for one in find_descendants([proc(0, 0), proc(5, 0)], {0})] == [5]
