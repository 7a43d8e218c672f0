"""speedscope's JSON, the sampled kind (https://www.speedscope.app/file-format-schema.json)."""

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
    """One thread over time: (nanoseconds since the recording began, its stack or None for nothing to show).

    Moments are in ascending order.
    """

    name: str
    samples: Sequence[tuple[int, Stack | None]]


def write_speedscope(
    rows: Iterable[StackRow], name: str, exporter: str, provenance: Provenance | None = None
) -> bytes:
    """A profile as speedscope reads it: one sample a stack, weighted in nanoseconds.

    Stacks stand in the order of their frames, so equal profiles give equal bytes. `provenance` is written
    under `sidelight`, a name that speedscope does not look at.
    """
    codes: dict[str, int] = {}
    samples: list[list[int]] = []
    weights: list[int] = []
    for frames, _, ns in sorted(rows, key=lambda row: tuple(row[0])):
        samples.append([codes.setdefault(frame, len(codes)) for frame in frames])
        weights.append(ns)
    told = {} if provenance is None else {"sidelight": provenance.to_json()}
    return _encode_document([_build_profile(name, samples, weights)], codes, name, exporter, told)


def write_speedscope_timeline(
    timelines: Iterable[ThreadTimeline],
    name: str,
    exporter: str,
    *,
    period_ns: int,
    length_ns: int,
    profile_type: str = "",
) -> bytes:
    """Threads in time order, a profile each, in nanoseconds since the recording began.

    A sample lasts until the next one, and two periods at most: where nothing was seen for longer, and
    where a moment has no stack, the lane is blank (a sample of no frames). The period is written under
    `sidelight`, and so is the type of time where one is given.
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
    told: dict[str, object] = {"period_ns": period_ns, **({"type": profile_type} if profile_type else {})}
    return _encode_document(profiles, codes, name, exporter, {"sidelight": told})


def _build_runs(
    samples: Sequence[tuple[int, Stack | None]], max_ns: int, length_ns: int
) -> list[tuple[Stack | None, int]]:
    """What is shown for how long, from 0 to the end; neighbours that are the same are one."""
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
    # A name may hold half of a surrogate pair, which UTF-8 cannot.
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def to_speedscope_frame(text: str) -> dict[str, str | int]:
    """A frame, escaped as in folded text, as speedscope has it."""
    frame = Frame.parse(unescape_frame(text))
    written: dict[str, str | int] = {"name": frame.function}
    if frame.file:
        written["file"] = frame.file
    if frame.line:
        written["line"] = frame.line
    return written
