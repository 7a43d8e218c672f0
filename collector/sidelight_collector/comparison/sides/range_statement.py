"""State in one sentence which times are compared and why, and name alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypedDict

from sidelight_collector.comparison.sides.range_choice import (
    MINUTE_NS,
    RangeOptions,
    RangePair,
    RangeReason,
    TimeSpan,
    limit_span,
)
from sidelight_collector.times import SECOND_NS, format_rfc3339

_DASH: Final = "\N{EN DASH}"


class RangeAlternative(TypedDict):
    """Other times to compare: query parameters, and their effect in a few words."""

    label: str
    parameters: dict[str, str]


class RangeStatement(TypedDict):
    """Why these times are compared, in one word and in one sentence, and alternatives."""

    reason: str
    text: str
    alternatives: list[RangeAlternative]


def state_chosen_ranges(options: RangeOptions, versions: str, selectors: Mapping[str, str]) -> RangeStatement:
    """State the times that the collector chose.

    `versions` is the start of the sentence if it chose versions too, and `selectors` their parameters.
    """
    reason, ranges = options.choose()
    if reason is RangeReason.OVERLAP:
        text = _describe_overlap(options.overlap or ranges.baseline)
    elif reason is RangeReason.ROLLOUT:
        text = _describe_rollout(ranges)
    else:
        ends = " and ".join(_format_minute(side.until_ns) for side in (ranges.baseline, ranges.comparison))
        text = (
            f"the sides did not run together, so the latest {_format_length(ranges.baseline.length_ns)} of "
        )
        text += f"each, until {ends} UTC, are compared"
    alternatives = [
        _build_alternative(label, other, selectors)
        for label, other in _list_other_ranges(options, reason)
        if other != ranges
    ]
    return _build_statement(reason, versions, text, alternatives)


def state_missing_side(selector: str, since_ns: int, ranges: TimeSpan, versions: str) -> RangeStatement:
    """State that the time up to now is compared because a side has no windows."""
    text = f"there are no windows of {selector} since {_format_minute(since_ns)} UTC, so both sides are the "
    text += f"last {_format_length(ranges.length_ns)}, {_format_span(ranges)} UTC"
    return _build_statement(RangeReason.LATEST, versions, text, [])


def state_given_ranges(
    ranges: RangePair, together: TimeSpan | None, versions: str, selectors: Mapping[str, str]
) -> RangeStatement:
    """State the times of a request.

    `together` is the time in which both ran, if it is an alternative.
    """
    a, b = ranges.baseline, ranges.comparison
    text = f"the request gives {_format_span(a)} UTC for "
    text += "both sides" if a == b else f"the baseline and {_format_span(b)} UTC for the comparison"
    alternatives = []
    if together:
        common = TimeSpan(
            max(together.from_ns, a.from_ns, b.from_ns), min(together.until_ns, a.until_ns, b.until_ns)
        )
        if any(side.length_ns - common.length_ns >= MINUTE_NS for side in (a, b)):
            alternatives.append(
                _build_alternative(_label_overlap(common), RangePair(common, common), selectors)
            )
    if a.length_ns != b.length_ns:
        span_ns = min(a.length_ns, b.length_ns)
        equal = RangePair(*(TimeSpan(side.until_ns - span_ns, side.until_ns) for side in (a, b)))
        alternatives.append(
            _build_alternative(f"Equal ranges: the last {_format_length(span_ns)} of each", equal, selectors)
        )
    return _build_statement(RangeReason.GIVEN, versions, text, alternatives)


def format_time_range(from_ns: int, until_ns: int) -> str:
    """Format a range in UTC, with both dates if they differ."""
    return f"{_format_span(TimeSpan(from_ns, until_ns))} UTC"


def _build_statement(
    reason: RangeReason, versions: str, text: str, alternatives: list[RangeAlternative]
) -> RangeStatement:
    sentence = f"{versions}: {text}." if versions else f"{text[:1].upper()}{text[1:]}."
    return {"reason": reason.value, "text": sentence, "alternatives": alternatives}


def _describe_overlap(whole: TimeSpan) -> str:
    compared = limit_span(whole)
    if compared == whole:
        return f"both sides ran {_format_span(whole)} UTC"
    length = _format_length(compared.length_ns)
    return f"both sides ran {_format_span(whole)} UTC, of which the last {length} are compared"


def _describe_rollout(ranges: RangePair) -> str:
    end_ns, start_ns = ranges.baseline.until_ns, ranges.comparison.from_ns
    length = _format_length(ranges.baseline.length_ns)
    if start_ns - end_ns <= MINUTE_NS:
        return (
            f"the comparison replaced the baseline at {_format_minute(start_ns)} UTC, and the {length} "
            "before and after are compared"
        )
    return (
        f"the {length} of the baseline until {_format_minute(end_ns)} UTC and of the comparison from "
        f"{_format_minute(start_ns)} UTC are compared"
    )


def _list_other_ranges(options: RangeOptions, reason: RangeReason) -> Iterator[tuple[str, RangePair]]:
    if reason is not RangeReason.ROLLOUT and options.rollout:
        length = _format_length(options.rollout.baseline.length_ns)
        yield f"{length} before and after the rollout", options.rollout
    if reason is RangeReason.ROLLOUT:
        yield f"Latest {_format_length(options.latest.baseline.length_ns)} of each side", options.latest
    yield "Whole time of each side", options.whole


def _build_alternative(label: str, ranges: RangePair, selectors: Mapping[str, str]) -> RangeAlternative:
    times = {
        f"{name}_{edge}": format_rfc3339(time_ns)
        for name, side in (("baseline", ranges.baseline), ("comparison", ranges.comparison))
        for edge, time_ns in (("from", side.from_ns), ("until", side.until_ns))
    }
    return {"label": label, "parameters": {**selectors, **times}}


def _label_overlap(span: TimeSpan) -> str:
    if _format_date(span.from_ns) == _format_date(span.until_ns):
        return f"{_format_clock(span.from_ns)}{_DASH}{_format_clock(span.until_ns)}, while both ran"
    return f"{_format_span(span)}, while both ran"


def _format_span(span: TimeSpan) -> str:
    if _format_date(span.from_ns) == _format_date(span.until_ns):
        return f"{_format_minute(span.from_ns)}{_DASH}{_format_clock(span.until_ns)}"
    return f"{_format_minute(span.from_ns)} {_DASH} {_format_minute(span.until_ns)}"


def _format_minute(time_ns: int) -> str:
    return f"{_format_date(time_ns)} {_format_clock(time_ns)}"


def _format_date(time_ns: int) -> str:
    return format_rfc3339(time_ns)[:10]


def _format_clock(time_ns: int) -> str:
    clock = format_rfc3339(time_ns)[11:19]
    return clock.removesuffix(":00")


def _format_length(length_ns: int) -> str:
    minutes, seconds = divmod(length_ns // SECOND_NS, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [
        f"{number} {unit}" for number, unit in ((hours, "h"), (minutes, "min"), (seconds, "s")) if number
    ]
    return " ".join(parts) or "0 s"
