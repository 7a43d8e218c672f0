"""Query parameters, each read once; unknown ones are refused, because a typo must not change an answer."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from multidict import MultiMapping

from sidelight_collector.comparison.request import Wanted
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import pattern_check, read_selector
from sidelight_collector.query.stack_filter import Pick
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.counts import ProfileType
from sidelight_model.gates import Condition, parse
from sidelight_model.labels import LabelLimits
from sidelight_model.selectors import Selector

RANGE: Final = ("query", "from", "until")
"""Parameters of every question about windows."""
SIDES: Final = (
    *("baseline", "baseline_from", "baseline_until"),
    *("comparison", "comparison_from", "comparison_until"),
)
"""Parameters of a question with two sides."""

MANY: Final = ("conditions",)
"""Parameters that may be given more than once."""
REQUESTS: Final = ("baseline_requests", "comparison_requests")
LOADS: Final = ("unknown", "equal")
"""Whether the load of sides at different times is unknown or assumed to be equal."""

JUDGED: Final = ("min_effect", "analysis_index", "alpha", "min_coverage", "load", *REQUESTS, "limit", *MANY)
"""Parameters of a verdict."""

STACKS: Final = ("min_depth", "max_depth", "function", "focus")
"""Parameters of every question about stacks."""

_FOCUS: Final = re.compile(r"[0-9a-f]{16}\..+", re.DOTALL)
_DAY_SECONDS: Final = 86_400
_LENGTH: Final = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": _DAY_SECONDS}
MOST_REQUESTS: Final = 1e18
_NUMBER: Final = re.compile(r"\d{1,18}(\.\d{1,18})?|\.\d{1,18}", re.ASCII)
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_SWITCH: Final = {"0": False, "1": True}


def once(given: MultiMapping[str], known: Collection[str], many: Collection[str] = ()) -> Mapping[str, str]:
    """The parameters given, each known and but for those of `many` given once. Raises BadParameter."""
    for name in given:
        if name not in known:
            raise BadParameter.unknown(name, known)
        if len(given.getall(name)) > 1 and name not in many:
            raise BadParameter.twice(name)
    return dict(given)


def count(name: str, text: str, default: int, besides: str = "") -> int:
    """A whole number above 0, the default where nothing is given. Raises BadParameter."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise BadParameter.value(name, text, f"a whole number above 0{besides}")
    return int(text)


class Parameters:
    """The query parameters of one request, each read into what it means.

    Every reader raises BadParameter, BadTime or BadSelector, naming the parameter and saying what it takes.
    """

    def __init__(
        self,
        given: MultiMapping[str],
        known: Collection[str],
        limits: QueryLimits,
        now_ns: int,
        must: Selector | None = None,
    ) -> None:
        """`must` is ANDed to whatever is asked for."""
        self._given = once(given, known, MANY)
        self._many = {name: given.getall(name, []) for name in MANY}
        self._limits = limits
        self._now_ns = now_ns
        self._must = must or Selector()

    def question(self) -> Question:
        """The windows of `query`, `from` and `until`."""
        return self._question(self._base(), "")

    def sides(self) -> list[Question]:
        """Baseline and comparison, each ANDed with `query`; they begin and end as `from` and `until` say."""
        base = self._base()
        return [self._question(base & self._selector(side), side) for side in ("baseline", "comparison")]

    def one_or_two(self) -> list[Question]:
        """Both sides if one of them is named, else the one side of `query`."""
        return self.sides() if any(name in self._given for name in SIDES) else [self.question()]

    def wanted(self) -> Wanted:
        """What is wanted of a verdict."""
        limits, usual = self._limits, Wanted()
        return Wanted(
            detect=self._number("min_effect", usual.detect, most=10),
            look=count("analysis_index", self._given.get("analysis_index", ""), usual.look),
            alpha=self._number("alpha", usual.alpha, most=0.5),
            limit=self.limit(usual.limit),
            requests=self._requests(),
            trouble=self._trouble(),
            conditions=self._conditions(),
            least_coverage=self._number("min_coverage", usual.least_coverage, most=1),
            most_rows=limits.max_verdict_rows,
            most_tested=limits.max_verdict_tests,
            assume_equal_load=self.word("load", LOADS) == "equal",
        )

    def _conditions(self) -> tuple[Condition, ...]:
        check = pattern_check()
        return tuple(parse(text, check) for text in self._many["conditions"])

    def _trouble(self) -> str:
        """Why there are no rates per request although there are numbers."""
        given = [bool(self._given.get(name)) for name in REQUESTS]
        return f"{REQUESTS[given.index(False)]} is not given" if any(given) and not all(given) else ""

    def _requests(self) -> tuple[float, float] | None:
        if not all(self._given.get(name) for name in REQUESTS):
            return None
        a, b = (self._number(name, 0, most=MOST_REQUESTS) for name in REQUESTS)
        return a, b

    def _number(self, name: str, default: float, *, most: float) -> float:
        """A number above 0."""
        text = self._given.get(name, "")
        if not text:
            return default
        if not _NUMBER.fullmatch(text) or not 0 < float(text) <= most:
            raise BadParameter.value(name, text, f"a number above 0, at most {most:g}")
        return float(text)

    def has(self, name: str) -> bool:
        """Whether a parameter is given."""
        return name in self._given

    def kind(self) -> ProfileType:
        return ProfileType(self.word("type", [kind.value for kind in ProfileType]))

    def word(self, name: str, words: Collection[str]) -> str:
        """One of a few words; the first is the default."""
        word = self._given.get(name, next(iter(words)))
        if word not in words:
            raise BadParameter.value(name, word, f"one of {', '.join(words)}")
        return word

    def text(self, name: str, default: str = "") -> str:
        """Any text."""
        return self._given.get(name, default)

    def switch(self, name: str, *, default: bool) -> bool:
        text = self._given.get(name, "1" if default else "0")
        if text not in _SWITCH:
            raise BadParameter.value(name, text, "0 or 1")
        return _SWITCH[text]

    def nodes(self) -> int | None:
        """Most nodes to draw; None for all."""
        text = self._given.get("nodes", "")
        return None if text == "all" else count("nodes", text, self._limits.default_nodes, " or all")

    def pick(self) -> Pick:
        """Which stacks are looked at."""
        least, most = (self._depth(name) for name in ("min_depth", "max_depth"))
        if least and most and least > most:
            raise BadParameter(
                f"min_depth={least} is above max_depth={most}: no stack is that deep",
                hint="Both ends are included: min_depth <= depth <= max_depth.",
            )
        focus = self._given.get("focus", "")
        if focus and not _FOCUS.fullmatch(focus):
            raise BadParameter.value(
                "focus", focus, "16 hexadecimal digits, a dot and a name, as in the addresses of the pages"
            )
        return Pick(least, most, self._given.get("function", ""), focus)

    def _depth(self, name: str) -> int | None:
        text = self._given.get(name, "")
        return count(name, text, 0) if text else None

    def limit(self, default: int) -> int:
        """Most rows of a table."""
        return min(count("limit", self._given.get("limit", ""), default), self._limits.max_rows)

    def rows(self) -> str:
        """What rows of a heatmap are: a label, or hours of the day."""
        text = self._given.get("rows", "pod")
        if not _LABEL.fullmatch(text) or len(text) > LabelLimits().max_name_bytes:
            raise BadParameter.value("rows", text, "pod, hour, or the name of a label")
        return text

    def step_ns(self) -> int | None:
        """The length of a step; None when it is left to the collector."""
        text = self._given.get("step")
        if text is None:
            return None
        found = _LENGTH.fullmatch(text)
        seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0
        if not seconds:
            raise BadParameter.value(
                "step", text, "whole seconds above 0, or a length such as 30s, 5m, 1h or 1d"
            )
        return seconds * SECOND_NS

    def _base(self) -> Selector:
        return self._selector("query") & self._must

    def _selector(self, name: str) -> Selector:
        return read_selector(self._given.get(name, ""))

    def _question(self, selector: Selector, side: str) -> Question:
        start, start_ns = self._time(side, "from", "-1h")
        end, end_ns = self._time(side, "until", "now")
        if start_ns >= end_ns:
            raise BadParameter(
                f"{start} is not before {end}: the range is empty", hint="A range is from <= start < until."
            )
        days = (end_ns - start_ns) / SECOND_NS / _DAY_SECONDS
        if days > self._limits.max_range_days:
            raise BadParameter(
                f"a range of {days:.1f} days is longer than the {self._limits.max_range_days:g} days allowed",
                hint=f"Ask for less between {start} and {end}.",
            )
        return Question(selector, start_ns, end_ns)

    def _time(self, side: str, edge: str, default: str) -> tuple[str, int]:
        own = f"{side}_{edge}"
        name = own if own in self._given else edge
        return name, parse_time(self._given.get(name, default), parameter=name, now_ns=self._now_ns)
