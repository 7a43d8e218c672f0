"""The parsers of text and bodies, each with valid inputs and the checks of one input.

A target takes bytes and returns an outcome. It may raise SidelightError, whose reason and message without
numbers are an outcome too. Any other exception is a failure.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import zstandard
from multidict import MultiDict

from sidelight_collector.decompress import decompress_body, read_decompressed_size
from sidelight_collector.http.api.parameters import PARAMETERS, REPEATABLE_PARAMETERS, QueryParameters
from sidelight_collector.ingest.parsing import parse_folded_profile, parse_windows
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import is_full_match, parse_re2_selector
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import MAX_SELECTOR_CHARACTERS
from sidelight_model.window import WindowLimits

MAX_BODY_BYTES: Final = 1 << 20
LIMITS: Final = WindowLimits(max_windows=20, max_stacks=200, max_depth=64)
NOW_NS: Final = 1_795_253_400 * 10**9
_NUMBERS: Final = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Target:
    """A parser to fuzz: valid inputs, tokens of its format, and the check of one input.

    `run` returns an outcome.
    """

    name: str
    seeds: tuple[bytes, ...]
    run: Callable[[bytes], object]
    tokens: tuple[bytes, ...] = ()
    max_bytes: int = 16 << 10


def outcome_of(run: Callable[[bytes], object], data: bytes) -> str:
    """Run a target; return its outcome, or that of the SidelightError that it raised."""
    try:
        return str(run(data))[:200]
    except SidelightError as error:
        if not error.message:
            raise ValueError(f"an error of {error.reason} has no message") from error
        return f"{error.reason}: {_NUMBERS.sub('N', error.message)[:100]}"


def compare_parsers(parse: Callable[..., Any], text: bytes) -> Any:
    """Parse with the native kernel and with Python, which must agree; return the result."""
    results = []
    for native in (NATIVE, None):
        try:
            results.append(("parsed", parse(text, LIMITS, native)))
        except SidelightError as error:
            results.append(("refused", (error.reason, error.message), error))  # type: ignore[arg-type]
    assert results[0][:2] == results[1][:2], f"native and Python differ: {results}"
    if results[0][0] == "refused":
        raise results[0][2]  # type: ignore[misc]
    return results[0][1]


def run_folded(data: bytes) -> str:
    stacks, unreadable = compare_parsers(_parse_folded, data)
    return f"{min(len(stacks.hashes), 8)} stacks, {min(unreadable, 3)} unreadable lines"


def _parse_folded(text: bytes, limits: WindowLimits, native: Any) -> tuple[Any, int]:
    profile = parse_folded_profile(text, limits, native)
    return profile.stacks, profile.unreadable_lines.count


def run_windows(data: bytes) -> str:
    windows = compare_parsers(parse_windows, data)
    return f"{min(len(windows), 4)} windows"


def run_body(data: bytes) -> str:
    """The first byte says how the rest becomes a body; encodings are of damaged and of sound bodies."""
    kind, rest = (data[0] if data else 0), data[1:]
    encoding = ("identity", "gzip", "zstd", "gzip", "zstd", "gzip", "zstd", "br")[kind % 8]
    if kind % 8 in (3, 5):
        rest = gzip.compress(rest, 1) * (kind // 8 % 3 + 1)
    if kind % 8 in (4, 6):
        rest = zstandard.ZstdCompressor(level=1, write_content_size=bool(kind & 8)).compress(rest)
    if kind % 8 in (5, 6) and rest:
        cut = kind * len(rest) // 256
        rest = rest[:cut] + bytes([kind]) + rest[cut + 1 :]
    assert len(rest) <= read_decompressed_size(rest, encoding, MAX_BODY_BYTES) or len(rest) > MAX_BODY_BYTES
    text = decompress_body(rest, encoding, MAX_BODY_BYTES)
    assert len(text) <= MAX_BODY_BYTES
    return f"{encoding}: {run_windows(text)}"


def run_selector(data: bytes) -> str:
    text = data.decode(errors="replace")
    selector = parse_re2_selector(text)
    if len(str(selector)) <= MAX_SELECTOR_CHARACTERS:
        assert parse_re2_selector(str(selector)).matchers == selector.matchers
    values = {matcher.name: "a" * 100 + "!" for matcher in selector.matchers}
    return f"{len(selector.matchers)} matchers, {selector.matches(values, is_full_match)}"


def run_parameters(data: bytes) -> str:
    """A line is a name, `=` and a value; the first line is the path."""
    path, *lines = data.decode(errors="replace").split("\n")
    if path not in PARAMETERS:
        path = sorted(PARAMETERS)[len(path) % len(PARAMETERS)]
    given = MultiDict[str]()
    for line in lines[:20]:
        name, _, value = line.partition("=")
        if name in REPEATABLE_PARAMETERS or name not in given:
            given.add(name, value)
    parameters = QueryParameters(given, PARAMETERS[path], QueryLimits(), NOW_NS)
    parsed: list[object] = [parameters.parse_window_query(), parameters.parse_stack_filter()]
    parsed += [parameters.parse_sides(), parameters.parse_comparison_options(), parameters.parse_max_nodes()]
    parsed += [parameters.parse_step_ns(), parameters.parse_heatmap_rows(), parameters.parse_limit(10)]
    parsed += [parameters.parse_profile_type(), parameters.parse_switch("lines", default=False)]
    repr(parsed)
    return f"{path} {sorted(given)}"


HEADER: Final = (
    b'{"format":1,"id":"01M883X8HS0WFBGHX9PDRD4GHS","labels":{"service":"shop","version":"2","pod":"p-1"},'
    b'"start_ns":1795253400000000000,"duration_ns":10000000000,"period_ns":10000000,'
    b'"states":["idle","running","gil","cpu_wait","gil_wait","lock","poll","io","sleep"],"quality":{"attempts":1000,"errors":{"late":3},"stops":12,'
    b'"mode":"native","threads":4,"rates":[100,50]}}'
)
STACKS: Final = (
    b"main (a.py:1);work (b.py:7) 6\nmain (a.py:1);wait (a.py:5);[idle] 9\nmain (a.py:1);[gil] 4\n"
)
WINDOW: Final = b"# " + HEADER + b"\n" + STACKS
_SELECTORS: Final = (
    b'{service="shop", version=~"2026.*", pod!="x"}',
    b'namespace!~"kube-.*|(a|b)+", team=""',
    b'service=~"(?i:A)[^b]{2,3}\\\\.\\\\d"',
    b"",
)
_PARAMETERS: Final = (
    b'/compare\nquery=service="shop"\nbaseline=version="1"\ncomparison=version="2"\nfrom=-1h\nuntil=now\n'
    b"type=cpu\nalpha=0.05\nmin_effect=0.1\nconditions=total cpu +5%\nbasis=auto\nfunctions=20",
    b"/heatmap\nfrom=2026-11-21T09:00:00Z\nuntil=1795253400\nrows=hour\nstep=5m\nzone=Europe/Berlin\nlimit=10",
    b"/flamegraph\nnodes=all\nlines=1\nstates=0\nmin_depth=2\nmax_depth=30\nfocus=0123456789abcdef.f (a.py)",
    b"/export\nformat=pprof\nabout=1\nfunction=main (a.py)",
)

TARGETS: Final = (
    Target(
        "folded",
        (
            STACKS,
            b"py-spy> note\na;b 1\r\n",
            b"\xef\xbb\xbfa%3Bb;c 9999999999\n",
            b"tid:1;a.py:f:1 2\n" * 101,
        ),
        run_folded,
        (b";[idle] ", b" 1\n"),
        4 << 10,
    ),
    Target("windows", (WINDOW, WINDOW * 3, b"\n" + WINDOW), run_windows, (b"\n# ", b"# {", b" 1\n")),
    Target(
        "bodies",
        (
            *(bytes([kind]) + WINDOW for kind in (0, 3, 4, 5, 6)),
            b"\1" + gzip.compress(WINDOW),
            *(b"\2" + zstandard.compress(text) for text in (WINDOW, b"a" * 10**6)),
        ),
        run_body,
        (b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b"\x50\x2a\x4d\x18"),
    ),
    Target(
        "selectors",
        _SELECTORS,
        run_selector,
        (b"=~", b"!~", b'="', b"(?i)", b"\\\\p{L}", b"{1000}", b"(?P<a>"),
        5000,
    ),
    Target(
        "parameters",
        _PARAMETERS,
        run_parameters,
        tuple(
            f"\n{name}=".encode()
            for name in sorted({name for names in PARAMETERS.values() for name in names})
        ),
        5000,
    ),
)
