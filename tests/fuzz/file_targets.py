"""Files that `sidelight compare` reads: pprof, speedscope, Austin and folded text."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from sidelight_cli.compare.files import read_recording_file
from sidelight_collector.captures.recordings.recording_files import parse_recording, render_speedscope
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from tests.fuzz.json_targets import MEMORY_BYTES
from tests.fuzz.json_targets import TARGETS as JSON_TARGETS
from tests.fuzz.targets import STACKS, Target


@dataclass(frozen=True, slots=True)
class _File:
    """A file in memory, as far as the reader needs one."""

    content: bytes

    def read_bytes(self) -> bytes:
        return self.content

    def __str__(self) -> str:
        return "file"


def run_file(data: bytes) -> str:
    """The first byte chooses the profile type."""
    kind = list(ProfileType)[(data[0] if data else 0) % len(ProfileType)]
    read = read_recording_file(cast("Path", _File(data[1:])), kind, 10.0)
    return f"{type(read).__name__} {min(len(read.stacks), 5)} stacks"


_PROFILE: Final = gzip.decompress(
    write_pprof(
        [
            StateRow(["main (a.py:1)", "work (b.py:7)"], "gil", 4, 40),
            StateRow(["main (a.py:1)"], "idle", 9, 90),
        ],
        Provenance("shop", "wall", "sidelight", [SideProvenance("", 0, 10**9, 13, 1, 1, 1.0, 1.0)]),
        period_ns=10**7,
    )
)
_SPEEDSCOPE: Final = render_speedscope(parse_recording(JSON_TARGETS[-1].seeds[0], MEMORY_BYTES), "shop", 1000)
_AUSTIN: Final = (
    b"# austin: 3.7.0\n# interval: 10000\n# mode: wall\n\n"
    b"P1;T0:1;a.py:f:1;b.py:g:2 10000\nP1;T0:2;a.py:f:1 9000\n"
)

TARGETS: Final = (
    Target(
        "pprof",
        (b"\0" + _PROFILE,),
        run_file,
        (b"\x0a\x04\x08\x01\x10\x02", b"\x12", b"\x22", b"\x2a", b"\x80" * 9 + b"\x01", b"count", b"samples"),
    ),
    Target("speedscope", (b"\0" + _SPEEDSCOPE,), run_file),
    Target(
        "austin",
        (b"\0" + _AUSTIN, b"\0" + STACKS),
        run_file,
        (b";", b"# mode: cpu\n", b"\nP1;T2;", b" 10,5,7\n"),
    ),
)
