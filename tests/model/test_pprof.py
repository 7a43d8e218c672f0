"""Profiles written for pprof, read back by pprof itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import Provenance, SideProvenance

MS = 1_000_000
ABOUT = Provenance(
    '{service="shop"} cpu',
    "cpu",
    "sidelight 0.1.0",
    [
        SideProvenance(
            '{service="shop"}', 1795253400 * 1000 * MS, 1795257000 * 1000 * MS, 14, 2, 3, 0.14, 60.0
        )
    ],
)
ROWS = [
    StateRow(("main (a.py:1)", "work (b.py:7)"), "running", 6, 60 * MS),
    StateRow(("main (a.py:1)", "work (b.py:9)"), "gil", 4, 40 * MS),
    StateRow(("main (a.py:1)", "semi%3Bcolon (a b.py)", "\u202eשאל 👩", "half \ud800"), "idle", 4, 40 * MS),
]


def go(*argv: str) -> str:
    done = subprocess.run(["go", "tool", "pprof", *argv], capture_output=True, timeout=240, check=True)
    return done.stdout.decode()


def pprof(tmp_path: Path, rows: list[StateRow], *options: str) -> str:
    file = tmp_path / "profile.pb.gz"
    file.write_bytes(write_pprof(rows, ABOUT, period_ns=10 * MS))
    return go(*options, str(file))


def test_pprof_reads_every_part_of_a_profile(tmp_path: Path) -> None:
    raw = pprof(tmp_path, ROWS, "-raw")
    for part in (
        "PeriodType: cpu nanoseconds",
        "Period: 10000000",
        "Time: 2026-11-21 09:30:00 +0000 UTC",
        "Duration: 1m0s",
        "samples/count cpu/nanoseconds[dflt]",
        "1: 0x0/0x0/0x0 python  [FN][FL][LN]",
        'Comment: {service="shop"} cpu',
        "14 samples of 2 pods in 3 windows",
    ):
        assert part in raw
    samples = re.findall(r"^ +(\d+) +(\d+): ([\d ]+?)\s*\n +state:\[(\w+)\]", raw, re.MULTILINE)
    places = dict(re.findall(r"^ +(\d+): 0x0 M=1 (.*) s=0", raw, re.MULTILINE))
    read = {
        (tuple(places[number] for number in reversed(ids.split())), state): (int(count), int(ns))
        for count, ns, ids, state in samples
    }
    assert read == {
        (("main a.py:1:0", "work b.py:7:0"), "running"): (6, 60 * MS),
        (("main a.py:1:0", "work b.py:9:0"), "gil"): (4, 40 * MS),
        (("main a.py:1:0", "semi;colon a b.py:0:0", "\u202eשאל 👩 :0:0", "half ? :0:0"), "idle"): (
            4,
            40 * MS,
        ),
    }


def test_pprof_adds_lines_up_to_functions_and_picks_a_state(tmp_path: Path) -> None:
    top = pprof(tmp_path, ROWS, "-top", "-unit=ms")
    assert re.search(r"100ms +71\.\d+% +71\.\d+% +100ms +71\.\d+% +work", top)
    held = pprof(tmp_path, ROWS, "-top", "-unit=ms", "-tagfocus", "state=gil")
    assert re.search(r"40ms .* work", held)
    assert "שאל" not in held


def test_an_empty_profile_is_one_too(tmp_path: Path) -> None:
    assert "Duration: 1m0s" in pprof(tmp_path, [], "-raw")


def test_a_very_deep_stack_is_written_whole(tmp_path: Path) -> None:
    deep = StateRow(tuple(f"f{at} (deep.py:{at + 1})" for at in range(20_000)), "running", 1, MS)
    raw = pprof(tmp_path, [deep], "-raw")
    assert raw.count(" M=1 ") == 20_000


def test_equal_profiles_are_equal_bytes_whatever_their_order() -> None:
    backwards = write_pprof(reversed(ROWS), ABOUT, period_ns=1)
    assert backwards == write_pprof(ROWS, ABOUT, period_ns=1)
