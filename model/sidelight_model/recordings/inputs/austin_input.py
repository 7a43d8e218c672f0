"""Read the samples of an Austin file (https://github.com/P403n1x87/austin).

The text format of Austin 2 and 3, which `mojo2austin` also writes, has one sample a line,

    P42;T0:7;shop.py:main:3;shop.py:work:9 10096

and header lines such as `# mode: wall`. The last word is the time since the previous sample in microseconds;
in mode `full` it is `TIME,IDLE,BYTES`. Each line is one sample, however late it came. A file in which no
line has the stack of another is aggregated (`austin-compress`): its numbers of samples are estimated as time
divided by the interval in the header. Weights whose median is less than half an interval are numbers of
samples (option `counts` of `austin-compress`). Processes and threads are added up. Samples without frames are
ignored. So is a cut line at the end, after others: austin was killed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Final

from sidelight_model.counts import STATE_FRAMES, STATES, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import join_frames
from sidelight_model.frames import escape_frame
from sidelight_model.import_formats.folded_input import parse_colon_frame
from sidelight_model.import_formats.weighted_stack import WeightedStack
from sidelight_model.recordings.inputs.sample_weights import (
    RecordedSamples,
    UnknownSampleWeight,
    count_weighted_samples,
)
from sidelight_model.recordings.inputs.speedscope_input import ProfileTypeMismatch

_IDLE: Final = STATE_FRAMES[STATES.index("idle")]
_HEADER: Final = re.compile(r"# ([a-z]+): (.*)")
_LINE: Final = re.compile(r"P[0-9]+;T[0-9a-fx:]+(?:;(?P<stack>.*))? (?P<metrics>[0-9,-]+)")
_MAX_DIGITS: Final = 18
_SPECIAL_FRAMES: Final = {":INVALID:": "(invalid)", ":GC:": "(garbage collection)"}


class BadAustin(SidelightError):
    """An Austin file has no samples of time."""

    reason = Reason.BAD_FOLDED


@dataclass(frozen=True, slots=True)
class _AustinLine:
    """A sample, with the line without its metrics as `key`."""

    key: str
    frames: str
    time_us: int
    is_idle: bool


def parse_austin(
    file_name: str, lines: Iterable[tuple[int, str]], kind: ProfileType, sample_weight: float | None
) -> RecordedSamples:
    """Parse the samples of a file.

    `sample_weight` replaces a missing interval. Raises BadAustin, UnknownSampleWeight, or ProfileTypeMismatch
    if the file holds another type than `kind`.
    """
    headers: dict[str, str] = {}
    samples, cut_lines = _read_samples(file_name, lines, headers)
    mode = headers.get("mode", "")
    if mode == "memory":
        raise BadAustin(
            f"{file_name} holds bytes, not time", hint="Record time: without the memory option of austin."
        )
    if mode in ("cpu", "wall") and mode != kind.value:
        raise ProfileTypeMismatch(file_name, mode, kind.value)
    interval = float(headers["interval"]) if _is_number(headers.get("interval", "")) else sample_weight
    weights = [sample.time_us for sample in samples]
    is_aggregated = len({sample.key for sample in samples}) == len(samples)
    has_counts = bool(interval and weights and median(weights) < interval / 2)
    if is_aggregated and samples and not interval:
        raise UnknownSampleWeight(
            file_name, "it holds microseconds of aggregated stacks, without an interval"
        )
    entries = [
        WeightedStack(
            join_frames(map(_convert_frame, sample.frames.split(";"))),
            _IDLE if sample.is_idle else "",
            sample.time_us if is_aggregated else 1,
        )
        for sample in samples
        if sample.frames
    ]
    sample_weight = interval if is_aggregated and interval and not has_counts else 1
    try:
        return RecordedSamples(count_weighted_samples(entries, sample_weight), damaged_parts=cut_lines)
    except ValueError as error:
        raise BadAustin(f"{file_name} cannot be counted: {error}", hint="Record it again.") from error


def _read_samples(
    file_name: str, lines: Iterable[tuple[int, str]], headers: dict[str, str]
) -> tuple[list[_AustinLine], int]:
    """Return the samples with a time, and the number of cut lines.

    Adds the headers to `headers`.
    """
    samples: list[_AustinLine] = []
    rest = iter(lines)
    for number, raw in rest:
        line = raw.strip()
        if header := _HEADER.fullmatch(line):
            headers[header[1]] = header[2]
        elif line and not line.startswith("#"):
            match = _LINE.fullmatch(line)
            metrics = match["metrics"].split(",") if match else []
            if match is None or len(metrics) not in (1, 3) or not _is_number(metrics[0]):
                if samples and next(rest, None) is None:
                    return samples, 1
                raise BadAustin(
                    f"{file_name}, line {number}: P<process>;T<thread>;frames and a time were expected",
                    hint="Record it with austin 2 or 3, or convert it with mojo2austin.",
                )
            if time_us := int(metrics[0]):
                is_idle = len(metrics) == 3 and metrics[1] != "0"
                samples.append(_AustinLine(line.rpartition(" ")[0], match["stack"] or "", time_us, is_idle))
    return samples, 0


def _convert_frame(text: str) -> str:
    """Convert `file:function:line` to the form of folded text."""
    if text in _SPECIAL_FRAMES:
        return _SPECIAL_FRAMES[text]
    return escape_frame(parse_colon_frame(text).text)


def _is_number(text: str) -> bool:
    """Whether a text is a whole number, and no larger than a time or a line can be."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
