"""A recording as a document: folded text, speedscope's JSON or an SVG flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sidelight
from sidelight_cli.local.local_recording import Recording
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.export_formats.speedscope import write_lanes
from sidelight_model.export_formats.svg import write_svg
from sidelight_model.folded import Stack, join, render_folded, split
from sidelight_model.frames import without_line
from sidelight_model.profile import Profile

EXPORTER = f"sidelight {sidelight.__version__}"
WORDS = {
    ProfileType.WALL: "wall time (idle, running and gil)",
    ProfileType.CPU: "cpu time (running and gil)",
    ProfileType.GIL: "time holding the GIL",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a document shows; `kind` and `lines` None are the format's own default.

    Folded text is data, so it has everything unless asked otherwise: every state, every line. Pictures
    show the time that was worked, by function.
    """

    format: str
    kind: ProfileType | None = None
    lines: bool | None = None
    states: bool = True
    processes: bool = False

    @property
    def shown(self) -> ProfileType:
        default = ProfileType.WALL if self.format == "folded" else ProfileType.CPU
        return self.kind or default

    @property
    def by_line(self) -> bool:
        return self.format == "folded" if self.lines is None else self.lines


def document(
    recording: Recording, shape: Shape, title: str, notes: Sequence[str], *, start_ns: int, length_ns: int
) -> bytes:
    """The recording in the shape's format; equal recordings give equal bytes."""
    if shape.format == "svg":
        rows = recording.profile().rows(shape.shown, lines=shape.by_line)
        return write_svg(rows, title, [WORDS[shape.shown], *notes])
    if shape.format == "speedscope":
        lanes = recording.lanes.lanes(start_ns, shape.shown, lines=shape.by_line, processes=shape.processes)
        period, kind = recording.period_ns, shape.shown.value
        return write_lanes(lanes, title, EXPORTER, period_ns=period, length_ns=length_ns, kind=kind)
    counts = recording.profile().samples
    if not shape.by_line:
        counts = _without_lines(recording.profile())
    return render_folded(counts, shape.shown, states=shape.states).encode(errors="replace")


def _without_lines(profile: Profile) -> dict[Stack, Counts]:
    summed: dict[Stack, Counts] = {}
    for stack, counts in profile.samples.items():
        plain = join(without_line(frame) for frame in split(stack))
        summed[plain] = summed.get(plain, ZERO).plus(counts)
    return summed
