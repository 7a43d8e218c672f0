"""Stacks of real programs come back whole, legal and unambiguous as text."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from sidelight_native import Engine, escape

from sidelight_model import frames
from tests.native.conftest import PYTHONS, TARGETS

# 3.11 and 3.12 enter a call in several steps, and can be stopped between them; 3.13 does not.
# Frames of 3.10 are objects on the heap.
FORMS = [
    version
    for prefix in ("3.11.", "3.12.", "3.13.", "3.10.")
    for version in PYTHONS
    if version.startswith(prefix)
]
ENTERING = {version: PYTHONS[version] for version in FORMS} or {"this": Path(sys.executable)}

OWN_GIL = {v: path for v, path in PYTHONS.items() if int(v.split(".")[1]) >= 12}
NEWEST = list(PYTHONS)[-1]
OLD = {v: path for v, path in PYTHONS.items() if v.startswith("3.10.")}
EACH_END = dict([next(iter(PYTHONS.items())), list(PYTHONS.items())[-1]])


def functions(stack):
    return [frame.split(" (")[0] for frame in stack.split(";")]


def test_recursion_1000_deep_comes_back_whole(start, collect):
    target = start("recursion", 30, 1000)
    taken = collect(Engine().attach(target.pid, rate_hz=20), 20)
    names = [functions(stack) for stack in taken.counts]
    assert all(stack[:2] == ["<module>", "main"] and stack.count("descend") == 1000 for stack in names)
    assert sum(batch.truncated for batch in taken.batches) == 0


def test_a_stack_deeper_than_the_limit_shows_where_it_was_cut(start, collect):
    target = start("recursion", 30, 1000)
    taken = collect(Engine().attach(target.pid, rate_hz=20, max_depth=100), 20)
    for stack in taken.counts:
        names = stack.split(";")
        assert len(names) == 100
        assert names[50] == frames.TRUNCATED
        assert names[0].startswith("<module>")
        assert names[-1].startswith("work")
    assert sum(batch.truncated for batch in taken.batches) == taken.samples


def test_a_stack_deeper_than_py_spy_can_read_is_a_counted_failure(start, wait_until):
    target = start("plunge")
    session = Engine().attach(target.pid, rate_hz=50, reader="py-spy")
    target.stdin.write("\n")
    target.stdin.flush()
    wait_until(lambda: session.take().errors.get("depth", 0) > 0)
    assert session.ended is None
    session.stop()


@pytest.mark.parametrize("python", [sys.executable, *map(str, OLD.values())])
def test_the_own_reader_cuts_a_stack_of_any_depth(start, wait_until, python):
    target = start("plunge", python=python)
    session = Engine().attach(target.pid, rate_hz=50, reader="own", max_depth=200)
    target.stdin.write("\n")
    target.stdin.flush()
    wait_until(lambda: session.take().truncated > 0)
    assert session.ended is None
    session.stop()


def test_awaits_are_a_call_path_from_the_event_loop_to_the_leaf(start, collect):
    target = start("tasks", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=200), 400)
    busy = [functions(stack) for stack in taken.counts if "compute" in functions(stack)]
    assert busy
    assert all(stack[-4:] == ["serve", "handle", "fetch", "compute"] for stack in busy)
    counts = taken.states_of("EpollSelector.select")
    assert counts.poll > counts.gil


def test_greenlets_are_sampled_as_whoever_runs_and_the_waiting_hub_is_in_poll(start, collect):
    target = start("greenlets", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=200), 400)
    assert taken.of("handle")[2] > 0
    counts = taken.states_of("Hub.run")
    assert counts.poll > counts.gil


def test_names_of_any_script_come_back_as_they_are(start, collect):
    target = start("names", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=200), 100)
    assert ["<module>", "𠮷_μέτρο", "計算", "größe"] in [functions(stack) for stack in taken.counts]


def test_hostile_names_are_escaped_so_that_every_stack_reads_back(start, collect):
    target = start("hostile", 30, "newlines")
    taken = collect(Engine().attach(target.pid, rate_hz=200), 400)
    seen = {tuple(map(frames.unescape_frame, stack.split(";"))) for stack in taken.counts}
    inner = {frames.Frame.parse(stack[2]) for stack in seen if len(stack) == 3}
    assert {frame.function for frame in inner} == {"<spaced name> 12", "#comment; x", "[idle]", "%3B"}
    assert {frame.file for frame in inner} == {"my app; v 2.py", "line\nend\r.py", "100%3B.py"}


def test_a_hostile_path_on_disk_cannot_break_a_stack(start, collect, tmp_path):
    package = tmp_path / "a b;c\nd"
    package.mkdir()
    (package / "__init__.py").touch()
    program = package / "run #1.py"
    program.write_text(
        "import time\nend = time.monotonic() + 30\nprint('ready', flush=True)\n"
        "def f():\n    while time.monotonic() < end: pass\nf()\n"
    )
    target = start(program)
    taken = collect(Engine().attach(target.pid, rate_hz=200), 50)
    assert "<module> (a b%3Bc%0Ad/run #1.py:6);f (a b%3Bc%0Ad/run #1.py:5)" in taken.counts


UNNAMED_PYTHONS = [version for version in PYTHONS if tuple(map(int, version.split(".")[:2])) >= (3, 8)]


@pytest.mark.parametrize(
    ("python", "reader"),
    [*((version, "own") for version in UNNAMED_PYTHONS), *((version, "py-spy") for version in OLD)],
)
def test_code_without_a_usable_name_has_a_frame_of_its_own(start, collect, python, reader):
    target = start("unnamed", 60, python=str(PYTHONS[python]))
    session = Engine(max_stop_us=20_000).attach(target.pid, rate_hz=200, reader=reader)
    taken = collect(session, 200)
    called = {
        stack.partition(";caller ")[2].partition(";")[2] for stack in taken.counts if ";caller " in stack
    }
    names = {re.sub(r":\d+\)$", ")", frame) for frame in called}
    kinds = {"<module> (<unknown>)", "<module> (\ufffd.py)"}
    assert kinds <= names
    assert any(name.startswith("<module> (longlong") or "/longlong" in name for name in names)
    assert any(name.startswith("xxxx") and name.endswith("… (<unknown>)") for name in names)
    # `caller` itself hardly ever works.
    self_samples = sum(
        sum(states)
        for stack, states in taken.counts.items()
        if stack.rpartition(";")[2].startswith("caller ")
    )
    assert self_samples <= taken.samples * 0.1
    # Since Python 3.11 a name is qualified.
    paths = {tuple(name.removeprefix("Made.") for name in functions(stack)) for stack in taken.counts}
    assert {path for path in paths if path[-1] == "work"} == {("<module>", "__init__", "work")}


CALLING = ["functions", "generators", "coroutines"]


@pytest.mark.parametrize(
    ("program", "python"),
    [
        # In a short run each program is on one of them.
        pytest.param(
            program,
            python,
            id=f"{program}-{version}",
            marks=[] if at % len(CALLING) == place else pytest.mark.long,
        )
        for at, (version, python) in enumerate(ENTERING.items())
        for place, program in enumerate(CALLING)
    ],
)
def test_every_stack_is_a_call_path_that_exists(start, collect, program, python):
    target = start(program, 90, python=str(python))
    taken = collect(Engine().attach(target.pid, rate_hz=2000), 1000)
    assert impossible(taken) == {}
    assert {functions(stack)[0] for stack in taken.counts} == {"<module>"}
    assert 2 < mean_depth(taken) < 6
    assert taken.misread < 0.25 * taken.attempts


@pytest.mark.parametrize("python", OWN_GIL.values(), ids=OWN_GIL)
def test_interpreters_with_a_gil_of_their_own_are_each_read_as_they_are(start, collect, wait_until, python):
    programs = ("functions.py", "generators.py")
    target = start("subinterpreters", 90, *programs, python=str(python))
    session = Engine().attach(target.pid, rate_hz=1000)
    assert (session.mode, session.reader) == ("gil", "own")
    wait_until(both_seen(session, *programs))
    taken = collect(session, 1000)
    assert impossible(taken) == {}
    held = {
        program: sum(sum(counts[2:5]) for stack, counts in taken.counts.items() if program in stack)
        for program in programs
    }
    # Both hold a GIL nearly all the time, on a CPU or while they wait for one.
    assert all(gil > 0.5 * (taken.attempts - taken.failed) for gil in held.values()), held
    assert taken.misread < 0.25 * taken.attempts


def both_seen(session, *texts):
    """Whether stacks with each of these texts have been seen."""
    seen = set()

    def have_been():
        stacks = [stack for _, stack, *_ in session.take().counts]
        seen.update(text for text in texts for stack in stacks if text in stack)
        return len(seen) == len(texts)

    return have_been


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        pytest.param(version, mode, marks=[] if mode == "gil" or version == NEWEST else pytest.mark.long)
        for version in OWN_GIL
        for mode in ("gil", "blocking", "nonblocking")
    ],
)
def test_a_thread_that_runs_code_in_an_interpreter_has_one_stack_that_is_read_whenever_it_ran(
    start, collect, wait_until, version, mode
):
    target = start("subinterpreters", 90, "naps.py", python=str(OWN_GIL[version]))
    session = Engine().attach(target.pid, rate_hz=100, mode=mode)
    wait_until(both_seen(session, "first (naps.py", "second (naps.py"))
    taken = collect(session, 200)
    assert all(sum(taken.of(nap)) > 0.2 * (taken.attempts - taken.failed) for nap in ("first", "second"))
    naps = [functions(stack) for stack in taken.counts if "naps.py" in stack]
    # Python 3.12 does not tell which thread is in an interpreter that another thread made.
    told = not version.startswith("3.12.")
    assert all(("run" in stack) == told for stack in naps)
    # The thread that waits for its seconds, and the one that naps.
    assert taken.samples == (2 if told else 3) * (taken.attempts - taken.failed)


@pytest.mark.parametrize("python", EACH_END.values(), ids=EACH_END)
def test_a_process_in_a_pid_namespace_of_its_own_is_read_as_it_is(in_namespace, collect, python):
    session = Engine().attach(in_namespace("functions", 90, python=str(python)), rate_hz=1000, mode="gil")
    taken = collect(session, 300)
    assert impossible(taken) == {}
    assert sum(batch.stops for batch in taken.batches) > 0
    assert {thread for batch in taken.batches for thread, *_ in batch.counts} == {"main"}
    assert taken.misread < 0.25 * taken.attempts


@pytest.fixture
def in_namespace():
    """Start a target as the first process of a pid namespace: its pid outside."""
    with ExitStack() as stack:

        def start(name, *arguments, python):
            unshare = ["unshare", "--pid", "--fork", "--kill-child"]
            unshare += [] if os.geteuid() == 0 else ["--map-root-user"]
            command = [*unshare, python, str(TARGETS / f"{name}.py"), *map(str, arguments)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
            [inner] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            return int(inner)

        yield start


def called(stack):
    return [int(name[1:]) for name in functions(stack) if name[0] == "g" and name[1:].isdigit()]


def impossible(taken):
    """The stacks in which a function calls one that it never calls, with their samples."""
    return {
        stack: sum(counts)
        for stack, counts in taken.counts.items()
        if any(b // 2 != a % 32 for a, b in pairwise(called(stack)))
    }


def mean_depth(taken):
    return sum(len(called(stack)) * sum(counts) for stack, counts in taken.counts.items()) / taken.samples


@pytest.mark.parametrize(
    "text",
    ["f (a.py:3)", "a;b", "l\nr\r", "%3B", "%3b", "%253B", "%%0A", "%", "%2", "[idle]", "[gil]", "[gil] x",
     "#", "##", " # ", "ü;𠮷", "\x00\x1c\u2028", "", "%5Bidle]", "%23"],
)  # fmt: skip
def test_the_sampler_and_the_stacks_package_escape_alike(text):
    assert escape(text) == frames.escape_frame(text)
    assert frames.unescape_frame(escape(text)) == text


def test_escaping_agrees_on_every_short_text_of_the_letters_that_matter():
    texts = [""]
    for _ in range(4):
        texts = ["", *(letter + text for letter in "%350BAD[#;\nx" for text in texts)]
    assert [text for text in texts if escape(text) != frames.escape_frame(text)] == []
