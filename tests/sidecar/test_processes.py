from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.discovery.processes import Proc, ProcessFilter, ProcessKey, select_processes

OWN = 50


def proc(
    pid: int, ppid: int = 1, command: str = "python app.py", python: str | None = "3.11", **more: object
) -> Proc:
    """A process; `command` is split at spaces, but for a title and for code after -c."""
    head, flag, code = command.partition(" -c ")
    words = (command,) if ":" in command else (*head.split(), *((flag.strip(), code) if flag else ()))
    return Proc(
        ProcessKey(pid, pid * 10), ppid, command_line=words, executable="/usr/bin/x", python_version=python,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


SPAWN = "python -c from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)"
TRACKER = "python -c from multiprocessing.resource_tracker import main;main(5)"
FORKSERVER = "python -c from multiprocessing.forkserver import main; main(3, 4, [])"


TREE = [
    proc(1, 0, "init", None),
    proc(10, 1, "sh run.sh", None),
    proc(11, 10, "python gunicorn shop", stack_start=7),
    proc(12, 11, "python gunicorn shop", stack_start=7),
    proc(13, 11, "nginx", None),
    proc(14, 13, "python hook.py"),
    proc(20, 1, "python other.py"),
    proc(OWN, 1, "python -m sidelight.main sidecar --match gunicorn"),
    proc(51, OWN, "py-spy record", None),
    proc(52, 51, "python child-of-py-spy"),
]


def roles(choice: ProcessFilter, tree: list[Proc] | None = None) -> dict[int, str]:
    found = select_processes(TREE if tree is None else tree, choice, own_pid=OWN)
    return {key.pid: one.role for key, one in found.items()}


def test_a_pid_is_watched_with_its_python_descendants() -> None:
    assert roles(ProcessFilter(frozenset({11}))) == {11: "master", 12: "worker", 14: "main"}
    assert roles(ProcessFilter(frozenset({11}), include_children=False)) == {11: "master"}


def test_a_pid_may_be_that_of_a_shell_that_started_python() -> None:
    assert roles(ProcessFilter(frozenset({10}))) == {11: "master", 12: "worker", 14: "main"}
    assert roles(ProcessFilter(frozenset({10}), include_children=False)) == {}


def test_a_pattern_finds_python_processes_by_their_command_line() -> None:
    choice = ProcessFilter(pattern=re.compile("gunicorn"), include_children=False)
    assert roles(choice) == {11: "master", 12: "worker"}
    assert roles(ProcessFilter(pattern=re.compile(r"run\.sh"))) == {}


def test_every_python_process_is_watched_but_the_sidecar_and_what_it_started() -> None:
    assert roles(ProcessFilter(match_all=True)) == {11: "master", 12: "worker", 14: "main", 20: "main"}
    assert roles(ProcessFilter(frozenset({OWN}))) == {}


def test_processes_of_a_nested_namespace_are_watched_only_when_named() -> None:
    tree = [proc(60, is_nested=True)]
    assert roles(ProcessFilter(match_all=True), tree) == {}
    assert roles(ProcessFilter(frozenset({60})), tree) == {60: "main"}


def test_a_zombie_is_not_watched() -> None:
    assert roles(ProcessFilter(match_all=True), [proc(60, state="Z")]) == {}


def test_a_pid_that_is_used_again_is_another_process() -> None:
    first = select_processes([proc(60)], ProcessFilter(match_all=True), own_pid=OWN)
    again = Proc(ProcessKey(60, 9999), 1, command_line=("python",), executable="/x", python_version="3.11")
    second = select_processes([again], ProcessFilter(match_all=True), own_pid=OWN)
    assert first.keys().isdisjoint(second.keys())


def test_a_process_that_cannot_be_looked_into_is_tried_when_its_pid_was_given() -> None:
    hidden = Proc(ProcessKey(60, 1), 1, command_line=("uwsgi",))
    assert roles(ProcessFilter(frozenset({60})), [hidden]) == {60: "main"}
    assert roles(ProcessFilter(match_all=True), [hidden]) == {}


@given(st.dictionaries(st.integers(1, 40), st.integers(0, 40), max_size=40))
def test_any_process_tree_even_a_cyclic_one_is_chosen_from(parents: dict[int, int]) -> None:
    tree = [proc(pid, ppid) for pid, ppid in parents.items()]
    every = select_processes(tree, ProcessFilter(match_all=True), own_pid=OWN)
    assert {key.pid for key in every} == parents.keys() - {OWN}
    for one in every.values():
        # All of them name the same script.
        has_children = one.proc.pid in parents.values()
        is_child = one.proc.ppid in parents
        assert one.role == ("master" if has_children else "worker" if is_child else "main")


def test_a_worker_is_watched_on_when_its_master_has_ended() -> None:
    choice = ProcessFilter(frozenset({11}))
    before = select_processes(TREE, choice, own_pid=OWN)
    told = {key: one.role for key, one in before.items()}
    orphans = [proc(12, 1, "gunicorn shop"), proc(14, 1, "python hook.py"), proc(20, 1, "python other.py")]
    after = select_processes(orphans, choice, own_pid=OWN, previous_roles=told)
    assert {key.pid: one.role for key, one in after.items()} == {12: "worker", 14: "main"}
    alone = ProcessFilter(frozenset({11}), include_children=False)
    assert select_processes(orphans, alone, own_pid=OWN, previous_roles=told) == {}


def test_a_process_that_changes_its_title_is_watched_on() -> None:
    choice = ProcessFilter(pattern=re.compile("shop"))
    before = select_processes([proc(60, command="python shop.py")], choice, own_pid=OWN)
    retitled = [proc(60, command="worker: idle")]
    told = {key: one.role for key, one in before.items()}
    assert select_processes(retitled, choice, own_pid=OWN, previous_roles=told).keys() == before.keys()
    assert select_processes(retitled, choice, own_pid=OWN) == {}


def test_titles_of_their_own_hide_no_family() -> None:
    tree = [
        proc(60, command="gunicorn: master [shop]", stack_start=7),
        proc(61, 60, "gunicorn: worker [shop]", stack_start=7),
        proc(62, 61, "gunicorn: worker [shop]", stack_start=7),
    ]
    # A worker that forks processes of its own is a worker still.
    assert roles(ProcessFilter(match_all=True), tree) == {60: "master", 61: "worker", 62: "worker"}


def test_what_a_process_runs_that_is_another_program_is_not_its_worker() -> None:
    tree = [
        proc(60, command="python /usr/bin/supervisord -n", stack_start=6),
        proc(61, 60, "python -u /usr/bin/gunicorn shop", stack_start=7),
        proc(62, 61, "python -u /usr/bin/gunicorn shop", stack_start=7),
        proc(63, 62, "python -c print()", stack_start=8),
    ]
    assert roles(ProcessFilter(match_all=True), tree) == {60: "main", 61: "master", 62: "worker", 63: "main"}


def test_a_program_that_runs_itself_again_is_master_and_worker() -> None:
    tree = [
        proc(60, command="python -X dev manage.py runserver", stack_start=6),
        proc(61, 60, "python -X dev manage.py runserver", stack_start=7),
        proc(70, command="python -Im shop --processes 1", stack_start=8),
        proc(71, 70, "python -Im shop --number 1", stack_start=9),
        proc(72, 70, "python -Im other --number 1", stack_start=5),
    ]
    assert roles(ProcessFilter(match_all=True), tree) == {
        60: "master", 61: "worker", 70: "master", 71: "worker", 72: "main",
    }  # fmt: skip


def test_a_master_that_an_older_one_starts_in_its_place_is_a_master_too() -> None:
    """gunicorn's upgrade on USR2: the new master is the old one's child, by fork and exec."""
    tree = [
        proc(60, command="gunicorn: master [shop]", stack_start=6),
        proc(61, 60, "gunicorn: worker [shop]", stack_start=6),
        proc(65, 60, "gunicorn: master [shop]", stack_start=7),
        proc(66, 65, "gunicorn: worker [shop]", stack_start=7),
    ]
    assert roles(ProcessFilter(match_all=True), tree) == {
        60: "master",
        61: "worker",
        65: "master",
        66: "worker",
    }


def test_what_multiprocessing_spawns_is_a_worker_and_its_aids_are_not_watched() -> None:
    tree = [
        proc(60, command="python serve.py", stack_start=6),
        proc(61, 60, SPAWN, stack_start=7),
        proc(62, 60, TRACKER, stack_start=8),
        proc(63, 60, FORKSERVER, stack_start=9),
        proc(64, 63, FORKSERVER, stack_start=9),
        proc(70, command="python plain.py", stack_start=5),
        proc(71, 70, TRACKER, stack_start=4),
    ]
    expected = {60: "master", 61: "worker", 64: "worker"}
    assert roles(ProcessFilter(frozenset({60})), tree) == expected
    assert roles(ProcessFilter(match_all=True), tree) == {**expected, 70: "main"}
    assert roles(ProcessFilter(frozenset({63})), tree) == {63: "main", 64: "worker"}


def test_a_role_changes_when_workers_appear_and_not_when_they_are_replaced() -> None:
    alone, worker = proc(60, stack_start=6), proc(61, 60, stack_start=6)
    choice = ProcessFilter(frozenset({60}))
    told: dict[ProcessKey, str] = {}
    seen = []
    for tree in ([alone], [alone, worker], [alone], [worker]):
        found = select_processes(tree, choice, own_pid=OWN, previous_roles=told)
        told = {key: one.role for key, one in found.items()}
        seen.append({key.pid: role for key, role in told.items()})
    assert seen == [{60: "main"}, {60: "master", 61: "worker"}, {60: "master"}, {}]


def test_a_daemon_whose_workers_appear_after_its_parent_has_gone_is_a_master() -> None:
    choice = ProcessFilter(frozenset({60}))
    forking = select_processes([proc(60, stack_start=6), proc(61, 60, stack_start=6)], choice, own_pid=OWN)
    told = {key: one.role for key, one in forking.items()}
    daemon = [proc(61, 1, stack_start=6), proc(62, 61, stack_start=6)]
    found = select_processes(daemon, choice, own_pid=OWN, previous_roles=told)
    assert {key.pid: one.role for key, one in found.items()} == {61: "master", 62: "worker"}


def test_a_fork_that_may_be_about_to_run_something_else_is_not_taken_for_a_worker() -> None:
    tree = [proc(60, stack_start=6), proc(61, 60, stack_start=6, is_starting=True)]
    assert roles(ProcessFilter(frozenset({60})), tree) == {60: "main"}
    # One that was named is not kept waiting.
    assert roles(ProcessFilter(frozenset({61})), tree) == {61: "worker"}
