"""Read the stacks of a speedscope JSON file.

The format is https://www.speedscope.app/file-format-schema.json. A profile of type `sampled` lists stacks
with weights. One of type `evented` lists when frames open and close: each stack has the time until the next
event.

A last frame such as `[idle]` or `[gil_wait]` is a state, as in folded text; a function with that name cannot
be distinguished from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sidelight_model.counts import STATE_FRAMES
from sidelight_model.folded import join_frames
from sidelight_model.frames import Frame, escape_frame
from sidelight_model.import_formats.weighted_stack import WeightedStack

NS_PER_UNIT: Final = {
    "none": None,
    "nanoseconds": 1.0,
    "microseconds": 1e3,
    "milliseconds": 1e6,
    "seconds": 1e9,
}
"""Nanoseconds per unit; weights of unit `none` have none."""


class TooMuchText(Exception):
    """The stacks of a file have more text than allowed."""


def iter_weighted_stacks(document: Mapping[str, Any], max_text: int | None = None) -> Iterator[WeightedStack]:
    """Yield the stacks of all profiles that have frames.

    Weights are in nanoseconds, or without a unit. Raises TooMuchText above `max_text` characters, and
    ValueError, KeyError, TypeError, AttributeError or IndexError for an invalid structure.
    """
    text_length = 0
    texts = [_format_frame(frame) for frame in document["shared"]["frames"]]
    for profile in document["profiles"]:
        if profile["unit"] not in NS_PER_UNIT:
            raise ValueError(f"it is in {str(profile['unit'])[:40]}")
        if profile["type"] not in ("sampled", "evented"):
            raise ValueError(f"it has a profile of type {str(profile['type'])[:40]!r}")
        is_evented = profile["type"] == "evented"
        scale = NS_PER_UNIT[profile["unit"]] or 1.0
        for frames, weight in _iter_events(profile) if is_evented else _iter_samples(profile):
            value = float(weight) * scale
            if not 0 <= value < math.inf:
                raise ValueError(f"a sample weighs {weight}")
            if any(type(at) is not int or not 0 <= at < len(texts) for at in frames):
                raise ValueError("a sample has a frame that is not there")
            text_length += sum(len(texts[at]) + 1 for at in frames)
            if max_text is not None and text_length > max_text:
                raise TooMuchText
            state = texts[frames[-1]] if frames and texts[frames[-1]] in STATE_FRAMES else ""
            frame_indexes = frames[:-1] if state else frames
            if frame_indexes and value:
                yield WeightedStack(
                    join_frames(escape_frame(texts[at]) for at in frame_indexes), state, value
                )


def _iter_samples(profile: Mapping[str, Any]) -> Iterator[tuple[Sequence[int], float]]:
    samples, weights = profile["samples"], profile["weights"]
    if len(samples) != len(weights):
        raise ValueError(f"a profile has {len(samples):,} samples and {len(weights):,} weights")
    yield from zip(samples, weights, strict=True)


def _iter_events(profile: Mapping[str, Any]) -> Iterator[tuple[Sequence[int], float]]:
    frames: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        if event["at"] > last and frames:
            yield frames, event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            frames.append(event["frame"])
        elif event["type"] == "C" and frames and frames[-1] == event["frame"]:
            frames.pop()
        else:
            raise ValueError("its events do not open and close frames in turn")


def _format_frame(frame: Mapping[str, Any]) -> str:
    name, file, line = frame["name"], frame.get("file") or "", frame.get("line") or 0
    if not (isinstance(name, str) and isinstance(file, str) and type(line) is int):
        raise ValueError("a frame's name or file is no text, or its line no number")
    return Frame(name or "(no name)", file, max(line, 0)).text
