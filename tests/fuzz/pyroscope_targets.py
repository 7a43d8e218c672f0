"""Requests of Pyroscope's clients: pushes and uploads, read natively and in Python."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import parse_qsl

from sidelight_collector.ingest.pyroscope import profile_windows
from sidelight_collector.ingest.pyroscope.profile_sums import read_pprof_header, sum_pprof
from sidelight_collector.ingest.pyroscope.push_parsing import parse_push
from sidelight_collector.ingest.pyroscope.series_labels import PyroscopeClient
from sidelight_collector.ingest.pyroscope.upload_parsing import parse_upload
from sidelight_collector.ingest.validation import IngestLimits, ParsedRequest, ReceivedRequest
from sidelight_collector.native_kernel import NATIVE
from sidelight_model.errors import SidelightError
from tests.collector.pyroscope_bodies import MS, pprof, push, sample
from tests.fuzz.targets import LIMITS, MAX_BODY_BYTES, NOW_NS, STACKS, Target

INGEST_LIMITS: Final = IngestLimits(LIMITS, MAX_BODY_BYTES, 300 * 10**9, 7 * 86_400 * 10**9)
CLIENT: Final = PyroscopeClient("go_pyroscope/1.4")
_FORM: Final = "multipart/form-data; boundary=sep"


def run_push(data: bytes) -> str:
    """The first byte says whether the rest is JSON, and whether it is compressed."""
    kind, rest = (data[0] if data else 0), data[1:]
    body, encoding = (gzip.compress(rest, 1), "gzip") if kind & 2 else (rest, "")
    request = ReceivedRequest(body, encoding, {}, NOW_NS)
    return compare_kernels(lambda: parse_push(request, INGEST_LIMITS, CLIENT, is_json=bool(kind & 1)))


def run_upload(data: bytes) -> str:
    """The first line has the query, and an `M` before it means a form."""
    line, _, body = data.partition(b"\n")
    text = line.decode(errors="replace")
    query = dict(parse_qsl(text.removeprefix("M"), keep_blank_values=True))
    request = ReceivedRequest(body, "", query, NOW_NS)
    content_type = _FORM if text.startswith("M") else "binary/octet-stream"
    return compare_kernels(lambda: parse_upload(request, INGEST_LIMITS, CLIENT, content_type))


def compare_kernels(parse: Callable[[], ParsedRequest]) -> str:
    """Parse natively and in Python, which must agree, and return the outcome."""
    outcomes: list[Any] = []
    for native in (NATIVE, None):
        with (
            patch.object(profile_windows, "read_pprof_header", _with_kernel(read_pprof_header, native)),
            patch.object(profile_windows, "sum_pprof", _with_kernel(sum_pprof, native)),
        ):
            try:
                parsed = parse()
            except SidelightError as error:
                outcomes.append((error.reason, error))
            else:
                outcomes.append((parsed.windows, parsed.not_stored, parsed.dropped_labels))
    first, second = outcomes
    if isinstance(first[-1], SidelightError):
        # Where a profile is wrong in two ways, each names the one that it finds first.
        assert isinstance(second[-1], SidelightError), f"only the kernel refuses: {first}"
        raise first[-1]
    assert first == second, f"native and Python differ: {outcomes}"
    return f"{min(len(first[0]), 4)} windows, {sorted(first[1])} {sorted(first[2])}"


def _with_kernel(read: Callable[..., Any], native: Any) -> Callable[..., Any]:
    return lambda *arguments: read(*arguments, native)


_SAMPLES: Final = (
    sample("main;f", 70 * MS, endpoint="/cart", span_id="1"),
    sample("main;g;[idle]", 3, state="gil", thread_id="7"),
    sample("", 10 * MS, bytes=9),
)
_PROFILE: Final = pprof(_SAMPLES, start_ns=NOW_NS - 10**10)
_WALL: Final = pprof(
    [sample("f", 3, 30 * MS, 10 * MS)],
    [("sample", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")],
    start_ns=NOW_NS - 10**10,
)
_JSON: Final = (
    b'{"series":[{"labels":[{"name":"service_name","value":"shop"}],"samples":[{"rawProfile":"H4s="}]}]}'
)
_SPEEDSCOPE: Final = (
    b'{"shared":{"frames":[{"name":"f"},{"name":"g","file":"a.py","line":3}]},"profiles":['
    b'{"type":"sampled","unit":"seconds","samples":[[0,1]],"weights":[0.5]},{"type":"evented","unit":"none",'
    b'"startValue":0,"events":[{"type":"O","at":1,"frame":0},{"type":"C","at":3,"frame":0}]}]}'
)
_FIELDS: Final = (
    b'--sep\r\nContent-Disposition: form-data; name="profile"\r\n\r\n' + _PROFILE + b"\r\n--sep--\r\n"
)

TARGETS: Final = (
    Target(
        "pyroscope-push",
        (
            b"\0" + push(_PROFILE, _WALL),
            b"\2" + push(_PROFILE, packed=True),
            b"\1" + _JSON,
        ),
        run_push,
        (
            b"\x0a\x04\x08\x01\x10\x02",
            b"\x12",
            b"\x22",
            b"\x2a",
            b"\x80" * 9 + b"\x01",
            b"count",
            b"\x1f\x8b\x08",
        ),
    ),
    Target(
        "pyroscope-ingest",
        (
            b"name=shop{region=eu,zone=a}&format=pprof&from=1795253390&until=1795253400\n" + _PROFILE,
            b"Mname=shop\n" + _FIELDS,
            b"name=shop.cpu&sampleRate=100\n" + STACKS + b" 3\n",
            b"name=shop.wall&format=lines&from=now-10s\nmain;f\nmain;g\n",
            b"name=shop&format=speedscope\n" + _SPEEDSCOPE,
            b"name=shop.alloc_space&units=bytes\nf 3\n",
        ),
        run_upload,
        (b"&format=jfr", b"&from=now", b"\r\n--sep", b"name=", b" 1\n", b'"unit":"bytes"'),
    ),
)
