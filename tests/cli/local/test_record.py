"""`sidelight record` as a person types it, on real processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import jsonschema
import pytest

from sidelight_cli.local import record_command
from sidelight_model.counts import ZERO, Counts
from sidelight_model.folded import parse_folded, split_stack
from sidelight_model.frames import unescape_frame
from tests.cli.local.conftest import STORY, Start, Tool, states, work_on
from tests.cli.local.terminals import terminal
from tests.model.test_aggregate import SAMPLED
from tests.model.test_svg import drawn
from tests.processes import eventually, sidelight

PYTHON_STORY = (sys.executable, str(STORY))


def spent(text: str, function: str) -> Counts:
    """The samples that ended in a function."""
    total = ZERO
    for stack, counts in parse_folded(text).items():
        if split_stack(stack)[-1].startswith(f"{function} ("):
            total = total.plus(counts)
    return total


def roots(text: str) -> set[str]:
    return {unescape_frame(split_stack(stack)[0]) for stack in parse_folded(text)}


def test_folded_text_has_every_state_and_line_and_the_numbers_are_told(start: Start, tool: Tool) -> None:
    target = start("600", "1")
    text = tool.record(target, "x.folded")
    assert spent(text, "compute").gil > 0
    assert "child_work" not in text
    assert spent(text, "rest").off_cpu > 0
    assert "compute (story.py:1" in text
    for words in (
        f"recording process {target.pid} python",
        "wrote x.folded (folded)",
        "of 100 samples/s",
        "the target lost",
        "sampling took",
        "most in:",
        "compute (story.py)",
    ):
        assert words in tool.read("record.log")
    assert "t" not in states(target.pid).lower()


def test_speedscope_has_a_lane_for_each_thread_as_long_as_the_recording(start: Start, tool: Tool) -> None:
    document = json.loads(tool.record(start(), "x.speedscope.json"))
    assert {"MainThread", "größe;1"} <= {profile["name"] for profile in document["profiles"]}
    frames = document["shared"]["frames"]
    assert "compute" in {frame["name"] for frame in frames}
    assert len({profile["endValue"] for profile in document["profiles"]}) == 1
    for profile in document["profiles"]:
        jsonschema.validate(profile, SAMPLED)
        assert sum(profile["weights"]) == profile["endValue"] > 0
        assert all(0 <= code < len(frames) for codes in profile["samples"] for code in codes)
        assert [] in profile["samples"]


def test_a_timeline_shows_the_waiting_when_asked(start: Start, tool: Tool) -> None:
    document = json.loads(tool.record(start(), "x.json", "--idle"))
    assert "rest" in {frame["name"] for frame in document["shared"]["frames"]}


def test_a_flame_graph_shows_where_the_time_went(start: Start, tool: Tool) -> None:
    target = start()
    svg = tool.record(target, "x.svg")
    boxes = drawn(svg.encode())
    assert boxes[0].name == "total"
    assert boxes[0].total > 0
    assert "compute (story.py)" in {box.name for box in boxes}
    assert f"process {target.pid} python" in svg


def test_a_file_that_is_not_named_is_a_flame_graph_in_this_folder(start: Start, tool: Tool) -> None:
    target = start()
    done = tool.run("record", "-p", str(target.pid), "-d", "2")
    assert done.returncode == 0, done.stderr
    (path,) = tool.folder.glob(f"sidelight-{target.pid}-*.svg")
    assert drawn(path.read_bytes())[0].name == "total"
    assert "for 2 s" in done.stderr


def test_standard_output_has_the_profile_and_nothing_else(start: Start, tool: Tool) -> None:
    done = tool.run("record", "-p", str(start().pid), "-d", "2", "-o", "-")
    assert done.returncode == 0, done.stderr
    assert parse_folded(done.stdout)


def test_threads_are_roots_with_their_names_when_asked(start: Start, tool: Tool) -> None:
    assert roots(tool.record(start(), "x.folded", "-t")) == {"thread MainThread", "thread größe;1"}


def test_children_are_added_up_or_kept_apart(start: Start, tool: Tool) -> None:
    target = start("600", "2")
    merged = tool.record(target, "merged.folded", "-s", others=2)
    assert "child_work" in merged
    assert not any(root.startswith("process") for root in roots(merged))
    apart = tool.record(target, "apart.folded", "--processes", others=2)
    assert len(roots(apart)) == 3
    assert all(root.startswith("process ") and root.endswith("story.py") for root in roots(apart))
    assert "of 4 threads" in tool.read("record.log")


def test_on_a_terminal_it_says_how_far_it_is_and_ctrl_c_writes_what_there_is(
    start: Start, tool: Tool
) -> None:
    argv = ("record", "-p", str(start().pid), "-d", "600", "-o", "x.folded")
    with terminal(*argv, columns=60, cwd=tool.folder) as one:
        eventually(
            "it says how far it is", lambda: re.search(r"\r\x1b\[K[1-9][0-9.]* of 600 s · [1-9]", one.text)
        )
        one.type("\x03")
        assert one.ended() == 0
        eventually("it says what was written", lambda: "wrote x.folded" in one.text)
        progress = [line for line in re.split(r"[\r\n]", one.text) if " of 600 s" in line]
        assert all(len(line.removeprefix("\x1b[K").removesuffix("^C")) < 60 for line in progress)
    assert spent(tool.read("x.folded"), "compute") != ZERO


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_recording_and_what_there_is_is_written(
    start: Start, tool: Tool, number: signal.Signals
) -> None:
    target = start()
    recorder = tool.begin("record", "-p", str(target.pid), "-d", "0", "-o", "x.folded")
    work_on(recorder.pid, target.pid)
    assert recorder.end(number, seconds=60) == 0, recorder.said()
    assert spent(tool.read("x.folded"), "compute") != ZERO
    assert "wrote x.folded" in recorder.said()


def test_the_end_of_the_target_ends_the_recording(start: Start, tool: Tool) -> None:
    target = start()
    recorder = tool.begin("record", "-p", str(target.pid), "-d", "0", "-o", "x.folded")
    work_on(recorder.pid, target.pid)
    target.end()
    assert recorder.process.wait(60) == 0, recorder.said()
    assert spent(tool.read("x.folded"), "compute") != ZERO


def test_a_recorder_that_is_suspended_holds_nobody_and_goes_on_afterwards(start: Start, tool: Tool) -> None:
    target = start()
    recorder = tool.begin("record", "-p", str(target.pid), "-d", "0", "-o", "x.folded")
    work_on(recorder.pid, target.pid)
    os.kill(recorder.pid, signal.SIGTSTP)
    eventually("it stands still", lambda: set(states(recorder.pid)) == {"T"})
    assert "t" not in states(target.pid).lower()
    os.kill(recorder.pid, signal.SIGCONT)
    eventually("it goes on", lambda: "T" not in states(recorder.pid))
    assert recorder.end(signal.SIGINT, seconds=60) == 0, recorder.said()
    assert spent(tool.read("x.folded"), "compute") != ZERO


def test_a_program_is_recorded_from_its_start_to_its_end_and_its_code_handed_on(tool: Tool) -> None:
    done = tool.run("record", "-o", "x.folded", "--", *PYTHON_STORY, "0.7", "0", "7")
    assert done.returncode == 7, done.stderr
    assert done.stdout == "ready\n"
    assert spent(tool.read("x.folded"), "compute") != ZERO


def test_a_program_that_starts_python_is_recorded_with_its_children(tool: Tool) -> None:
    script = f"{sys.executable} {STORY} 0.7; exit 5"
    done = tool.run("record", "-s", "-o", "-", "--", "sh", "-c", script)
    assert done.returncode == 5, done.stderr
    assert "compute (story.py:" in done.stdout


def test_a_program_that_becomes_another_is_recorded_on(tool: Tool) -> None:
    story = [*PYTHON_STORY, "0.7", "0", "4"]
    become = f"import os, time; time.sleep(0.5); os.execv({sys.executable!r}, {story!r})"
    done = tool.run("record", "-o", "x.folded", "--", sys.executable, "-c", become)
    assert done.returncode == 4, done.stderr
    assert spent(tool.read("x.folded"), "compute") != ZERO


def test_a_time_limit_ends_the_recording_of_a_program_and_not_the_program(tool: Tool) -> None:
    done = tool.run("record", "-d", "1.5", "-o", "x.folded", "--", *PYTHON_STORY, "2", "0", "7")
    assert done.returncode == 7, done.stderr
    assert "for 1.5 s" in done.stderr
    assert "wrote x.folded" in done.stderr


def test_a_wrapper_of_python_is_named_with_what_records_it(tool: Tool) -> None:
    story = shlex.join([*PYTHON_STORY, "1", "0", "7"])
    # Long enough to be seen; after ten seconds without a Python to sample the program is ended.
    brief = shlex.join([sys.executable, "-c", "import time; time.sleep(4)"])
    done = tool.run("record", "-o", "x.folded", "--", "sh", "-c", f"{brief}; exit 7")
    assert done.returncode == 7
    warning, error = (line for line in done.stderr.splitlines() if line.startswith(("warning:", "error:")))
    assert "is no Python" in warning
    assert error == "error: the program ended with code 7: it runs no Python itself, but Python ran below it"
    assert "--subprocesses" in done.stderr
    again = tool.run("record", "--subprocesses", "-o", "x.folded", "--", "sh", "-c", f"{story}; exit 7")
    assert again.returncode == 7, again.stderr
    assert spent(tool.read("x.folded"), "compute") != ZERO


def test_a_program_that_cannot_be_recorded_is_an_error_and_is_gone(tool: Tool) -> None:
    missing = tool.run("record", "--", "no-such-program")
    assert missing.returncode == 1
    assert "cannot start no-such-program" in missing.stderr
    brief = tool.run("record", "--", "true")
    assert brief.returncode == 1
    failed = tool.run("record", "--", "sh", "-c", "exit 5")
    assert failed.returncode == 5
    assert "ended with code 0 before it could be sampled" in brief.stderr
    assert list(tool.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "code", "said", "hint"),
    [
        (("--pid", "4194305"), 1, "there is no process 4194305", "pgrep"),
        (("--pid", "0"), 2, "0 is no process", "--help"),
        ((), 2, "give either --pid or a program", "-- python app.py"),
        (("--pid", "1", "--", "true"), 2, "give either --pid or a program", ""),
        (("--pid", "1", "-o", "x.html"), 2, "says no format", "--format"),
        (("--pid", "1", "-o", "none/x.svg"), 1, "there is no folder none", "Create it"),
        (("--pid", "1", "--rate", "1000000"), 2, "at most 10000", ""),
        (("--pid", "1", "--idle", "--gil"), 2, "contradict", ""),
        (("--pid", "1", "python", "x.py"), 2, "unrecognized arguments", ""),
    ],
)
def test_a_mistake_is_told_with_what_to_do(
    tool: Tool, argv: tuple[str, ...], code: int, said: str, hint: str
) -> None:
    done = tool.run("record", *argv)
    assert done.returncode == code
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert hint in done.stderr
    assert list(tool.folder.iterdir()) == []


def test_a_process_that_is_not_python_is_told_with_those_below_it_that_are(start: Start, tool: Tool) -> None:
    shell = start(argv=("sh", "-c", f"{sys.executable} {STORY}; true"))
    eventually("the target runs", lambda: "ready" in shell.said())
    done = tool.run("record", "-p", str(shell.pid), "-d", "1")
    assert done.returncode == 1
    assert f"process {shell.pid} is no Python" in done.stderr
    assert "--subprocesses" in done.stderr
    assert "compute (story.py:" in tool.record(shell, "x.folded", "-s")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_process_of_somebody_else_is_told_with_the_way_in(start: Start, tool: Tool) -> None:
    target = start()
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--")
    tool.folder.chmod(0o777)
    done = tool.run("record", "-p", str(target.pid), "-o", "-", wrapper=nobody)
    assert done.returncode == 1
    assert f"not allowed to read the memory of process {target.pid}" in done.stderr
    assert "sudo" in done.stderr


def test_a_python_without_the_sampler_is_told_so(tool: Tool) -> None:
    (tool.folder / "sidelight_native.py").write_text("raise ImportError('not built')")
    done = tool.run("record", "--pid", "1", env={"PYTHONPATH": str(tool.folder)})
    assert done.returncode == 1
    assert "sidelight_native" in done.stderr
    assert "hint: " in done.stderr


def test_a_reader_that_has_seen_enough_is_no_failure(start: Start, tool: Tool) -> None:
    target = start()
    command = shlex.join(sidelight("record", "-p", str(target.pid), "-d", "1", "-o", "-"))
    done = subprocess.run(
        ["bash", "-c", f'{command} | true; echo "${{PIPESTATUS[0]}}"'],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "0\n", done.stderr
    assert "Traceback" not in done.stderr


def test_status_lines_show_control_characters_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    record_command._print_status("recording process 7 \x1b[31mred\x07", "two\nlines")
    assert capsys.readouterr().err == "recording process 7 \\x1b[31mred\\x07\ntwo\\nlines\n"
