"""Check that two recordings are comparable, in the form of a collector's checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sidelight_model.counts import OFF_CPU_STATES, ProfileType
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.recordings.inputs.sample_weights import RecordedSamples
from sidelight_model.recordings.sample_counts import SampleCounts


def check_recordings(
    a: SampleCounts, b: SampleCounts, kind: ProfileType, recordings: Sequence[RecordedSamples]
) -> list[dict[str, Any]]:
    """Return the checks of two recordings, and of how their files were read."""
    few_runs = _make_check(
        "few_pods",
        "One recording a side: runs of one program may differ more than the intervals show.",
        "Record several runs, or compare what sidecars shipped, to see how far runs and pods differ.",
    )
    files = list(zip("AB", recordings, strict=False))
    return [
        few_runs,
        *_check_states(a, b, kind),
        *(check for name, recording in files for check in _check_weight(name, recording.derived_weight)),
        *(check for name, recording in files for check in _check_damage(name, recording)),
    ]


def _make_check(name: str, text: str, hint: str, *, severity: str = "warn") -> dict[str, Any]:
    return {
        "name": name,
        "state": "mismatch",
        "severity": severity,
        "reason": name,
        "text": text,
        "hint": hint,
        "remedy": None,
    }


def _check_weight(name: str, weight: int) -> Iterator[dict[str, Any]]:
    """Report a file whose weights are taken as multiples of one sample."""
    if weight != 1:
        yield _make_check(
            "sample_weight",
            f"{name}: all weights are multiples of {weight:,}, so one sample weighs {weight:,}.",
            "Give --sample-weight 1 if they are numbers of samples.",
        )


def _check_damage(name: str, recording: RecordedSamples) -> Iterator[dict[str, Any]]:
    """Report damaged lines, events and samples of a file that were left out."""
    texts = []
    if lines := recording.unreadable_lines.count:
        first = recording.unreadable_lines.errors[0].message
        texts.append(f"{name}: {format_count(lines, 'damaged line')} left out, the first is {first}.")
    if recording.damaged_parts:
        texts.append(f"{name}: {format_count(recording.damaged_parts, 'damaged event')} left out.")
    for text in texts:
        yield _make_check("unreadable_lines", text, "Was the file written to its end, and by one process?")


def _check_states(a: SampleCounts, b: SampleCounts, kind: ProfileType) -> list[dict[str, Any]]:
    """Check that both recordings hold the same states.

    A file without samples of any waiting state, for example, does not record waiting threads. One without
    samples of threads that wait for the GIL, or for one reason, may be of a program in which none does.
    """
    checks = []
    for name, states, kinds in (
        ("waiting", OFF_CPU_STATES, (ProfileType.WALL, ProfileType.OFF_CPU)),
        ("[gil]", ("gil",), (ProfileType.GIL,)),
        ("[cpu_wait]", ("cpu_wait",), ()),
    ):
        sides = [
            side
            for side, recording in zip("AB", (a, b), strict=True)
            if not any(getattr(recording.states, state) for state in states)
        ]
        if len(sides) == 1:
            other = "B" if sides == ["A"] else "A"
            checks.append(
                _make_check(
                    "states",
                    f"{other} has {name} samples, {sides[0]} has none.",
                    "Record both in the same way: the same --type, and --idle for both or neither.",
                    severity="blocking" if kind in kinds else "warn",
                )
            )
    return checks
