"""Check that two recordings are comparable, in the form of a collector's checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidelight_cli.compare.inputs.sample_weights import RecordedSamples
from sidelight_cli.compare.sample_counts import SampleCounts
from sidelight_model.counts import STATES, ProfileType
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.import_formats.folded_input import UnreadableLines


def check_recordings(
    a: SampleCounts, b: SampleCounts, kind: ProfileType, recordings: Sequence[RecordedSamples]
) -> list[dict[str, Any]]:
    """Return the checks of two recordings, and of how their files were read."""
    return [
        _make_single_run_check(),
        *_check_states(a, b, kind),
        *_check_weights([recording.derived_weight for recording in recordings]),
        *_check_lines([recording.unreadable_lines for recording in recordings]),
        *_check_parts([recording.damaged_parts for recording in recordings]),
    ]


def _make_single_run_check() -> dict[str, Any]:
    return {
        "name": "few_pods",
        "state": "mismatch",
        "severity": "warn",
        "reason": "few_pods",
        "text": "One recording a side: runs of one program may differ more than the intervals show.",
        "hint": "Record several runs, or compare what sidecars shipped, to see how far runs and pods differ.",
        "remedy": None,
    }


def _check_weights(derived_weights: Sequence[int]) -> list[dict[str, Any]]:
    """Report files whose weights are taken as multiples of one sample."""
    return [
        {
            "name": "sample_weight",
            "state": "mismatch",
            "severity": "warn",
            "reason": "sample_weight",
            "text": f"{name}: all weights are multiples of {weight:,}, so one sample weighs {weight:,}.",
            "hint": "Give --sample-weight 1 if they are numbers of samples.",
            "remedy": None,
        }
        for name, weight in zip("AB", derived_weights, strict=False)
        if weight != 1
    ]


def _check_lines(unreadable_lines: Sequence[UnreadableLines]) -> list[dict[str, Any]]:
    """Report damaged lines that were left out."""
    return [
        {
            "name": "unreadable_lines",
            "state": "mismatch",
            "severity": "warn",
            "reason": "unreadable_lines",
            "text": f"{name}: {format_count(lines.count, 'damaged line')} left out, the first is "
            f"{lines.errors[0].message}.",
            "hint": "Was the file written to its end, and by one process?",
            "remedy": None,
        }
        for name, lines in zip("AB", unreadable_lines, strict=False)
        if lines.count
    ]


def _check_parts(damaged_parts: Sequence[int]) -> list[dict[str, Any]]:
    """Report damaged events and samples that were left out."""
    return [
        {
            "name": "unreadable_lines",
            "state": "mismatch",
            "severity": "warn",
            "reason": "unreadable_lines",
            "text": f"{name}: {format_count(count, 'damaged event')} left out.",
            "hint": "Was the file written to its end, and by one process?",
            "remedy": None,
        }
        for name, count in zip("AB", damaged_parts, strict=False)
        if count
    ]


def _check_states(a: SampleCounts, b: SampleCounts, kind: ProfileType) -> list[dict[str, Any]]:
    """Check that both recordings hold the same states.

    A file without idle samples, for example, does not record waiting threads. One without samples of
    threads that wait for the GIL may be of a program in which none does.
    """
    sides_lacking = {
        state: [name for name, side in zip("AB", (a, b), strict=True) if not getattr(side.states, state)]
        for state in STATES
        if state not in ("running", "gil_wait")
    }
    checks = []
    required_state = {ProfileType.WALL: "idle", ProfileType.GIL: "gil"}.get(kind)
    for state, sides in sides_lacking.items():
        if len(sides) == 1:
            other = "B" if sides == ["A"] else "A"
            checks.append(
                {
                    "name": "states",
                    "state": "mismatch",
                    "severity": "blocking" if state == required_state else "warn",
                    "reason": "states",
                    "text": f"{other} has [{state}] samples, {sides[0]} has none.",
                    "hint": "Record both in the same way: the same --type, and --idle for both or neither.",
                    "remedy": None,
                }
            )
    return checks
