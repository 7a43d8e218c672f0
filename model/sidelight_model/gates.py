"""Gates for CI: the condition `cpu>+3%` fails if B takes over 3 % more CPU than A.

    condition  SUBJECT (">" ["+"] | "<" "-") NUMBER UNIT     blanks are allowed between the parts
    SUBJECT    rate | cpu | wall | gil | gil_wait | off_cpu | tasks | idle | depth.mean | depth.p50
               | depth.p95 | depth.p99 | depth.max | function:PATTERN | self:PATTERN | share:PATTERN
    UNIT       %     of what the subject is in A
               pp    points of A's total: of its wall time for idle, else of its time of the requested type;
                     points of the profile for share
               ms s  absolute, per pod-second (or per request); not for idle and share
               none  frames, only for depths

A condition describes a change that is *not* allowed. PATTERN is a regular expression that must match a
function's whole name. In `PATTERN (FILE)` the regular expression FILE must also match the whole file name.
`share` is the part of a side's profile in stacks that contain a matching function, each stack once.

The status is `regressed` only if the change is outside noise and the estimate exceeds the threshold. It is
`pass` only if a change as large as the threshold would have been detected: the confidence interval ends
below the threshold, or the minimum detectable effect is at most the threshold. Otherwise it is
`inconclusive`.

A comparison by composition knows shares of the profile alone. Conditions on `function` and `self` are then
about shares. Time as a whole and absolute units are `inconclusive`, and the reason names the remedy.

A `minor` change is outside noise and below the smallest relevant size of the comparison. A condition states a
size of its own, so its threshold alone decides about minor changes too: they pass every threshold of at least
the smallest relevant size, and are `regressed` beyond a smaller one. A percentage of a small function is a
smaller one; points of share are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sidelight_model.change import format_number, format_percent, format_signed
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.selectors import FullMatch, PatternCheck, check_pattern, is_full_match

MAX_CHARACTERS: Final = 1024
TIME_SUBJECTS: Final = ("rate", "cpu", "wall", "gil", "gil_wait", "off_cpu", "tasks")
DEPTH_SUBJECTS: Final = ("depth.mean", "depth.p50", "depth.p95", "depth.p99", "depth.max")
FUNCTION_SUBJECTS: Final = ("function", "self", "share")
ABSOLUTE_UNITS: Final = ("ms", "s")
COMPOSITION: Final = "composition"
"""The basis of a comparison that knows shares of the profile alone."""
_PLAIN_SUBJECTS: Final = (*TIME_SUBJECTS, "idle", *DEPTH_SUBJECTS)
_SUBJECT_PATTERN: Final = re.compile(r"[a-z][a-z0-9._]*")
_THRESHOLD_PATTERN: Final = re.compile(
    r"(?P<sign>[<>])\s*(?P<plus>[+-]?)\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[^\s<>]*)"
)
_FUNCTION_AND_FILE_PATTERN: Final = re.compile(r"(?P<function>.+) \((?P<file>.+)\)", re.DOTALL)
_MAX_DIGITS: Final = 15


class GateStatus(StrEnum):
    """The result of a condition."""

    PASS = "pass"  # noqa: S105 - a status, not a password
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not_comparable"


class BadCondition(SidelightError):
    """A condition cannot be parsed; `position` counts characters from 0."""

    reason = Reason.BAD_PARAMETER

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(
            f"condition {text[:120]!r}, position {position}: {problem}",
            hint="A condition is what must not be: cpu>+3%, idle<-5pp, depth.p95>+5, share:json.*>+1pp.",
        )
        self.position = position


@dataclass(frozen=True, slots=True)
class Condition:
    """A change that is not allowed.

    B's `subject` must not be above (`sign` 1) or below (`sign` -1) A's by more than `threshold`, in `unit`.
    `threshold` is zero or more for both signs. `pattern` is empty except for `FUNCTION_SUBJECTS`. `str`
    returns the shortest form of a condition, and parsing that gives an equal condition; `text` is the
    original text.
    """

    subject: str
    pattern: str
    sign: int
    threshold: float
    unit: str
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        subject = f"{self.subject}:{self.pattern}" if self.pattern else self.subject
        return f"{subject}{'>+' if self.sign > 0 else '<-'}{_format_threshold(self.threshold)}{self.unit}"

    @property
    def limit_text(self) -> str:
        """The threshold in words: `+3 %`."""
        sign = ("+" if self.sign > 0 else "\u2212") if self.threshold else ""
        unit = " frame" if (self.unit, self.threshold) == ("", 1) else _UNIT_LABELS[self.unit]
        return f"{sign}{_format_threshold(self.threshold)}{unit}"

    @property
    def needs_time(self) -> bool:
        """Whether the condition is about time, and not about shares, idle time or depth."""
        return self.subject in TIME_SUBJECTS or self.unit in ABSOLUTE_UNITS

    @property
    def patterns(self) -> tuple[str, str]:
        """The regular expressions for the function and the file; an empty one matches any."""
        both = _FUNCTION_AND_FILE_PATTERN.fullmatch(self.pattern)
        return (both["function"], both["file"]) if both else (self.pattern, "")

    def accepts(self, function: str, file: str, fullmatch: FullMatch = is_full_match) -> bool:
        """Return whether the condition applies to this function."""
        function_pattern, file_pattern = self.patterns
        return fullmatch(function_pattern, function) and (not file_pattern or fullmatch(file_pattern, file))


def parse_condition(text: str, check_pattern: PatternCheck = check_pattern) -> Condition:
    """Parse a condition.

    `check_pattern` raises ValueError for a pattern that the `FullMatch` in use does not support. Raises
    BadCondition with the position of the error and what was expected there.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadCondition(text, MAX_CHARACTERS, f"longer than {MAX_CHARACTERS} characters")
    at = len(text) - len(text.lstrip())
    word = _SUBJECT_PATTERN.match(text, at)
    if word is None:
        raise BadCondition(text, at, f"a subject was expected: {_list_subjects()}")
    if word[0] in FUNCTION_SUBJECTS and text.startswith(":", word.end()):
        return _parse_function_condition(text, word[0], word.end() + 1, check_pattern)
    if word[0] in FUNCTION_SUBJECTS:
        raise BadCondition(text, word.end(), f"`:` and a pattern were expected, such as {word[0]}:json.*")
    if word[0] not in _PLAIN_SUBJECTS:
        raise BadCondition(text, at, f"{word[0]!r} is not one of {_list_subjects()}")
    begin = _skip_spaces(text, word.end())
    tail = _THRESHOLD_PATTERN.match(text, begin)
    if tail is None:
        raise _make_threshold_error(text, begin)
    return _build_condition(text, word[0], "", tail)


def _parse_function_condition(text: str, subject: str, begin: int, check_pattern: PatternCheck) -> Condition:
    """Parse a condition about functions, whose pattern begins at `begin`.

    The pattern may contain `<` and `>` (`<lambda>`), so the last one in the text is the comparison.
    """
    at = max(text.rfind(">", begin), text.rfind("<", begin))
    tail = _THRESHOLD_PATTERN.match(text, at) if at >= 0 else None
    if tail is None:
        raise _make_threshold_error(text, len(text) if at < 0 else at)
    pattern = text[begin:at].strip()
    if not pattern:
        raise BadCondition(text, begin, f"a pattern was expected, such as {subject}:json.*")
    condition = _build_condition(text, subject, pattern, tail)
    for expression in filter(None, condition.patterns):
        try:
            check_pattern(expression)
        except ValueError as error:
            raise BadCondition(text, begin, f"the regular expression cannot be read: {error}") from error
    return condition


def _build_condition(text: str, subject: str, pattern: str, tail: re.Match[str]) -> Condition:
    sign = 1 if tail["sign"] == ">" else -1
    if sign > 0 and tail["plus"] == "-":
        raise BadCondition(text, tail.start("plus"), "`+` was expected: `>` is about what grows")
    if sign < 0 and tail["plus"] != "-" and float(tail["number"]):
        raise BadCondition(text, tail.start("number"), "`-` was expected: `<` is about what shrinks")
    if len(tail["number"]) > _MAX_DIGITS:
        raise BadCondition(text, tail.start("number"), f"more than {_MAX_DIGITS} digits")
    units = _allowed_units(subject)
    if tail["unit"] not in units:
        expected = " or ".join(unit or "no unit (frames)" for unit in units)
        raise BadCondition(text, tail.start("unit"), f"{expected} was expected after the number")
    if (end := _skip_spaces(text, tail.end())) < len(text):
        raise BadCondition(text, end, "nothing may follow the unit")
    return Condition(subject, pattern, sign, float(tail["number"]), tail["unit"], text.strip())


def _make_threshold_error(text: str, at: int) -> BadCondition:
    if not text.startswith(("<", ">"), at):
        return BadCondition(text, at, "`>` or `<` was expected, such as >+3%")
    return BadCondition(text, at + 1, "a number was expected, such as +3%")


def _allowed_units(subject: str) -> tuple[str, ...]:
    if subject in DEPTH_SUBJECTS:
        return ("", "%")
    return ("%", "pp") if subject in ("idle", "share") else ("%", "pp", *ABSOLUTE_UNITS)


def evaluate_condition(
    condition: Condition,
    effect: Mapping[str, Any] | None,
    *,
    total_rate: float = 0.0,
    basis: str = "",
    basis_reason: str = "",
) -> tuple[GateStatus, str]:
    """Evaluate a condition; return its status and the reason.

    `effect` is the API's Effect of the condition's subject. None means that neither side has the subject,
    though both were observed; that is a `pass` for functions. `total_rate` is A's total rate of the
    requested type, needed for functions in `pp`. By composition (`basis`) the effects of functions are of
    shares, and `basis_reason` is the sentence that says why. The deepest stack (depth.max) is an observation
    without a confidence interval: its effect needs only `baseline` and `comparison`.
    """
    subject = _describe_subject(condition, is_share=basis == COMPOSITION)
    direction = effect.get("direction") if effect else None
    if direction == "not_comparable":
        return GateStatus.NOT_COMPARABLE, f"{subject}: the sides are not comparable."
    if direction == "no_data":
        return GateStatus.INCONCLUSIVE, f"{subject}: a side was not watched, or did not record it."
    is_whole = condition.subject not in FUNCTION_SUBJECTS
    if (condition.needs_time and basis == COMPOSITION) or (is_whole and direction == "not_judged"):
        reason = basis_reason or UNKNOWN_LOAD_REASON
        return GateStatus.INCONCLUSIVE, f"{subject}: not judged. {reason} {COMPOSITION_REMEDY}"
    if effect is None and condition.subject not in FUNCTION_SUBJECTS:
        return GateStatus.INCONCLUSIVE, f"{subject}: nothing was measured."
    if effect is None or not (effect["baseline"] or effect["comparison"]):
        return GateStatus.PASS, f"{subject}: on neither side."
    is_share = condition.subject == "share" or basis == COMPOSITION
    scaled = _scale_effect(condition, effect, 1.0 if is_share else total_rate)
    return _judge_change(
        condition, effect, scaled, f"{subject}: {_describe_change(condition, effect, scaled)}"
    )


def _judge_change(
    condition: Condition, effect: Mapping[str, Any], scaled: _ScaledEffect, change: str
) -> tuple[GateStatus, str]:
    """Judge a measured change, which `change` describes."""
    direction, estimate = effect.get("direction"), condition.sign * scaled.estimate
    if condition.subject == "depth.max":
        beyond = estimate > condition.threshold
        status = GateStatus.REGRESSED if beyond else GateStatus.PASS
        return status, f"{change}, {_describe_limit(condition, is_beyond=beyond)}."
    is_minor = direction == "minor"
    rose = direction in ("increased", "new") or (is_minor and scaled.estimate > 0)
    fell = direction in ("decreased", "removed") or (is_minor and scaled.estimate < 0)
    grew, shrank = (rose, fell) if condition.sign > 0 else (fell, rose)
    if grew and estimate > condition.threshold:
        return GateStatus.REGRESSED, f"{change}, {_describe_limit(condition, is_beyond=True)}."
    furthest = scaled.high if condition.sign > 0 else -scaled.low
    is_detectable = scaled.min_effect <= condition.threshold
    if shrank or furthest < condition.threshold or is_detectable:
        return GateStatus.PASS, f"{change}, {_describe_limit(condition, is_beyond=False)}."
    if not condition.threshold and direction == "unchanged":
        return GateStatus.PASS, f"{change}: no detectable change."
    return (
        GateStatus.INCONCLUSIVE,
        f"{change}: not enough data to distinguish it from {condition.limit_text}.",
    )


def compute_min_effect(
    condition: Condition, effect: Mapping[str, Any] | None, *, total_rate: float = 0.0, basis: str = ""
) -> float | None:
    """Compute the minimum detectable effect in the condition's unit.

    It depends on the variance and not on the estimate, so a caller may wait for it: repeated checks do not
    make an error more likely. Returns None without one: nothing in A, or the deepest stack, which has no
    interval.
    """
    if effect is None or condition.subject == "depth.max" or not effect.get("baseline"):
        return None
    is_share = condition.subject == "share" or basis == COMPOSITION
    min_effect = _scale_effect(condition, effect, 1.0 if is_share else total_rate).min_effect
    return min_effect if math.isfinite(min_effect) else None


def format_amount(condition: Condition, value: float) -> str:
    """Format an amount in the condition's unit: `3.8 %`; clamp it to ±`_MAX_AMOUNT`."""
    value = max(-_MAX_AMOUNT, min(value, _MAX_AMOUNT))
    return (
        format_percent(value / 100)
        if condition.unit == "%"
        else f"{format_number(value)}{_UNIT_LABELS[condition.unit]}"
    )


def combine_statuses(gate_statuses: Iterable[str]) -> GateStatus:
    """Combine the statuses of several conditions into one.

    The result is the first of regressed, not comparable and inconclusive that occurs, else pass.
    """
    statuses = set(gate_statuses)
    order = (GateStatus.REGRESSED, GateStatus.NOT_COMPARABLE, GateStatus.INCONCLUSIVE)
    return next((state for state in order if state in statuses), GateStatus.PASS)


@dataclass(frozen=True, slots=True)
class _ScaledEffect:
    """An effect in the unit of a condition; an unknown value is infinite."""

    estimate: float
    low: float
    high: float
    min_effect: float


def _scale_effect(condition: Condition, effect: Mapping[str, Any], total_rate: float) -> _ScaledEffect:
    a, b = effect["baseline"], effect["comparison"]
    if condition.unit == "%":
        if not a:  # zero has no percentage: a new subject exceeds every threshold
            return _ScaledEffect(math.inf, -math.inf, math.inf, math.inf)
        factor = 100.0
        estimate = _number_or_default(effect.get("relative"), b / a - 1)
        low, high = (
            _number_or_default(effect.get("relative_low"), -math.inf),
            _number_or_default(effect.get("relative_high"), math.inf),
        )
        min_effect = _number_or_default(effect.get("min_detectable_effect"), math.inf)
    else:
        factor = _compute_scale(condition, a, total_rate)
        estimate = _number_or_default(effect.get("delta"), b - a)
        low, high = (
            _number_or_default(effect.get("low"), -math.inf),
            _number_or_default(effect.get("high"), math.inf),
        )
        min_effect = _number_or_default(effect.get("min_detectable_effect"), math.inf) * a if a else math.inf
    return _ScaledEffect(estimate * factor, low * factor, high * factor, min_effect * factor)


def _compute_scale(condition: Condition, a: float, total_rate: float) -> float:
    if condition.unit == "pp":
        if condition.subject == "idle":
            return 100.0
        if condition.subject in TIME_SUBJECTS:
            total_rate = a
        return 100.0 / total_rate if total_rate else math.inf
    return 1000.0 if condition.unit == "ms" else 1.0


def _number_or_default(value: object, default: float) -> float:
    """Read a number of a JSON response, in which null is a missing value."""
    return float(value) if isinstance(value, int | float) and not math.isnan(value) else default


UNKNOWN_LOAD_REASON: Final = "They ran at different times and request counts are unknown."
COMPOSITION_REMEDY: Final = (
    "Compare the overlap, give request counts, or use a condition on function:PATTERN or share:PATTERN in % "
    "or pp."
)
_SUBJECT_NAMES: Final = {
    "rate": "the whole time",
    "cpu": "CPU time",
    "wall": "thread time",
    "gil": "GIL time",
    "gil_wait": "time waiting for the GIL",
    "off_cpu": "off-CPU time",
    "tasks": "time of asyncio tasks",
    "idle": "idle share",
    "depth.mean": "mean depth",
    "depth.p50": "median depth",
    "depth.p95": "depth (p95)",
    "depth.p99": "depth (p99)",
    "depth.max": "deepest stack",
}


def _describe_subject(condition: Condition, *, is_share: bool) -> str:
    if condition.subject in FUNCTION_SUBJECTS:
        quantity = "share" if is_share or condition.subject == "share" else "time"
        return f"{'self ' if condition.subject == 'self' else ''}{quantity} of {condition.pattern}"
    return _SUBJECT_NAMES[condition.subject]


def _describe_limit(condition: Condition, *, is_beyond: bool) -> str:
    return f"{'beyond' if is_beyond else 'not beyond'} {condition.limit_text}"


def _describe_change(condition: Condition, effect: Mapping[str, Any], scaled: _ScaledEffect) -> str:
    if not effect["baseline"]:
        return "A has none, B has some"
    if not math.isfinite(scaled.estimate):
        return "the whole time of A is not known"
    estimate = _format_signed_amount(condition, scaled.estimate)
    if condition.subject == "depth.max":
        return (
            f"{estimate} ({format_number(effect['baseline'])} \u2192 {format_number(effect['comparison'])})"
        )
    if not (math.isfinite(scaled.low) and math.isfinite(scaled.high)):
        return estimate
    return (
        f"{estimate} ({_format_signed_amount(condition, scaled.low)} to "
        f"{_format_signed_amount(condition, scaled.high)})"
    )


def _format_signed_amount(condition: Condition, value: float) -> str:
    return format_signed(format_amount(condition, value), value)


def _format_threshold(value: float) -> str:
    """Format a threshold with the fewest decimal digits and without an exponent."""
    text = f"{value:.15f}".rstrip("0").rstrip(".")
    return repr(value).removesuffix(".0") if "e" not in repr(value) else text


_MAX_AMOUNT: Final = 1e9
_UNIT_LABELS: Final = {"": " frames", "%": " %", "pp": " points", "ms": " ms", "s": " s"}


def _list_subjects() -> str:
    return ", ".join((*_PLAIN_SUBJECTS, *(f"{word}:PATTERN" for word in FUNCTION_SUBJECTS)))


def _skip_spaces(text: str, at: int) -> int:
    return at + len(text[at:]) - len(text[at:].lstrip())
