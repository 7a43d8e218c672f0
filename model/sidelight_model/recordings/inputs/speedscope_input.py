"""Read the samples of a speedscope JSON file.

`sidelight_model.import_formats.speedscope_profile` reads the format.

The file holds durations of stacks, but a comparison needs numbers of samples. Each weight is therefore
divided by the sample period:

- Files written by sidelight hold the period (`sidelight.period_ns`) or the number of samples.
- In other files it is `--sample-weight`, in the unit of the file.
- Without it, the period is the smallest weight, if all weights are multiples of it and would hardly be by
  chance. This holds for py-spy, whose samples all have the same weight.
- Otherwise each entry counts as one sample, which never overestimates the number.
- Weights without a unit are those of folded text (`sample_weights`).

All profiles of a file (its threads) are added up. Samples without frames are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.import_formats.speedscope_profile import NS_PER_UNIT, iter_weighted_stacks
from sidelight_model.recordings.inputs.sample_weights import (
    RecordedSamples,
    count_folded_samples,
    count_weighted_samples,
)

MULTIPLE_TOLERANCE: Final = 0.01
"""Largest deviation from a multiple of the smallest weight, as a fraction of that weight."""
_MIN_POSSIBILITIES: Final = 100
"""Weights that are all multiples by chance once in fewer cases have no period."""


class BadSpeedscope(SidelightError):
    """A JSON file is not a speedscope profile with samples."""

    reason = Reason.BAD_FOLDED

    def __init__(self, file_name: str, problem: str) -> None:
        super().__init__(
            f"{file_name} starts like JSON, but is not a speedscope profile: {problem}",
            hint="Record one: sidelight record -o NAME.speedscope.json, or py-spy record -f speedscope; "
            "or folded text.",
        )


class ProfileTypeMismatch(SidelightError):
    """A file declares another profile type than the requested one."""

    reason = Reason.BAD_SETTING

    def __init__(self, file_name: str, actual: str, requested: str) -> None:
        super().__init__(
            f"{file_name} holds {actual} samples, out of which {requested} cannot be told",
            hint=f"Compare with --type {actual}, or record folded text, which has all states.",
        )


def parse_speedscope(
    file_name: str, content: bytes, kind: ProfileType, sample_weight: float | None = None
) -> RecordedSamples:
    """Parse the samples of a file.

    `sample_weight` is the time of one sample in the unit of the file, if the file does not state it. Raises
    BadSpeedscope, UnknownSampleWeight, or ProfileTypeMismatch if the file declares another type than `kind`.
    """
    try:
        document: Any = json.loads(content)
        extension = document.get("sidelight") or {}
        actual_type = extension.get("type", kind.value)
        entries = list(iter_weighted_stacks(document))
        units = {profile["unit"] for profile in document["profiles"]}
        samples, period = (
            sum(side["samples"] for side in extension.get("sides", ())),
            extension.get("period_ns"),
        )
    except UnicodeDecodeError as error:
        raise BadSpeedscope(file_name, "it is not UTF-8") from error
    except RecursionError as error:
        raise BadSpeedscope(file_name, "it is nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise BadSpeedscope(file_name, str(error)) from error
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise BadSpeedscope(file_name, f"a field is missing or has the wrong type ({error})") from error
    if actual_type != kind.value:
        raise ProfileTypeMismatch(file_name, str(actual_type), kind.value)
    if "none" in units and len(units) > 1:
        raise BadSpeedscope(file_name, "some of its profiles hold time and others do not")
    sample_period = 1.0
    if units and units != {"none"}:
        unit_ns = min(NS_PER_UNIT[unit] or 1.0 for unit in units)
        if sample_weight and not (period or samples):
            period = sample_weight * unit_ns
        sample_period = find_sample_period([entry.weight for entry in entries], samples, period, unit_ns)
    try:
        counts = count_weighted_samples(entries, sample_period)
    except ValueError as error:
        raise BadSpeedscope(file_name, str(error)) from error
    if units == {"none"} and not samples:
        return count_folded_samples(file_name, counts, sample_weight)
    return RecordedSamples(counts)


def find_sample_period(weights: Sequence[float], samples: object, period: object, unit_ns: float) -> float:
    """Return the time between samples, in nanoseconds.

    `samples` and `period` are those of the file, if it states them; `unit_ns` is the unit of the weights.
    """
    total = sum(weights)
    if not total:
        return 1.0
    if isinstance(period, int | float) and 0 < period < math.inf:
        return float(period)
    if isinstance(samples, int) and samples > 0:
        return total / samples
    smallest = min(weights)
    are_multiples = all(
        abs(weight / smallest - round(weight / smallest)) <= MULTIPLE_TOLERANCE for weight in weights
    )
    is_period = are_multiples and _count_possibilities(weights, smallest, unit_ns) >= _MIN_POSSIBILITIES
    return smallest if is_period else total / len(weights)


def _count_possibilities(weights: Sequence[float], smallest: float, unit_ns: float) -> float:
    """Return the number of cases of which one is multiples by chance.

    Whole numbers of units are multiples of a small one more often than the tolerance says.
    """
    one_in = 1 / (2 * MULTIPLE_TOLERANCE)
    if all((weight / unit_ns).is_integer() for weight in weights):
        one_in = min(one_in, smallest / unit_ns)
    return one_in ** min(len(weights) - 1, _MIN_POSSIBILITIES)
