from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sidelight.settings import BadSetting
from sidelight_cli.local import record_report
from sidelight_cli.local.formats import DocumentOptions, render_document
from sidelight_cli.local.local_recording import LocalRecording, RootFrames
from sidelight_cli.local.output import (
    RecordingOutput,
    RecordingWriteFailed,
    check_output,
    choose_output,
    infer_format,
    write_output,
)
from sidelight_cli.local.sampling.process_set import ProcessBatch
from sidelight_cli.local.sampling.quality import SamplingQuality
from sidelight_model.counts import ProfileType
from sidelight_sidecar.samplers.sampler import SamplingError
from tests.cli.local.fake_engine import MS, FakeTimeline, batch, proc
from tests.model.strategies import profile

STACKS = ["main (a.py:1);work (b.py:7)", "main (a.py:2);work (b.py:8)", "main (a.py:1);wait (c.py:9)"]


def recorded() -> LocalRecording:
    recording = LocalRecording(100, RootFrames())
    counts = batch(f"{STACKS[0]} 0 1 2 | {STACKS[1]} 0 0 1 | {STACKS[2]} 6 0 0", thread="MainThread")
    ticks = [(10 * MS * at, 0, *what) for at, what in enumerate([(0, 2), (0, 1), (2, 0), (1, 2)])]
    recording.add(ProcessBatch(proc(7), counts, FakeTimeline(1000, ["MainThread"], STACKS, ticks)))
    return recording


def written(shape: DocumentOptions) -> str:
    made = render_document(recorded(), shape, "app.py", ["note"], start_ns=1000, length_ns=50 * MS)
    return made.decode()


def test_folded_text_is_all_of_it_unless_asked_otherwise() -> None:
    assert written(DocumentOptions("folded")).splitlines() == [
        "main (a.py:1);wait (c.py:9);[idle] 6",
        "main (a.py:1);work (b.py:7) 1",
        "main (a.py:1);work (b.py:7);[gil] 2",
        "main (a.py:2);work (b.py:8);[gil] 1",
    ]
    plain = DocumentOptions("folded", ProfileType.CPU, split_lines=False, mark_states=False)
    assert written(plain) == "main (a.py);work (b.py) 4\n"


def test_pictures_show_what_was_worked_by_function_unless_asked_otherwise() -> None:
    assert "work (b.py)\n40.0 ms (4 samples), 100.0 %" in written(DocumentOptions("svg"))
    assert "wait" not in written(DocumentOptions("svg"))
    wall = written(DocumentOptions("svg", ProfileType.WALL, split_lines=True))
    assert "work (b.py:8)\n10.0 ms (1 sample), 10.0 %" in wall
    assert "wait (c.py:9)\n60.0 ms (6 samples), 60.0 %" in wall


def test_a_timeline_has_its_time_from_left_to_right_and_blanks_where_it_waited() -> None:
    (lane,) = json.loads(written(DocumentOptions("speedscope")))["profiles"]
    assert (lane["name"], lane["unit"], lane["endValue"]) == ("MainThread", "nanoseconds", 50 * MS)
    assert lane["samples"] == [[0, 1], [], [0, 1]]
    assert lane["weights"] == [20 * MS, 10 * MS, 20 * MS]


@pytest.mark.parametrize(
    ("given", "asked", "chosen"),
    [
        ("", None, RecordingOutput("svg", Path("sidelight-7-DATE.svg"))),
        ("", "speedscope", RecordingOutput("speedscope", Path("sidelight-7-DATE.speedscope.json"))),
        ("", "folded", RecordingOutput("folded", Path("sidelight-7-DATE.folded"))),
        ("-", None, RecordingOutput("folded", None)),
        ("-", "svg", RecordingOutput("svg", None)),
        ("x.SVG", None, RecordingOutput("svg", Path("x.SVG"))),
        ("x.json", None, RecordingOutput("speedscope", Path("x.json"))),
        ("x.txt", None, RecordingOutput("folded", Path("x.txt"))),
        ("x.html", "svg", RecordingOutput("svg", Path("x.html"))),
        ("profile", None, RecordingOutput("svg", Path("profile"))),
    ],
)
def test_the_format_is_what_was_asked_for_or_what_the_ending_says(
    given: str, asked: str | None, chosen: RecordingOutput
) -> None:
    found = choose_output(given, asked, 7, 0.0)
    if found.path and not given:
        name = found.path.name.split("-")
        assert len(name[2]) == 8
        assert len(name[3].split(".")[0]) == 6
        found = replace(found, path=Path(f"sidelight-7-DATE.{found.path.name.partition('.')[2]}"))
    assert found == chosen


def test_an_ending_that_says_no_format_is_refused() -> None:
    with pytest.raises(BadSetting, match="html"):
        infer_format("x.html")


def test_a_file_that_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "x.svg"):
        with pytest.raises(RecordingWriteFailed) as refused:
            check_output(RecordingOutput("svg", path))
        assert refused.value.hint
    check_output(RecordingOutput("svg", tmp_path / "x.svg"))
    check_output(RecordingOutput("svg", Path("/dev/null")))
    check_output(RecordingOutput("svg", None))


def test_a_file_that_is_there_is_replaced_whole_also_behind_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.svg", tmp_path / "link.svg"
    real.write_text("old")
    link.symlink_to(real)
    write_output(RecordingOutput("svg", link), b"new")
    write_output(RecordingOutput("svg", Path("/dev/null")), b"new")
    assert (real.read_text(), link.is_symlink(), len(list(tmp_path.iterdir()))) == ("new", True, 2)


def test_a_file_that_fails_to_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RecordingWriteFailed, match="No such file"):
        write_output(RecordingOutput("svg", tmp_path / "none" / "x.svg"), b"new")
    with pytest.raises(RecordingWriteFailed, match="space"):
        write_output(RecordingOutput("svg", Path("/dev/full")), b"x" * 100_000)


LEDGER = SamplingQuality(
    watched_ns=10 * 10**9,
    attempts=1003,
    samples=2001,
    errors={"moved": 3},
    threads=2,
    stops=990,
    stopped_ns=16_000_000,
    longest_stop_ns=210_000,
    sampler_cpu_ns=90_000_000,
)


def test_the_numbers_at_the_end_say_how_well_it_was_watched() -> None:
    assert list(
        record_report.format_quality(LEDGER, "mode gil, reader own, Python 3.11.7", 100, 10.0, 0.2)
    ) == [
        "mode gil, reader own, Python 3.11.7: 100.3 of 100 samples/s, 2,001 samples of 2 threads in 10.0 s, "
        "3 errors (3 moved)",
        "the target lost 0.16 % of its time (990 stops, the longest 0.21 ms); "
        "sampling took 0.90 % of a core, all of this 2.00 %",
    ]
    idle = list(
        record_report.format_quality(
            SamplingQuality(watched_ns=10**9, attempts=100, samples=100, threads=1), "", 100, 1.0, 0.0
        )
    )
    assert "lost no time (it was never stopped)" in idle[1]
    assert "1 thread in" in idle[0]


def test_progress_says_how_far_and_how_well() -> None:
    assert record_report.format_progress(LEDGER, 3.21, 10.0).startswith(
        "3.2 of 10 s · 2,001 samples · 3 errors (3 moved)"
    )
    assert record_report.format_progress(LEDGER, 3.21, 0.0).startswith("3.2 s · ")


def test_the_functions_that_cost_most_are_named() -> None:
    one = profile(
        "main (a.py:1) 1 | main (a.py:1);work (b.py:7) 2 | main (a.py:1);work (b.py:8) 1 | wait;[idle] 9"
    )
    assert list(record_report.format_functions(one, ProfileType.CPU)) == [
        "cpu time (running and gil), most in:",
        "   75.0 %  work (b.py)",
        "   25.0 %  main (a.py)",
    ]
    assert list(record_report.format_functions(profile("wait;[idle] 9"), ProfileType.CPU)) == []


@pytest.mark.parametrize(
    ("changes", "mode", "left_out", "word"),
    [
        ({}, "nonblocking", 0, "many of these stacks are wrong"),
        ({"errors": {"read": 200}}, "gil", 0, "19.9 % of the samples failed"),
        ({"truncated": 7}, "gil", 0, "7 samples were cut to --max-depth"),
        ({"other": 7}, "gil", 0, "7 samples are under (other)"),
        ({}, "gil", 7, "7 samples did not fit"),
    ],
)
def test_what_must_be_known_of_a_recording_is_said(
    changes: dict[str, object], mode: str, left_out: int, word: str
) -> None:
    ledger = replace(LEDGER, **changes)  # type: ignore[arg-type]
    (said,) = record_report.format_remarks(ledger, profile("main 1"), ProfileType.CPU, mode, left_out)
    assert word in said


def test_a_process_that_only_waited_is_pointed_to_its_waiting() -> None:
    (said,) = record_report.format_remarks(LEDGER, profile("main;[idle] 9"), ProfileType.CPU, "gil", 0)
    assert "--idle" in said
    assert list(record_report.format_remarks(LEDGER, profile("main 9"), ProfileType.CPU, "gil", 0)) == []


def test_processes_that_are_missing_are_named_up_to_a_bound() -> None:
    refused = [SamplingError(f"process {pid} is gone", hint="Look.") for pid in range(6)]
    said = list(record_report.format_losses(refused, ["process 9: failed: panic"]))
    assert said[0] == "warning: not recorded: process 0 is gone. Look."
    assert len(said) == 6
    assert said[-1] == "warning: and 2 more"
