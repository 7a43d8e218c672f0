"""`sidelight import` of files that the real tools wrote, to a whole collector."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import shutil
import time
import tracemalloc
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from sidelight import main
from sidelight_cli.compare.files import read_recording_file
from sidelight_cli.import_files.profile_file import read_profile_file
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.import_formats.austin_mojo import DamagedMojo, iter_austin_lines
from sidelight_model.import_formats.file_format import FileFormat
from sidelight_model.recordings.imported_profile import ImportedProfile, parse_profile
from tests.collector.conftest import serving  # noqa: F401 - a fixture
from tests.collector.test_pyroscope_ingest import stored

RECORDED = Path(__file__).parent / "recorded"
"""Recordings of one program, a busy thread and a waiting one, by the tools that the names say."""


def share(profile: ImportedProfile, function: str) -> float:
    """The share of the stacks with a function in all time."""
    return sum(ns for (stack, _), ns in profile.times.items() if f"{function} (" in stack) / profile.total_ns


@pytest.mark.parametrize(
    ("name", "file_format", "busy"),
    [
        ("austin.mojo", FileFormat.MOJO, 0.3),
        ("austin-full.mojo", FileFormat.MOJO, 0.3),
        ("py-spy.chrometrace.json.gz", FileFormat.TRACE, 0.3),
        ("viztracer.json", FileFormat.TRACE, 0.3),
        ("cpython.gecko", FileFormat.GECKO, 0.8),
        ("cpython.collapsed", FileFormat.FOLDED, 0.8),
    ],
)
def test_a_recording_of_each_tool_is_read(name: str, file_format: FileFormat, busy: float) -> None:
    profile = read_profile_file(RECORDED / name, 100)
    assert profile.format is file_format
    assert 0.25e9 < profile.total_ns < 2e9
    assert share(profile, "outer") > busy
    assert profile.damaged_parts == 0
    compared = read_recording_file(RECORDED / name, ProfileType.WALL)
    assert {stack for stack, _ in profile.times} == set(compared.stacks)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cpython.binary", "python3.15 -m profiling.sampling replay --gecko"),
        ("cpython.jsonl", "--collapsed"),
    ],
)
def test_formats_without_stacks_are_refused_with_what_converts_them(name: str, hint: str) -> None:
    for read in (
        lambda: read_profile_file(RECORDED / name, 100),
        lambda: read_recording_file(RECORDED / name, ProfileType.WALL),
    ):
        with pytest.raises(SidelightError, match=name) as caught:
            read()
        assert hint in caught.value.hint


def test_the_good_part_of_a_damaged_file_stays_and_the_rest_is_counted() -> None:
    mojo = (RECORDED / "austin.mojo").read_bytes()
    whole, cut = (parse_profile("a.mojo", content, 100) for content in (mojo, mojo[: len(mojo) * 9 // 10]))
    assert 0 < cut.total_ns < whole.total_ns
    assert (whole.damaged_parts, cut.damaged_parts) == (0, 1)
    trace = gzip.decompress((RECORDED / "py-spy.chrometrace.json.gz").read_bytes())
    killed = parse_profile("a.json", trace[: trace.rfind(b'{"args"') + 9], 100)
    assert killed.damaged_parts > 0
    assert killed.total_ns > 0
    text = b"P1;T0:1;a.py:f:1 10000\n" * 3
    assert parse_profile("a.austin", text + b"P1;T0:1;a.p", 100).damaged_parts == 1
    folded = b"main (a.py:1);f 3\n" * 200 + b"main;f three\n"
    assert parse_profile("a.folded", folded, 100).damaged_parts == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"main;f 3\nmain;f x\n", "a, line 2"),
        (b'{"threads": [\n{,', "line 2"),
        (b'{"threads": [{}], "meta": {}}', "field is missing"),
        (b'{"traceEvents": [{"ph": "M"}]}', "no events with stacks"),
        (b'{"traceEvents": [{"ph": "B", "ts": "now"}]}', "no events with stacks"),
        (b"MOJ\x09", "version 9 is not known at byte 3"),
        (b"MOJ\x03\x02", "no end at byte 5"),
        (b"", "no samples"),
        (b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05bytes\x32\x05bytes", "no time"),
    ],
)
def test_an_error_names_the_file_and_the_place(content: bytes, words: str) -> None:
    with pytest.raises(SidelightError) as caught:
        parse_profile("a", content, 100)
    assert words in caught.value.message
    assert caught.value.message.startswith("a")
    assert caught.value.hint


def test_mojo_reads_what_austin_writes_as_text() -> None:
    lines = list(iter_austin_lines((RECORDED / "austin.mojo").read_bytes()))
    assert lines[:3] == ["# austin: 3.7.0", "# interval: 10000", "# mode: wall"]
    assert any(line.rpartition(" ")[0].endswith("work.py:inner:5") for line in lines)
    for cut in range(3, 400):
        with suppress(DamagedMojo):
            list(iter_austin_lines((RECORDED / "austin.mojo").read_bytes()[:cut]))


def test_a_trace_with_durations_nests_by_time() -> None:
    events = [
        {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 100, "name": "main (a.py:1)"},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 0, "dur": 60, "name": "f (a.py:2)"},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 60, "dur": 40, "name": "g (a.py:3)"},
        {"ph": "X", "pid": 1, "tid": 1, "ts": 70, "dur": 0, "name": "nothing"},
        {"ph": "B", "pid": 1, "tid": 2, "ts": 5, "name": "thread (7): waiter"},
        {"ph": "B", "pid": 1, "tid": 2, "ts": 5, "name": "h", "args": {"filename": "b.py", "line": 4}},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 25},
    ]
    profile = parse_profile("a.json", repr(events).replace("'", '"').encode(), 100)
    assert profile.times == {
        ("main (a.py:1);f (a.py:2)", ""): 60_000,
        ("main (a.py:1);g (a.py:3)", ""): 40_000,
        ("thread waiter;h (b.py:4)", ""): 20_000,
    }
    assert (profile.duration_ns, profile.damaged_parts) == (100_000, 1)


def test_memory_does_not_grow_with_the_square_of_the_depth() -> None:
    """The texts of all callers of 20,000 frames are gigabytes."""
    depth = 20_000
    events = [{"ph": "B", "pid": 1, "tid": 1, "ts": 0, "name": f"f{at} (deep.py:1)"} for at in range(depth)]
    events.append({"ph": "E", "pid": 1, "tid": 1, "ts": 10})
    gecko = {
        "meta": {"interval": 1},
        "threads": [
            {
                "stringArray": ["f"],
                "funcTable": {"name": [0]},
                "frameTable": {"func": [0] * depth},
                "stackTable": {"frame": list(range(depth)), "prefix": [None, *range(depth - 1)]},
                "samples": {"stack": [depth - 1, depth - 1], "time": [0, 1]},
            }
        ],
    }
    for document in (events, gecko):
        content = json.dumps(document).encode()
        tracemalloc.start()
        profile = parse_profile("deep.json", content, 100)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [stack.count(";") for stack, _ in profile.times] == [depth - 1]
        assert peak < 64 << 20


def test_suffixes_of_gprofiler_are_left_out() -> None:
    text = b'#{"metadata": 1}\n0;shop;python;work (a.py:7)_[p];PyEval_[pn];futex_[k] 3\n'
    profile = parse_profile("a.col", text, 100)
    assert list(profile.times) == [("0;shop;python;work (a.py:7);PyEval;futex_[k]", "")]


async def run_import(*argv: str) -> tuple[int, str, str]:
    """Run the command in a thread; its exit status, output and errors."""
    out, err = io.StringIO(), io.StringIO()

    def run() -> int:
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with redirect_stdout(stream), redirect_stderr(err):
            code = main.run(["import", *argv])
            stream.flush()
            out.write(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
        return code

    return await asyncio.to_thread(run), out.getvalue(), err.getvalue()


async def test_a_file_that_claims_years_is_not_split_into_hours(tmp_path: Path) -> None:
    """One event with the time since the machine started, and one with the time since 1970."""
    file = tmp_path / "years.json"
    file.write_text(
        '[{"ph":"X","ts":0,"dur":5,"tid":1,"name":"f"},{"ph":"X","ts":1.7e15,"dur":5,"tid":1,"name":"f"}]'
    )
    code, _, err = await run_import("--collector", "http://127.0.0.1:9", "--service", "shop", str(file))
    assert (code, f"error: {file} covers 472,222 hours, more than 1,000" in err) == (1, True)
    assert "--seconds" in err


async def test_files_are_stored_once_with_their_labels_and_times(serving: Any, tmp_path: Path) -> None:  # noqa: F811
    names = ("cpython.gecko", "austin.mojo", "viztracer.json")
    written = int(time.time()) - 60
    for name in names:
        shutil.copy(RECORDED / name, tmp_path)
        os.utime(tmp_path / name, (written, written))
    folded = tmp_path / "states.folded"
    folded.write_text("main (a.py:1);f 30\nmain (a.py:1);[idle] 70\n")
    files = [str(tmp_path / name) for name in names]
    store = MemoryStore()
    async with serving(store) as collector:
        address = f"http://127.0.0.1:{collector.port}"
        argv = ("--collector", address, "--service", "shop", "--version", "7", "--label", "pod=laptop")
        for _ in range(2):
            code, out, err = await run_import(*argv, *files)
            assert (code, err) == (0, "")
            assert out.count("thread-seconds") == 3
            assert "[2/3] " in out
        assert await collector.metric("sidelight_windows_duplicate_total") == 3
        code, _, err = await run_import(
            *argv, "--start", str(written - 9000), "--seconds", "7200", str(folded)
        )
        assert (code, err) == (0, "")
        code, _, err = await run_import(*argv, "--start", "2020-01-01T00:00:00Z", str(folded))
        assert (code, "--start" in err) == (1, True)
        code, out, err = await run_import(*argv, str(tmp_path / "gone"), files[0])
        assert (code, "gone" in err, "cpython.gecko" in out) == (1, True, True)
    windows = stored(store)
    assert {(w["service"], w["version"], w["pod"]) for w in windows} == {("shop", "7", "laptop")}
    hours = [window for window in windows if window["duration_ns"] == 3600 * 10**9]
    assert [(window["running"], window["idle"]) for window in hours] == [(15, 35), (15, 35)]
    others = [window for window in windows if window not in hours]
    assert len(others) == 3
    for window in others:
        assert abs(window["ts"] + window["duration_ns"] - written * 10**9) < 10**9
        profile = max(
            (read_profile_file(Path(file), 100) for file in files),
            key=lambda one: -abs(one.total_ns - window["running"] * window["period_ns"]),
        )
        assert abs(profile.total_ns - window["running"] * window["period_ns"]) < 10**6
