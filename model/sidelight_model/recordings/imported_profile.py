"""The stacks of a file, in nanoseconds.

Formats with times keep them; formats with samples have the time of a period for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.counts import STATE_FRAMES, STATES, Counts, ProfileType
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import Stack, number_lines
from sidelight_model.import_formats.austin_mojo import MojoLines
from sidelight_model.import_formats.file_format import FileFormat, describe_json_error, identify_file
from sidelight_model.import_formats.folded_input import EmptyProfile, read_folded
from sidelight_model.import_formats.gecko_profile import GeckoSummary, iter_gecko_stacks
from sidelight_model.import_formats.perf_script import NoTimeInPerf, PerfSummary, iter_perf_samples
from sidelight_model.import_formats.pprof_profile import (
    NS_PER_TIME_UNIT,
    STATE_LABEL,
    PprofProfile,
)
from sidelight_model.import_formats.speedscope_profile import NS_PER_UNIT, iter_weighted_stacks
from sidelight_model.import_formats.trace_events import TraceSummary, iter_trace_stacks
from sidelight_model.import_formats.weighted_stack import WeightedStack
from sidelight_model.recordings.inputs.austin_input import parse_austin

_STATES: Final = dict(zip(STATE_FRAMES, STATES, strict=True))
_RUNNING: Final = "running"
_TIME_TYPES: Final = frozenset(kind.value for kind in ProfileType)
_MAX_WEIGHT: Final = 1e18
_STRUCTURE_ERRORS: Final = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)


class BadFile(SidelightError):
    """A file has no profile that can be imported."""

    reason = Reason.BAD_FOLDED


@dataclass(frozen=True, slots=True)
class ImportedProfile:
    """The time (ns) of each stack and state.

    A state is one of STATES, or empty if the file has none. `has_samples` tells whether the times are numbers
    of samples. A `start_ns` or `duration_ns` of 0 is unknown. `damaged_parts` counts lines, events or samples
    that were left out.
    """

    format: FileFormat
    times: Mapping[tuple[Stack, str], float]
    period_ns: int
    has_samples: bool
    start_ns: int = 0
    duration_ns: int = 0
    damaged_parts: int = 0

    @property
    def total_ns(self) -> int:
        """The time of all stacks."""
        return round(sum(self.times.values()))


def parse_profile(file_name: str, content: bytes, rate_hz: float) -> ImportedProfile:
    """Parse unpacked content; `rate_hz` is its sampling rate if it does not state one.

    Raises BadFile and other SidelightErrors of the reason `bad_folded`, with the name of the file.
    """
    identified = identify_file(file_name, content)
    period_ns = max(round(1e9 / rate_hz), 1)
    try:
        profile = _parse(identified.format, identified.document, file_name, content, period_ns)
    except BadFolded as error:
        raise BadFile(f"{file_name}, {error.message}", hint=error.hint) from error
    except _STRUCTURE_ERRORS as error:
        problem = describe_json_error(content) if content.lstrip()[:1] == b"{" else str(error)
        if identified.document is not None:
            problem = f"a field is missing or has another type ({error})"
        raise BadFile(
            f"{file_name} is no readable profile ({identified.format}): {problem}",
            hint="Was it written to its end? docs/files.md lists the formats.",
        ) from error
    if not profile.total_ns:
        raise EmptyProfile(file_name)
    if profile.total_ns > _MAX_WEIGHT:
        raise BadFile(f"{file_name} claims more time than 30 years", hint="Check the unit of its weights.")
    return profile


def _parse(
    file_format: FileFormat, document: Any, file_name: str, content: bytes, period_ns: int
) -> ImportedProfile:
    match file_format:
        case FileFormat.TRACE:
            trace = TraceSummary()
            times = _sum_entries(iter_trace_stacks(document, trace), 1)
            return ImportedProfile(
                file_format,
                times,
                period_ns,
                has_samples=False,
                duration_ns=trace.duration_ns,
                damaged_parts=trace.damaged_events,
            )
        case FileFormat.GECKO:
            gecko = GeckoSummary()
            samples = _sum_entries(iter_gecko_stacks(document, gecko), 1)
            times = {key: count * gecko.period_ns for key, count in samples.items()}
            return ImportedProfile(
                file_format,
                times,
                gecko.period_ns,
                has_samples=True,
                start_ns=gecko.start_ns,
                duration_ns=gecko.duration_ns,
                damaged_parts=gecko.damaged_samples,
            )
        case FileFormat.SPEEDSCOPE:
            return _parse_speedscope(document, period_ns)
        case FileFormat.PPROF:
            return _parse_pprof(file_name, content, period_ns)
        case FileFormat.MOJO | FileFormat.AUSTIN:
            return _parse_austin(file_format, file_name, content, period_ns)
        case FileFormat.PERF:
            return _parse_perf(file_name, content, period_ns)
        case _:
            folded = read_folded(content)
            times = _convert_counts(folded.stacks, period_ns)
            damaged = folded.unreadable_lines.count
            return ImportedProfile(file_format, times, period_ns, has_samples=True, damaged_parts=damaged)


def _parse_speedscope(document: Any, period_ns: int) -> ImportedProfile:
    extension = document.get("sidelight") or {}
    if isinstance(stated := extension.get("period_ns"), int) and stated > 0:
        period_ns = stated
    units = {profile["unit"] for profile in document["profiles"]}
    if "none" in units and len(units) > 1:
        raise ValueError("some of its profiles hold time and others do not")
    times = _sum_entries(iter_weighted_stacks(document), period_ns if units == {"none"} else 1)
    spans = [
        (profile["endValue"] - profile["startValue"]) * (NS_PER_UNIT[profile["unit"]] or period_ns)
        for profile in document["profiles"]
        if isinstance(profile.get("endValue"), int | float)
        and isinstance(profile.get("startValue"), int | float)
    ]
    return ImportedProfile(
        FileFormat.SPEEDSCOPE,
        times,
        period_ns,
        has_samples=units == {"none"},
        duration_ns=round(max(spans, default=0)),
    )


def _parse_pprof(file_name: str, content: bytes, period_ns: int) -> ImportedProfile:
    profile = PprofProfile(content)
    header = profile.header
    if header.period > 0 and (unit_ns := NS_PER_TIME_UNIT.get(header.period_type.unit)):
        period_ns = header.period * unit_ns
    types = header.value_types
    timed = [at for at, one in enumerate(types) if one.unit in NS_PER_TIME_UNIT and one.name in _TIME_TYPES]
    counted = [at for at, one in enumerate(types) if one.is_sample_count]
    if not timed and not counted:
        names = ", ".join(f"{one.name} in {one.unit}" for one in types)[:80]
        raise BadFile(
            f"{file_name} holds {names or 'nothing'}, and no time",
            hint="Record a profile of CPU or wall time.",
        )
    at = timed[0] if timed else counted[0]
    scale = NS_PER_TIME_UNIT[types[at].unit] if timed else period_ns
    times: defaultdict[tuple[Stack, str], int] = defaultdict(int)
    for sample in profile.iter_samples():
        states = [text for name, text in sample.labels if name == STATE_LABEL and text in STATES]
        if sample.values[at] > 0:
            times[profile.join_stack(sample.locations), states[-1] if states else ""] += (
                sample.values[at] * scale
            )
    return ImportedProfile(
        FileFormat.PPROF,
        times,
        period_ns,
        has_samples=not timed,
        start_ns=max(header.time_ns, 0),
        duration_ns=max(header.duration_ns, 0),
    )


def _parse_austin(file_format: FileFormat, file_name: str, content: bytes, period_ns: int) -> ImportedProfile:
    lines = MojoLines(content)
    is_mojo = file_format is FileFormat.MOJO
    texts = list(enumerate(lines, 1) if is_mojo else number_lines(content))
    interval = next((text.split()[2] for _, text in texts[:20] if text.startswith("# interval: ")), "")
    if interval.isascii() and interval.isdigit() and int(interval[:12]) > 0:
        period_ns = int(interval[:12]) * 1000
    mode = next((text.split()[2] for _, text in texts[:20] if text.startswith("# mode: ")), "")
    kind = ProfileType.CPU if mode == "cpu" else ProfileType.WALL
    recording = parse_austin(file_name, texts, kind, period_ns / 1000)
    times = _convert_counts(recording.stacks, period_ns)
    damaged = len(lines.damage) + recording.damaged_parts
    return ImportedProfile(file_format, times, period_ns, has_samples=True, damaged_parts=damaged)


def _parse_perf(file_name: str, content: bytes, period_ns: int) -> ImportedProfile:
    summary = PerfSummary()
    times: defaultdict[tuple[Stack, str], float] = defaultdict(float)
    try:
        for sample in iter_perf_samples(content, summary):
            times[sample.stack, ""] += sample.period_ns or period_ns
            period_ns = sample.period_ns or period_ns
    except NoTimeInPerf as error:
        raise BadFile(f"{file_name}: {error.message}", hint=error.hint) from error
    return ImportedProfile(
        FileFormat.PERF,
        times,
        period_ns,
        has_samples=True,
        duration_ns=summary.duration_ns,
        damaged_parts=summary.damaged_lines + summary.other_samples,
    )


def _sum_entries(entries: Iterable[WeightedStack], scale: float) -> dict[tuple[Stack, str], float]:
    """Add up the weights of stacks; a file with any state has one for every stack."""
    times: defaultdict[tuple[Stack, str], float] = defaultdict(float)
    for entry in entries:
        times[entry.stack, _STATES[entry.state]] += entry.weight * scale
    return _drop_only_state(times)


def _convert_counts(counts: Mapping[Stack, Counts], period_ns: int) -> dict[tuple[Stack, str], float]:
    return _drop_only_state(
        {
            (stack, state): count * period_ns
            for stack, row in counts.items()
            for state, count in zip(STATES, row, strict=True)
            if count
        }
    )


def _drop_only_state(times: Mapping[tuple[Stack, str], float]) -> dict[tuple[Stack, str], float]:
    """Return times without a state if the file does not tell states apart."""
    has_states = any(state != _RUNNING for _, state in times)
    return {(stack, state if has_states else ""): ns for (stack, state), ns in times.items()}
