"""Files that `sidelight compare` and `sidelight import` read."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from sidelight_cli.compare.files import read_recording_file
from sidelight_cli.import_files.push_body import encode_push
from sidelight_collector.captures.recordings.recording_files import parse_recording, render_speedscope
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.import_formats.file_format import FileFormat
from sidelight_model.recordings.imported_profile import parse_profile
from sidelight_model.recordings.recording_file import parse_recording_file
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


def run_import(data: bytes) -> str:
    """Read a file in any format, and encode it for a collector; a comparison reads the same."""
    profile = parse_profile("file", data, 100.0)
    encode_push(profile, {"service_name": "shop"}, ProfileType.CPU, start_ns=1, duration_ns=10**9)
    if profile.format in (FileFormat.TRACE, FileFormat.GECKO, FileFormat.MOJO):
        parse_recording_file("file", data, ProfileType.WALL, 10.0)
    return f"{profile.format} {min(len(profile.times), 3)} {bool(profile.damaged_parts)}"


_RECORDED: Final = Path(__file__).parent.parent / "cli" / "import_files" / "recorded"
_TRACE: Final = (
    b'[{"ph":"X","pid":1,"tid":1,"ts":0,"dur":9,"name":"f (a.py:1)"},'
    b'{"ph":"B","pid":1,"tid":2,"ts":5,"name":"h","args":{"filename":"b.py","line":4}},'
    b'{"ph":"E","pid":1,"tid":2,"ts":25}]'
)
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

_PERF: Final = (
    b"python  7 1.5:   10101010 cpu-clock: \n\t 85 py::f:/a.py+0x5 (/tmp/perf-7.map)\n\n"
    b"python  8 [001] 1.6:   1 cycles:u: \n\t ff g+0x1 ([kernel.kallsyms])\n\n"
)

TARGETS: Final = (
    Target(
        "perf",
        (b"\0" + _PERF,),
        run_file,
        (b"\n\n", b" [000] ", b" cycles:u:", b" 7/8 ", b"\t ff g+0x1 ([kernel.kallsyms])\n", b"[unknown]"),
    ),
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
    Target(
        "imports",
        (
            *(file.read_bytes() for file in sorted(_RECORDED.iterdir()) if file.suffix != ".gz"),
            _TRACE,
            _PROFILE,
            _SPEEDSCOPE,
            _AUSTIN,
            STACKS,
        ),
        run_import,
        (
            b"\x05\x81",
            b"\x02\x81\x01",
            b'"ph":"X"',
            b'"dur":-1',
            b'"prefix":[0',
            b"null",
            b"1e999",
            b'"schema":{',
        ),
    ),
)
