"""Export to speedscope's JSON, as sampled profiles.

The schema is https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidelight_model.export_formats.provenance import Provenance
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.tree import StackRow


@dataclass(frozen=True, slots=True)
class ThreadTimeline:
    """The samples of one thread in time order.

    A sample is (nanoseconds since the start of the recording, the stack or None). Times are in ascending
    order.
    """

    name: str
    samples: Sequence[tuple[int, Stack | None]]


def write_speedscope(
    rows: Iterable[StackRow], name: str, exporter: str, provenance: Provenance | None = None
) -> bytes:
    """Write a profile with one sample per stack, weighted in nanoseconds.

    Stacks are sorted by their frames, so equal profiles give equal bytes. `provenance` is written to the
    field `sidelight`, which speedscope ignores.
    """
    codes: dict[str, int] = {}
    samples: list[list[int]] = []
    weights: list[int] = []
    for frames, _, ns in sorted(rows, key=lambda row: tuple(row[0])):
        samples.append([codes.setdefault(frame, len(codes)) for frame in frames])
        weights.append(ns)
    extra_fields = {} if provenance is None else {"sidelight": provenance.to_json()}
    return _encode_document([_build_profile(name, samples, weights)], codes, name, exporter, extra_fields)


def write_speedscope_timeline(
    timelines: Iterable[ThreadTimeline],
    name: str,
    exporter: str,
    *,
    period_ns: int,
    length_ns: int,
    profile_type: str = "",
) -> bytes:
    """Write one profile per thread, with its samples in time order.

    Times are in nanoseconds since the recording began.
    A sample lasts until the next one, but at most two periods. The timeline is blank (a sample without
    frames) during longer gaps and where a sample has no stack. The field `sidelight` has the period, and
    `profile_type` if it is not empty.
    """
    codes: dict[str, int] = {}
    profiles = []
    for lane in timelines:
        runs = _build_runs(lane.samples, 2 * period_ns, length_ns)
        samples = [
            [codes.setdefault(frame, len(codes)) for frame in split_stack(stack)] if stack else []
            for stack, _ in runs
        ]
        profiles.append(_build_profile(lane.name, samples, [ns for _, ns in runs]))
    metadata: dict[str, object] = {"period_ns": period_ns, **({"type": profile_type} if profile_type else {})}
    return _encode_document(profiles, codes, name, exporter, {"sidelight": metadata})


def _build_runs(
    samples: Sequence[tuple[int, Stack | None]], max_ns: int, length_ns: int
) -> list[tuple[Stack | None, int]]:
    """Return (stack, duration) from 0 to the end, with equal neighbours merged."""
    runs: list[tuple[Stack | None, int]] = []

    def append_run(stack: Stack | None, ns: int) -> None:
        if ns <= 0:
            return
        if runs and runs[-1][0] == stack:
            runs[-1] = (stack, runs[-1][1] + ns)
        else:
            runs.append((stack, ns))

    at = 0
    for index, (offset, stack) in enumerate(samples):
        begin = max(at, min(offset, length_ns))
        append_run(None, begin - at)
        following = samples[index + 1][0] if index + 1 < len(samples) else length_ns
        at = max(begin, min(following, offset + max_ns, length_ns))
        append_run(stack, at - begin)
    append_run(None, length_ns - at)
    return runs


def _build_profile(
    name: str, samples: Sequence[Sequence[int]], weights: Sequence[int]
) -> Mapping[str, object]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


def _encode_document(
    profiles: Sequence[Mapping[str, object]],
    codes: Iterable[str],
    name: str,
    exporter: str,
    extra_fields: Mapping[str, object] | None = None,
) -> bytes:
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [to_speedscope_frame(code) for code in codes]},
        "profiles": profiles,
        "name": name,
        "activeProfileIndex": 0,
        "exporter": exporter,
        **(extra_fields or {}),
    }
    # A name may contain half of a surrogate pair, which UTF-8 cannot encode.
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def to_speedscope_frame(text: str) -> dict[str, str | int]:
    """Convert a frame that is escaped as in folded text."""
    frame = Frame.parse(unescape_frame(text))
    document: dict[str, str | int] = {"name": frame.function}
    if frame.file:
        document["file"] = frame.file
    if frame.line:
        document["line"] = frame.line
    return document
