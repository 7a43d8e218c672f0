"""Text of `perf script`: one file of a real perf, and small ones written from the manual page.

`recorded/python-3.13.perf` is `perf script` of perf 6.1 after `perf record -F 99 -k 1 --call-graph dwarf -e
cpu-clock -- python3.13 -X perf_jit shop.py` and `perf inject -j`; only its folders are changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.folded import split_stack
from sidelight_model.import_formats.file_format import FileFormat, identify_file
from sidelight_model.recordings.imported_profile import parse_profile
from sidelight_model.recordings.inputs.sample_weights import RecordedSamples
from sidelight_model.recordings.recording_file import parse_recording_file

RECORDED = Path(__file__).parent / "recorded" / "python-3.13.perf"
SAMPLE = "python  7 {time}: {period} {event}: \n\t  85 py::work:/srv/a.py+0x5 (/tmp/perf-7.map)\n\n"


def count_samples(content: bytes) -> RecordedSamples:
    return parse_recording_file("shop.perf", content, ProfileType.CPU, None)


def test_a_real_recording_has_its_samples_times_python_functions_and_kernel_frames() -> None:
    content = RECORDED.read_bytes()
    recording, profile = count_samples(content), parse_profile("shop.perf", content, 100)
    assert sum(counts.running for counts in recording.stacks.values()) == 15
    assert recording.unreadable_lines.count == profile.damaged_parts == 0
    assert (profile.format, profile.period_ns, profile.total_ns) == (FileFormat.PERF, 10101010, 15 * 10101010)
    assert profile.duration_ns == 406_890_000
    stacks = [split_stack(stack) for stack in recording.stacks]
    assert {stack[0] for stack in stacks} == {"thread python"}
    python = max((stack for stack in stacks if "render (/srv/shop.py)" in stack), key=len)
    order = [frame for frame in python if frame.endswith("(/srv/shop.py)")]
    assert order[:3] == ["<module> (/srv/shop.py)", "serve (/srv/shop.py)", "render (/srv/shop.py)"]
    assert any(stack[-1] == "mas_wr_store_type ([kernel.kallsyms])" for stack in stacks)
    assert not any("+0x" in frame for stack in stacks for frame in stack)


@pytest.mark.parametrize(
    ("header", "thread"),
    [
        ("python  7 1.5:   10101010 cpu-clock: ", "python"),
        ("  my worker #2  7/8 [003] 12.000001:  1 cycles:ppp: ", "my worker #2"),
        ("python 7 1.5: cycles:u:", "python"),
        ("python 7 cpu_core/cycles/P: ", "python"),
    ],
)
def test_headers_with_other_fields_are_read(header: str, thread: str) -> None:
    frames = "\t 85 [unknown] (/usr/lib/libz.so)\n\t 0 [unknown] ([unknown])\n"
    content = f"# cmdline : perf record\n#\n{header}\n{frames}"
    assert identify_file("a", content.encode()).format is FileFormat.PERF
    (stack,) = count_samples(content.encode()).stacks
    assert split_stack(stack) == [f"thread {thread}", "[unknown]", "[unknown] (/usr/lib/libz.so)"]


def test_a_sample_counts_once_whatever_its_period_and_cycles_are_no_time() -> None:
    content = "".join(
        SAMPLE.format(time=at / 10, period=period, event="cycles") for at, period in enumerate((1, 999_999))
    )
    assert [counts.running for counts in count_samples(content.encode()).stacks.values()] == [2]
    assert parse_profile("a", content.encode(), 100).total_ns == 2 * 10**7


def test_one_frame_on_the_line_of_the_sample_is_read() -> None:
    content = b"python  7 1.5:  250000 cycles:  ffffffff81 clear_page+0x7 ([kernel.kallsyms])\n" * 2
    assert {stack: counts.running for stack, counts in count_samples(content).stacks.items()} == {
        "thread python;clear_page ([kernel.kallsyms])": 2
    }


def test_a_cut_line_is_left_out_and_named() -> None:
    content = RECORDED.read_bytes()
    cut = content[: content.index(b"py::render") + 10]
    lines = count_samples(cut).unreadable_lines
    assert lines.count == 1
    assert "a sample or a frame of perf" in lines.errors[0].message
    assert parse_profile("a", content + b"garbage\n", 100).damaged_parts == 1


def test_many_damaged_lines_are_an_error_with_the_first_line() -> None:
    content = SAMPLE.format(time=1.5, period=1, event="cycles") + "garbage\n" * 3
    with pytest.raises(SidelightError, match="line 4"):
        count_samples(content.encode())


def test_events_that_are_no_time_are_left_out_or_refused() -> None:
    faults = SAMPLE.format(time=1.5, period=1, event="page-faults")
    with pytest.raises(SidelightError, match="page-faults") as refused:
        parse_profile("shop.perf", faults.encode(), 100)
    assert "cpu-clock" in refused.value.hint
    both = parse_profile("a", (faults + SAMPLE.format(time=2.5, period=9, event="cpu-clock")).encode(), 100)
    assert (both.total_ns, both.damaged_parts) == (9, 1)
