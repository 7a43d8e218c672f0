"""Words and numbers of a verdict that text and Markdown share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_cli.compare.comparison_model import CHANGED, Check, Effect, Row, Side, Tested, Verdict
from sidelight_model.change import percent, short, signed
from sidelight_model.export_formats.provenance import moment, plural
from sidelight_model.frames import Frame
from sidelight_model.gates import State

MOST_PARTS: Final = 5
LAST_FRAMES: Final = 3
OUTCOMES: Final = {
    State.FINE: "pass",
    State.REGRESSED: "regressed",
    State.UNCLEAR: "inconclusive",
    State.INCOMPARABLE: "not comparable",
}
_DIRECTIONS: Final = {
    "unchanged": "unchanged",
    "inconclusive": "inconclusive",
    "no_data": "no data on one side",
    "not_comparable": "not comparable",
    "new": "new in B",
    "removed": "removed in B",
}
_BY_SAMPLES: Final = "by samples"
_LOADS: Final = {"assumed_equal": "equal load assumed", "unknown": "unknown load"}
_MEASURED: Final = {"clock": "the whole by the kernel's clock"}
_SEVERITIES: Final = {"warn": "warning", "blocking": "not comparable"}


def direction(effect: Effect, per: str) -> str:
    """A change in words; a profile cannot tell slower from called more often."""
    if effect.direction in _DIRECTIONS:
        return _DIRECTIONS[effect.direction]
    more = effect.direction == "increased"
    by = f" ({signed(percent(effect.relative), effect.relative)})" if effect.relative is not None else ""
    if per == "sample":
        return f"{'▲ larger' if more else '▼ smaller'} share in B{by}"
    return f"{'▲ takes more' if more else '▼ takes less'} time in B{by}"


def name(row: Row) -> str:
    """A function as a person names it, and what it was before."""
    now = Frame(row.function, row.file).text
    return f"{now}, was {row.renamed_from}" if row.renamed_from else now


def unit(verdict: Verdict) -> str:
    """What the numbers of functions are."""
    if verdict.per == "sample":
        return "percent of samples"
    if verdict.per == "second":
        return "samples per second"
    return f"milliseconds per {verdict.per}"


def factor(verdict: Verdict) -> float:
    """What turns a rate into the unit of the table."""
    return {"sample": 100.0, "second": 1.0}.get(verdict.per, 1000.0)


def amount(value: float | None, times: float) -> str:
    """A rate in the unit of the table."""
    return "-" if value is None or not math.isfinite(value) else short(value * times)


def change(value: float | None, times: float) -> str:
    """A difference with its sign."""
    return "-" if value is None or not math.isfinite(value) else signed(short(value * times), value)


def interval(effect: Effect, times: float) -> str:
    """From where to where a difference may lie."""
    if effect.low is None or effect.high is None or not (effect.baseline or effect.comparison):
        return "-"
    return f"{change(effect.low, times)} to {change(effect.high, times)}"


def agreement(tested: Tested) -> str:
    """How many pods of B are on the side of the change."""
    nothing = not (tested.effect.baseline or tested.effect.comparison)
    return "-" if tested.agree is None or not tested.of or nothing else f"{tested.agree} of {tested.of}"


def explanation(verdict: Verdict) -> str:
    """How much of the change the call paths below account for."""
    if verdict.explained is None or not verdict.explanation:
        return ""
    paths = plural(len(verdict.explanation), "call path")
    verb = "accounts" if len(verdict.explanation) == 1 else "account"
    return f"{paths} {verb} for {percent(verdict.explained, 0)} of the change"


def parts(verdict: Verdict) -> list[tuple[str, str, str]]:
    """The first call paths that explain the change: by how much, how much of it, and their last frames."""
    return [
        (
            change(part.delta, factor(verdict)),
            percent(part.share, 0).replace("-", "\u2212"),
            _path(part.frames),
        )
        for part in verdict.explanation[:MOST_PARTS]
    ]


def _path(frames: Sequence[str]) -> str:
    last = " → ".join(frames[-LAST_FRAMES:])
    return last if len(frames) <= LAST_FRAMES else f"… → {last}"


def chance(tested: Tested) -> str:
    """The q of a function; what is on neither side has none."""
    if tested.q is None or not (tested.effect.baseline or tested.effect.comparison):
        return "-"
    return "<0.001" if tested.q < 0.001 else f"{tested.q:.3f}"


def span(side: Side) -> str:
    """A side's range; files have none."""
    if side.from_ is None or side.until is None:
        return ""
    return " until ".join(moment(round(edge * 1e9)) for edge in (side.from_, side.until))


def counted(side: Side) -> str:
    """What was counted on a side."""
    parts = [plural(side.samples, "sample")]
    if side.from_ is not None:
        parts += [plural(side.pods, "pod"), plural(side.windows, "window")]
    if side.pod_seconds:
        parts.append(f"{length(side.pod_seconds)} watched")
    return " · ".join(parts)


def length(seconds: float) -> str:
    """A length of time to two units, of all pods together."""
    whole = round(seconds)
    if whole < 60:
        return f"{short(seconds)} s"
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, letter in units:
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {letter}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def method(verdict: Verdict) -> str:
    """How the intervals came about, in one line."""
    told = verdict.method
    if not told:
        return ""
    parts = [f"per {verdict.per}"]
    if told.get("noise") != "counting":
        parts.append(_MEASURED.get(str(told.get("rate_source")), _BY_SAMPLES))
    if (sure := told.get("alpha_spent")) is not None:
        look = told.get("analysis_index") or 1
        parts.append(f"{_percent(1 - sure)} intervals" + (f" (analysis {look})" if look > 1 else ""))
    if told.get("pods"):
        pods = " and ".join(f"{number:,}" for number in told["pods"])
        blocks = " and ".join(f"{number:,}" for number in dict.fromkeys(told.get("time_blocks") or ()))
        parts.append(f"{pods} pods" + (f" in {blocks} blocks of time" if blocks else ""))
    paired = {"time": "the same time on both sides", "hours": "the same hours of other days"}
    if told.get("paired") in paired:
        parts.append(paired[told["paired"]])
    if told.get("same_pods"):
        parts.append("the same pods on both sides")
    if told.get("load") in _LOADS:
        parts.append(_LOADS[told["load"]])
    if told.get("bootstrap") and told.get("bootstrap_rounds"):
        parts.append(f"{told['bootstrap_rounds']:,} bootstrap rounds over {told['bootstrap']}")
    if scatter := [value for value in told.get("over_dispersion") or () if value is not None]:
        times = " and ".join(short(value) for value in scatter)
        parts.append(f"samples scatter {times} times as much as counting alone would")
    if told.get("noise") == "counting":
        parts.append("counting noise alone")
    return ", ".join(parts)


def _percent(part: float) -> str:
    return f"{part * 100:.4g} %"


def more(verdict: Verdict) -> str:
    """What it would take to see a change as large as wanted, where a condition lacks data.

    Where the whole lacks data the sentence says it already.
    """
    lacking = any(one.state is State.UNCLEAR for one in verdict.conditions)
    if verdict.more is None or not lacking or verdict.direction == "inconclusive":
        return ""
    detect = verdict.method.get("min_effect")
    seen = f"To see a change of {_percent(detect)}" if detect else "To see more"
    if verdict.more.minutes is not None:
        pods = verdict.more.pods
        other = "" if pods is None else f", or {plural(pods, 'pod')} of each side"
        return f"{seen}: about {minutes(verdict.more.minutes)} more{other}."
    if verdict.more.pods is not None:
        return f"{seen}: about {plural(verdict.more.pods, 'pod')} of each side; time alone does not do."
    return ""


def minutes(value: float) -> str:
    """A number of minutes as a person says it."""
    if value < 1:
        return "a minute"
    if value < 120:
        return plural(math.ceil(value), "minute")
    return plural(math.ceil(value / 60), "hour") if value < 2880 else plural(math.ceil(value / 1440), "day")


def severity(check: Check) -> str:
    """What a check means for the comparison; empty where there is nothing to say."""
    return _SEVERITIES.get(check.severity, "")


def advised(check: Check) -> str:
    """What a check says, and what to do about it."""
    return " ".join(f"{part.rstrip('.')}." for part in (check.text, check.hint) if part)


def said(checks: Iterable[Check]) -> list[Check]:
    """The checks that a person should know of, what refuses first."""
    return sorted((check for check in checks if severity(check)), key=lambda one: one.severity != "blocking")


def listed(verdict: Verdict, by: str, limit: int, *, significant: bool) -> Sequence[Row]:
    """The rows to show: the largest differences first."""
    kept = [row for row in verdict.rows if not significant or row.by(by).effect.direction in CHANGED]
    kept.sort(key=lambda row: (-abs(row.by(by).effect.delta), row.function, row.file))
    return kept[:limit]


def notes(verdict: Verdict) -> list[str]:
    """What a person should know besides, of what the answer stands on."""
    basis, found = verdict.told.get("basis") or {}, []
    if unreadable := basis.get("unreadable_segments"):
        found.append(f"{unreadable} stored segments could not be read; their windows are missing")
    if unresolved := basis.get("unresolved_windows"):
        found.append(f"{unresolved} windows are left out: their stacks are kept only with others")
    return found
