"""pprof profiles: numbers of samples where they are, else time by the period."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.compare.files import read_recording_file
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.folded import Stack
from sidelight_model.recordings.inputs.pprof_input import BadPprof, parse_pprof
from sidelight_model.recordings.inputs.sample_weights import UnknownSampleWeight
from sidelight_model.recordings.inputs.speedscope_input import ProfileTypeMismatch
from tests.cli.compare.compare_runner import compare

CPU, WALL, GIL = ProfileType.CPU, ProfileType.WALL, ProfileType.GIL
MS = 1_000_000
STACK = ("main (a.py:1)", "work (b.py:7)")
ROWS = [StateRow(STACK, "running", 6, 60 * MS), StateRow(STACK, "gil", 4, 40 * MS)]


def write(rows: list[StateRow], kind: str = "cpu") -> bytes:
    side = SideProvenance("{}", 0, 1, 10, 1, 1, 1.0, 1.0)
    return gzip.decompress(write_pprof(rows, Provenance("x", kind, "sidelight", [side]), period_ns=10 * MS))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def integer(number: int, value: int) -> bytes:
    encoded = bytearray([number << 3])
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(encoded) + bytes([value])


def build(types: list[tuple[str, str]], values: list[int], period: int = 0, period_unit: str = "") -> bytes:
    """A profile with one sample: `inner` inlined into `outer`, called by a place without a name."""
    strings = ["", *(word for pair in types for word in pair), "outer", "inner", "x.rs", period_unit]
    body = b"".join(
        field(1, integer(1, strings.index(name)) + integer(2, strings.index(unit))) for name, unit in types
    )
    sample = integer(1, 1) + integer(1, 2) + b"".join(integer(2, value) for value in values)
    body += field(2, sample)
    lines = field(4, integer(1, 2) + integer(2, 5)) + field(4, integer(1, 1) + integer(2, 9))
    body += field(4, integer(1, 1) + lines) + field(4, integer(1, 2) + integer(3, 0x1234))
    for number, name in ((1, "outer"), (2, "inner")):
        file = integer(4, strings.index("x.rs"))
        body += field(5, integer(1, number) + integer(2, strings.index(name)) + file)
    body += b"".join(field(6, text.encode()) for text in strings)
    if period:
        body += field(11, integer(2, strings.index(period_unit))) + integer(12, period)
    return body


def test_an_export_of_sidelight_reads_as_its_samples_and_states() -> None:
    assert parse_pprof("x", write(ROWS), CPU, None) == {Stack(";".join(STACK)): Counts(0, 6, 4)}


@pytest.mark.parametrize("kind", ["cpu", "gil"])
def test_a_profile_of_another_type_is_refused(kind: str) -> None:
    with pytest.raises(ProfileTypeMismatch, match=f"holds {kind} samples"):
        parse_pprof("x", write(ROWS, kind), WALL, None)


def test_wall_time_with_states_holds_every_type() -> None:
    rows = [*ROWS, StateRow(STACK, "idle", 90, 900 * MS)]
    for kind in ProfileType:
        assert parse_pprof("x", write(rows, "wall"), kind, None)[Stack(";".join(STACK))] == Counts(90, 6, 4)


FRAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r;%#["), min_size=1, max_size=8
)


@given(
    st.dictionaries(
        st.tuples(FRAMES, st.integers(0, 10**6)).map(lambda pair: (f"main (m.py:{pair[1]})", pair[0])),
        st.integers(1, 2**40),
        min_size=1,
        max_size=20,
    )
)
def test_what_is_written_is_read(counts: dict[tuple[str, str], int]) -> None:
    rows = [StateRow(frames, "running", count, count) for frames, count in counts.items()]
    found = parse_pprof("x", write(rows), CPU, None)
    assert sum(value.cpu for value in found.values()) == sum(counts.values())


@pytest.mark.parametrize(
    ("content", "samples"),
    [
        (build([("samples", "count"), ("cpu", "nanoseconds")], [7, 70 * MS]), 7),
        (build([("alloc_space", "bytes"), ("samples", "count")], [4096, 3]), 3),
        (build([("wall-samples", "count"), ("cpu-samples", "count")], [9, 5]), 5),
        (build([("cpu", "nanoseconds")], [70 * MS], 10 * MS, "nanoseconds"), 7),
        (build([("cpu", "microseconds")], [70_000], 10 * MS, "nanoseconds"), 7),
        (build([("Wall time", "\u03bcs")], [70_400], 10_000, "\u03bcs"), 7),
    ],
)
def test_samples_are_counts_or_time_by_the_period(content: bytes, samples: int) -> None:
    assert parse_pprof("x", content, CPU, None) == {
        Stack("0x1234;outer (x.rs:9);inner (x.rs:5)"): Counts(0, samples, 0)
    }


def test_time_without_a_period_needs_the_weight_of_a_sample() -> None:
    content = build([("cpu", "nanoseconds")], [70 * MS])
    with pytest.raises(UnknownSampleWeight, match="they are nanoseconds, and the profile has no period"):
        parse_pprof("x", content, CPU, None)
    (found,) = parse_pprof("x", content, CPU, 10.0 * MS).values()
    assert found == Counts(0, 7, 0)


@pytest.mark.parametrize("types", [[("alloc_space", "bytes")], [("alloc_objects", "count")]])
def test_bytes_and_objects_are_no_samples(types: list[tuple[str, str]]) -> None:
    with pytest.raises(BadPprof, match=f"it holds {types[0][0]} in {types[0][1]}"):
        parse_pprof("x", build(types, [9]), CPU, None)


@given(st.integers(1, 200), st.binary(min_size=1, max_size=3))
def test_a_damaged_profile_is_read_or_refused(at: int, garbage: bytes) -> None:
    content = build([("cpu", "nanoseconds")], [70 * MS], 10 * MS, "nanoseconds")
    damaged = content[: at % len(content)] + garbage + content[at % len(content) + len(garbage) :]
    for kept in (damaged, content[: at % len(content)]):
        with suppress(BadPprof, UnknownSampleWeight):
            parse_pprof("x", kept, CPU, None)


def test_packed_and_unpacked_profiles_are_recognised_by_content(tmp_path: Path) -> None:
    text, packed, plain = (tmp_path / name for name in ("a.folded", "b", "c"))
    text.write_text("main (a.py:1);work (b.py:7) 6\nmain (a.py:1);work (b.py:7);[gil] 4\n")
    packed.write_bytes(gzip.compress(write(ROWS)))
    plain.write_bytes(write(ROWS))
    read = [read_recording_file(file, CPU).stacks for file in (text, packed, plain)]
    assert read[0] == read[1] == read[2]
    done = compare(str(packed), str(text))
    assert done.stdout.count("10 samples") == 2
    plain.write_bytes(write(ROWS)[:-30])
    done = compare(str(text), str(plain))
    assert (done.returncode, done.stdout) == (65, "")
    assert "no pprof profile of samples" in done.stderr


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(integer(6, 1 << 50), id="a string that is a number, as large as a disk"),
        # A length of -11 leads back to the field itself, for ever.
        pytest.param(bytes([6 << 3 | 2]) + integer(0, (1 << 64) - 11)[1:], id="a negative length"),
    ],
)
def test_a_damaged_field_is_refused_at_once(damage: bytes) -> None:
    with pytest.raises(BadPprof, match="cut or damaged"):
        parse_pprof("x", write(ROWS) + damage, CPU, None)
