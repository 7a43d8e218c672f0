"""Render a recording as folded stacks, speedscope JSON or an SVG flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sidelight
from sidelight_cli.local.local_recording import LocalRecording
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.export_formats.speedscope import write_speedscope_timeline
from sidelight_model.folded import Stack, join_frames, render_folded, split_stack
from sidelight_model.frames import strip_line_number
from sidelight_model.profile import Profile

EXPORTER = f"sidelight {sidelight.__version__}"
TYPE_DESCRIPTIONS = {
    ProfileType.WALL: "wall time (all states)",
    ProfileType.CPU: "cpu time (running and gil)",
    ProfileType.GIL: "time holding the GIL",
    ProfileType.GIL_WAIT: "time waiting for the GIL",
    ProfileType.OFF_CPU: "off-CPU time",
    ProfileType.TASKS: "time of asyncio tasks",
}


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """Options of a rendered recording.

    If `profile_type` or `split_lines` is None, the format's default applies: folded stacks are data and hold
    all states and lines, while pictures show CPU time by function.
    """

    format: str
    profile_type: ProfileType | None = None
    split_lines: bool | None = None
    mark_states: bool = True
    by_process: bool = False

    @property
    def shown_type(self) -> ProfileType:
        default = ProfileType.WALL if self.format == "folded" else ProfileType.CPU
        return self.profile_type or default

    @property
    def by_line(self) -> bool:
        return self.format == "folded" if self.split_lines is None else self.split_lines


def render_document(
    recording: LocalRecording,
    options: DocumentOptions,
    title: str,
    notes: Sequence[str],
    *,
    start_ns: int,
    length_ns: int,
) -> bytes:
    """Render the recording; equal recordings give equal bytes.

    `start_ns` is a Unix time, `length_ns` the duration; both are in nanoseconds and used by speedscope only.
    """
    if options.format == "svg":
        from sidelight_model.export_formats.svg import write_svg

        rows = recording.build_profile().rows(options.shown_type, lines=options.by_line)
        return write_svg(rows, title, [TYPE_DESCRIPTIONS[options.shown_type], *notes])
    if options.format == "speedscope":
        lanes = recording.timelines.build_timelines(
            start_ns, options.shown_type, by_line=options.by_line, by_process=options.by_process
        )
        period, kind = recording.period_ns, options.shown_type.value
        return write_speedscope_timeline(
            lanes, title, EXPORTER, period_ns=period, length_ns=length_ns, profile_type=kind
        )
    counts = recording.build_profile().samples
    if not options.by_line:
        counts = _strip_lines(recording.build_profile())
    return render_folded(counts, options.shown_type, states=options.mark_states).encode(errors="replace")


def _strip_lines(profile: Profile) -> dict[Stack, Counts]:
    summed: dict[Stack, Counts] = {}
    for stack, counts in profile.samples.items():
        plain = join_frames(strip_line_number(frame) for frame in split_stack(stack))
        summed[plain] = summed.get(plain, ZERO).plus(counts)
    return summed
