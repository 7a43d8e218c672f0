"""Profiles of a file as a PushRequest of `push.v1.PusherService/Push`.

The id of a profile is a hash of its content, so a file that is imported twice counts once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Final

from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.pprof import SAMPLES, ProfileTimes, StateRow, encode_profile
from sidelight_model.export_formats.protobuf_writer import encode_message
from sidelight_model.folded import split_stack
from sidelight_model.recordings.imported_profile import ImportedProfile

MAX_DURATION_NS: Final = 3600 * 10**9
"""A window covers at most an hour."""
MAX_PARTS: Final = 1000
"""The default of the collector's --max-windows, which bounds a request."""
_METRICS: Final = {ProfileType.CPU: "process_cpu", ProfileType.WALL: "wall"}


def split_durations(duration_ns: int) -> list[int]:
    """Split a duration into equal parts of at most an hour."""
    parts = max(math.ceil(duration_ns / MAX_DURATION_NS), 1)
    return [duration_ns * (at + 1) // parts - duration_ns * at // parts for at in range(parts)]


def encode_push(
    profile: ImportedProfile, labels: Mapping[str, str], kind: ProfileType, *, start_ns: int, duration_ns: int
) -> bytes:
    """Encode a profile that begins at `start_ns`.

    A profile of more than an hour becomes several, each with an equal share of all stacks.
    """
    encoded_labels = b"".join(
        encode_message(1, encode_message(1, name.encode()) + encode_message(2, text.encode(errors="replace")))
        for name, text in {"__name__": _METRICS[kind], **labels}.items()
    )
    series = bytearray(encoded_labels)
    durations = split_durations(duration_ns)
    for at, part_ns in enumerate(durations):
        rows = [
            StateRow(
                split_stack(stack),
                state,
                _share(round(ns / profile.period_ns), at, len(durations)) if profile.has_samples else 0,
                _share(round(ns), at, len(durations)),
            )
            for (stack, state), ns in profile.times.items()
        ]
        times = ProfileTimes(profile.period_ns, start_ns, part_ns)
        content = encode_profile([row for row in rows if row.ns], (SAMPLES, kind.value), times)
        identity = hashlib.sha256(content).hexdigest()
        series += encode_message(2, encode_message(1, content) + encode_message(2, identity.encode()))
        start_ns += part_ns
    return encode_message(1, bytes(series))


def _share(total: int, at: int, parts: int) -> int:
    return total * (at + 1) // parts - total * at // parts
