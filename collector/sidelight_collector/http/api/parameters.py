"""Parsing of query parameters.

Unknown parameters are an error, because a typo must not change a result.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from multidict import MultiMapping

from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.comparison.sides.default_sides import SidesRequest, build_lookback
from sidelight_collector.comparison.sides.range_choice import RangePair, TimeSpan
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import make_pattern_check, parse_re2_selector
from sidelight_collector.query.stack_filter import StackFilter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.counts import ProfileType
from sidelight_model.gates import Condition, parse_condition
from sidelight_model.labels import LabelLimits
from sidelight_model.selectors import ENDPOINT_LABEL, Selector

RANGE_PARAMETERS: Final = ("query", "from", "until")
"""Parameters of every query for windows."""
SIDE_PARAMETERS: Final = (
    *("baseline", "baseline_from", "baseline_until"),
    *("comparison", "comparison_from", "comparison_until"),
)
"""Parameters of a query with two sides."""
_SIDE_TIME_PARAMETERS: Final = tuple(name for name in SIDE_PARAMETERS if name.endswith(("_from", "_until")))

REPEATABLE_PARAMETERS: Final = ("conditions",)
"""Parameters that may be given more than once."""
REQUEST_COUNT_PARAMETERS: Final = ("baseline_requests", "comparison_requests")
BASIS_VALUES: Final = ("auto", *(basis.value for basis in Basis))
"""What a comparison may test; `auto` chooses the best that is possible."""

COMPARISON_PARAMETERS: Final = (
    "basis",
    "min_effect",
    "min_relevant_share",
    "min_relevant_depth",
    "analysis_index",
    "alpha",
    "min_coverage",
    *REQUEST_COUNT_PARAMETERS,
    "limit",
    *REPEATABLE_PARAMETERS,
)
"""Parameters of a verdict."""

STACK_FILTER_PARAMETERS: Final = ("min_depth", "max_depth", "function", "focus")
"""Parameters of every query for stacks."""
CALL_PATH_PARAMETERS: Final = (*STACK_FILTER_PARAMETERS, "group_by")
"""Parameters of every query for call paths."""

PARAMETERS: Final[Mapping[str, Collection[str]]] = {
    "/services": RANGE_PARAMETERS,
    "/overview": (*RANGE_PARAMETERS, "type", "limit", "label"),
    "/endpoints": (*RANGE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "limit", "format"),
    "/labels": RANGE_PARAMETERS,
    "/labels/{name}/values": RANGE_PARAMETERS,
    "/timeline": (*RANGE_PARAMETERS, "type", "step"),
    "/flamegraph": (*RANGE_PARAMETERS, *CALL_PATH_PARAMETERS, "type", "nodes", "lines", "states"),
    "/compare": (
        *RANGE_PARAMETERS,
        *SIDE_PARAMETERS,
        *CALL_PATH_PARAMETERS,
        "type",
        "nodes",
        "lines",
        "states",
        "verdict",
        *COMPARISON_PARAMETERS,
    ),
    "/verdict": (
        *RANGE_PARAMETERS,
        *SIDE_PARAMETERS,
        *CALL_PATH_PARAMETERS,
        "type",
        "nodes",
        *COMPARISON_PARAMETERS,
    ),
    "/heatmap": (*RANGE_PARAMETERS, "type", "rows", "step", "zone", "limit"),
    "/depth": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type"),
    "/stack-composition": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "limit"),
    "/top": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "by", "limit"),
    "/sidecars": (*RANGE_PARAMETERS, "limit"),
    "/functions": (*RANGE_PARAMETERS, "search", "type", "by", "limit"),
    "/lines": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "file", "limit"),
    "/files/flamegraph": ("file_name", "type", "nodes", "lines"),
    "/files/compare": ("baseline_name", "comparison_name", "type", "nodes"),
    "/export": (
        *RANGE_PARAMETERS,
        *CALL_PATH_PARAMETERS,
        "type",
        "format",
        "lines",
        "states",
        "nodes",
        "about",
    ),
    "/export/compare": (
        *(
            *RANGE_PARAMETERS,
            *SIDE_PARAMETERS,
            *CALL_PATH_PARAMETERS,
            "type",
            "format",
            "lines",
            "states",
            "nodes",
            "about",
            "basis",
        ),
    ),
    "/export/{name}.speedscope.json": (*RANGE_PARAMETERS, *CALL_PATH_PARAMETERS, "type", "lines", "nodes"),
    "/status": (),
    "/openapi.json": (),
}
"""The query parameters of each path; any other is refused."""

_FOCUS: Final = re.compile(r"[0-9a-f]{16}\..+", re.DOTALL)
_DAY_SECONDS: Final = 86_400
_DURATION: Final = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": _DAY_SECONDS}
MAX_REQUEST_COUNT: Final = 1e18
_NUMBER: Final = re.compile(r"\d{1,18}(\.\d{1,18})?|\.\d{1,18}", re.ASCII)
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_SWITCH_VALUES: Final = {"0": False, "1": True}


@dataclass(frozen=True, slots=True)
class QueryScope:
    """What a request is limited to, and its time.

    `required` selects what its user may read.
    """

    required: Selector
    limits: QueryLimits
    now_ns: int


def read_single_values(
    parameters: MultiMapping[str], allowed: Collection[str], repeatable: Collection[str] = ()
) -> Mapping[str, str]:
    """Return the values of query parameters by name.

    Raises BadParameter for a name that is not in `allowed`, and for one that is given more than once and
    not in `repeatable`.
    """
    for name in parameters:
        if name not in allowed:
            raise BadParameter.unknown(name, allowed)
        if len(parameters.getall(name)) > 1 and name not in repeatable:
            raise BadParameter.duplicate(name)
    return dict(parameters)


def parse_count(name: str, text: str, default: int, alternatives: str = "") -> int:
    """Parse a whole number above 0; `default` if the text is empty.

    `alternatives` extends the error message. Raises BadParameter.
    """
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise BadParameter.invalid_value(name, text, f"a whole number above 0{alternatives}")
    return int(text)


def check_range(start_ns: int, end_ns: int, limits: QueryLimits, names: tuple[str, str]) -> None:
    """Raise BadParameter for an empty range, and one that is longer than allowed.

    `names` are those of the parameters for its start and end.
    """
    start, end = names
    if start_ns >= end_ns:
        raise BadParameter(
            f"{start} is not before {end}: the range is empty", hint="A range is from <= start < until."
        )
    days = (end_ns - start_ns) / SECOND_NS / _DAY_SECONDS
    if days > limits.max_range_days:
        raise BadParameter(
            f"a range of {days:.1f} days is longer than the {limits.max_range_days:g} days allowed",
            hint=f"Ask for less between {start} and {end}.",
        )


class QueryParameters:
    """The query parameters of one request.

    All parsing methods raise BadParameter, BadTime or BadSelector. The error names the parameter and its
    valid values.
    """

    def __init__(
        self,
        parameters: MultiMapping[str],
        allowed: Collection[str],
        limits: QueryLimits,
        now_ns: int,
        required: Selector | None = None,
    ) -> None:
        """Every selector of the request selects only within `required`.

        Raises BadParameter as `read_single_values` does.
        """
        self._values = read_single_values(parameters, allowed, REPEATABLE_PARAMETERS)
        self._repeated_values = {name: parameters.getall(name, []) for name in REPEATABLE_PARAMETERS}
        self._limits = limits
        self._now_ns = now_ns
        self._required = required or Selector()

    def parse_window_query(self) -> WindowQuery:
        """Parse the window query of `query`, `from` and `until`."""
        selector, span = self._parse_base_selector(), self._parse_range("")
        by_endpoint = self.parse_group_by_endpoint()
        return WindowQuery(selector, span.from_ns, span.until_ns, group_by_endpoint=by_endpoint)

    def parse_group_by_endpoint(self) -> bool:
        """Return whether stacks begin with a frame for their endpoint."""
        text = self._values.get("group_by", "")
        if text not in ("", ENDPOINT_LABEL):
            raise BadParameter.invalid_value("group_by", text, ENDPOINT_LABEL)
        return bool(text)

    def has_sides(self) -> bool:
        """Return whether any parameter of a side is given."""
        return any(name in self._values for name in SIDE_PARAMETERS)

    def parse_sides(self) -> SidesRequest:
        """Parse baseline and comparison.

        A side without a time range of its own has that of `from` and `until`.
        """
        baseline, comparison = (
            self._parse_selector(name) if self._values.get(name, "").strip() else None
            for name in ("baseline", "comparison")
        )
        has_own_times = any(name in self._values for name in _SIDE_TIME_PARAMETERS)
        ranges = None
        if has_own_times or "from" in self._values or "until" in self._values:
            ranges = RangePair(self._parse_range("baseline"), self._parse_range("comparison"))
        lookback_days = min(self._limits.comparison_lookback_days, self._limits.max_range_days)
        return SidesRequest(
            self._parse_base_selector(),
            baseline,
            comparison,
            ranges,
            has_own_times,
            build_lookback(self._now_ns, round(lookback_days * _DAY_SECONDS * SECOND_NS)),
        )

    def parse_comparison_options(self) -> ComparisonOptions:
        limits, defaults = self._limits, ComparisonOptions()
        return ComparisonOptions(
            min_effect=self._parse_number("min_effect", defaults.min_effect, maximum=10),
            analysis_index=parse_count(
                "analysis_index", self._values.get("analysis_index", ""), defaults.analysis_index
            ),
            alpha=self._parse_number("alpha", defaults.alpha, maximum=0.5),
            max_functions=self.parse_limit(defaults.max_functions),
            request_counts=self._parse_requests(),
            missing_requests_reason=self._describe_missing_requests(),
            conditions=self._parse_conditions(),
            min_coverage=self._parse_number("min_coverage", defaults.min_coverage, maximum=1),
            max_rows=limits.max_verdict_rows,
            max_tests=limits.max_verdict_tests,
            basis=self._parse_basis(),
            min_relevant_share=self._parse_number(
                "min_relevant_share", defaults.min_relevant_share, maximum=1
            ),
            min_relevant_depth=self._parse_number(
                "min_relevant_depth", defaults.min_relevant_depth, maximum=100
            ),
        )

    def _parse_basis(self) -> Basis | None:
        name = self.parse_choice("basis", BASIS_VALUES)
        return None if name == "auto" else Basis(name)

    def _parse_conditions(self) -> tuple[Condition, ...]:
        check = make_pattern_check()
        return tuple(parse_condition(text, check) for text in self._repeated_values["conditions"])

    def _describe_missing_requests(self) -> str:
        """Return why there are no rates per request although a request count is given."""
        is_given = [bool(self._values.get(name)) for name in REQUEST_COUNT_PARAMETERS]
        return (
            f"{REQUEST_COUNT_PARAMETERS[is_given.index(False)]} is not given"
            if any(is_given) and not all(is_given)
            else ""
        )

    def _parse_requests(self) -> tuple[float, float] | None:
        if not all(self._values.get(name) for name in REQUEST_COUNT_PARAMETERS):
            return None
        a, b = (self._parse_number(name, 0, maximum=MAX_REQUEST_COUNT) for name in REQUEST_COUNT_PARAMETERS)
        return a, b

    def _parse_number(self, name: str, default: float, *, maximum: float) -> float:
        """Parse a number above 0 and up to `maximum`."""
        text = self._values.get(name, "")
        if not text:
            return default
        if not _NUMBER.fullmatch(text) or not 0 < float(text) <= maximum:
            raise BadParameter.invalid_value(name, text, f"a number above 0, at most {maximum:g}")
        return float(text)

    def has(self, name: str) -> bool:
        """Return whether a parameter is given."""
        return name in self._values

    def parse_profile_type(self, default: ProfileType = ProfileType.WALL) -> ProfileType:
        others = (kind for kind in ProfileType if kind is not default)
        return ProfileType(self.parse_choice("type", [default.value, *others]))

    def parse_choice(self, name: str, choices: Collection[str]) -> str:
        """Parse one of `choices`; the first is the default."""
        word = self._values.get(name, next(iter(choices)))
        if word not in choices:
            raise BadParameter.invalid_value(name, word, f"one of {', '.join(choices)}")
        return word

    def get_text(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def parse_switch(self, name: str, *, default: bool) -> bool:
        text = self._values.get(name, "1" if default else "0")
        if text not in _SWITCH_VALUES:
            raise BadParameter.invalid_value(name, text, "0 or 1")
        return _SWITCH_VALUES[text]

    def parse_max_nodes(self) -> int | None:
        """Parse the maximum number of nodes to draw; None for all."""
        text = self._values.get("nodes", "")
        return None if text == "all" else parse_count("nodes", text, self._limits.default_nodes, " or all")

    def parse_stack_filter(self) -> StackFilter:
        """Parse the filter of stacks: depths, function and focus."""
        min_depth, max_depth = (self._parse_depth(name) for name in ("min_depth", "max_depth"))
        if min_depth and max_depth and min_depth > max_depth:
            raise BadParameter(
                f"min_depth={min_depth} is above max_depth={max_depth}: no stack is that deep",
                hint="Both ends are included: min_depth <= depth <= max_depth.",
            )
        focus = self._values.get("focus", "")
        if focus and not _FOCUS.fullmatch(focus):
            raise BadParameter.invalid_value(
                "focus", focus, "16 hexadecimal digits, a dot and a name, as in the addresses of the pages"
            )
        return StackFilter(min_depth, max_depth, self._values.get("function", ""), focus)

    def _parse_depth(self, name: str) -> int | None:
        text = self._values.get(name, "")
        return parse_count(name, text, 0) if text else None

    def parse_limit(self, default: int) -> int:
        """Parse the maximum number of rows of a table."""
        return min(parse_count("limit", self._values.get("limit", ""), default), self._limits.max_rows)

    def parse_heatmap_rows(self) -> str:
        """Parse what rows are: values of a label, endpoints, packages, or hours."""
        text = self._values.get("rows", "pod")
        if not _LABEL.fullmatch(text) or len(text) > LabelLimits().max_name_bytes:
            raise BadParameter.invalid_value(
                "rows", text, "pod, hour, endpoint, package, or the name of a label"
            )
        return text

    def parse_step_ns(self) -> int | None:
        """Parse the length of a step in nanoseconds; None if the collector chooses it."""
        text = self._values.get("step")
        if text is None:
            return None
        match = _DURATION.fullmatch(text)
        seconds = int(match[1]) * _UNIT_SECONDS[match[2]] if match else 0
        if not seconds:
            raise BadParameter.invalid_value(
                "step", text, "whole seconds above 0, or a length such as 30s, 5m, 1h or 1d"
            )
        return seconds * SECOND_NS

    def _parse_base_selector(self) -> Selector:
        return self._parse_selector("query") & self._required

    def _parse_selector(self, name: str) -> Selector:
        return parse_re2_selector(self._values.get(name, ""))

    def _parse_range(self, side: str) -> TimeSpan:
        start, start_ns = self._parse_time(side, "from", "-1h")
        end, end_ns = self._parse_time(side, "until", "now")
        check_range(start_ns, end_ns, self._limits, (start, end))
        return TimeSpan(start_ns, end_ns)

    def _parse_time(self, side: str, edge: str, default: str) -> tuple[str, int]:
        side_name = f"{side}_{edge}"
        name = side_name if side_name in self._values else edge
        return name, parse_time(self._values.get(name, default), parameter=name, now_ns=self._now_ns)
