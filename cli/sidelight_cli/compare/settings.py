"""Settings of `sidelight compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import (
    BadSetting,
    join_negative_times,
    make_choice_parser,
    parse_nonnegative_float,
    parse_nonnegative_int,
    parse_positive_float,
    parse_settings,
    setting,
)
from sidelight_cli.collector_api import CA_FILE_HELP
from sidelight_model.change import DEFAULT_SIZES
from sidelight_model.gates import ABSOLUTE_UNITS, TIME_SUBJECTS, Condition, parse_condition

DESCRIPTION: Final = (
    "Compare two sides of a service: the difference in one sentence, what it stands on, and the functions"
    " whose time differs most, with intervals. A side is version:VERSION, or matchers such as "
    "'node=\"n3\"', over its own range if wanted; or give two files (folded text, speedscope's JSON, pprof,"
    " Austin). Sides that ran at different times are compared by shares of their profile. --fail-on says "
    "what must not be: cpu>+3% (or wall, gil, gil_wait, off_cpu, tasks), idle<-5pp, depth.p95>+5 (or mean, "
    "p50, p99, max), function:PATTERN>+20%, share:PATTERN>+1pp, self:PATTERN>+2ms. Exits with 0 when nothing "
    "of that is so, 1 when something is, 2 when there is not enough data to tell (--wait SECONDS asks "
    "again), 3 when the sides cannot be compared; without --fail-on with 0 whatever the difference. "
    "Errors are 64 and above: 64 a wrong option or question, 65 a file that holds no samples, 66 a file "
    "or side that is not there, 69 no answer, 73 a result that cannot be written, 77 not allowed."
)
SORT_ORDERS: Final = ("self", "total")
BASES: Final = ("auto", "concurrent", "per_request", "composition", "equal_load")
STDOUT: Final = "-"


def _accept_any_pattern(_: str) -> None:
    """Accept any text: the collector, or the file comparison, checks patterns."""


def parse_condition_option(text: str) -> Condition:
    """Parse a condition without checking its regular expression."""
    return parse_condition(text, _accept_any_pattern)


def parse_probability(text: str) -> float:
    """Parse an error probability above 0 and below 0.5."""
    value = parse_positive_float(text)
    if value >= 0.5:
        raise ValueError(f"{text!r} is not below 0.5")
    return value


def parse_share(text: str) -> float:
    """Parse a share from 0 to 1."""
    value = parse_nonnegative_float(text)
    if value > 1:
        raise ValueError(f"{text!r} is above 1")
    return value


def parse_positive_int(text: str) -> int:
    """Parse an integer of at least 1."""
    value = parse_nonnegative_int(text)
    if value < 1:
        raise ValueError(f"{text!r} is not 1 or more")
    return value


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """Settings of `sidelight compare`."""

    selector: str = setting(
        "",
        "windows of both sides, as Prometheus matchers: '{service=\"shop\"}'; or a file with the "
        "baseline (folded stacks, speedscope JSON, pprof or Austin, also gzip), followed by a file with "
        "the comparison",
        positional=True,
    )
    file: str = setting("", "file with the comparison, if the first argument is a file", positional=True)
    collector: str = setting("", "URL of the collector; not required for files", metavar="URL")
    baseline: str | None = setting(
        None, "side A: version:VERSION, or matchers; otherwise the version before B's", metavar="SIDE"
    )
    comparison: str | None = setting(
        None, "side B, in the same format as --baseline; otherwise the newest version", metavar="SIDE"
    )
    fail_on: tuple[Condition, ...] = setting(
        (),
        "condition that fails the comparison, such as cpu>+3%; may be repeated",
        parse=parse_condition_option,
        metavar="CONDITION",
    )
    wait: float = setting(
        0.0,
        "longest time to wait for enough data for every condition",
        parse=parse_nonnegative_float,
        metavar="SECONDS",
    )
    wait_every: float = setting(
        15.0, "time between two analyses while waiting", parse=parse_positive_float, metavar="SECONDS"
    )
    type: str = setting(
        "cpu",
        "profile type: cpu, wall, gil, gil_wait, off_cpu or tasks",
        parse=make_choice_parser("cpu", "wall", "gil", "gil_wait", "off_cpu", "tasks"),
    )
    from_: str = setting(
        "",
        "start of the range: RFC 3339, Unix seconds, now, or -15m; without any time the collector chooses, "
        "otherwise -1h",
        metavar="TIME",
    )
    until: str = setting(
        "", "end of the range, exclusive; same format as --from; otherwise now", metavar="TIME"
    )
    baseline_from: str = setting("", "start of A, if it differs from --from", metavar="TIME")
    baseline_until: str = setting("", "end of A, if it differs from --until", metavar="TIME")
    comparison_from: str = setting("", "start of B, if it differs from --from", metavar="TIME")
    comparison_until: str = setting("", "end of B, if it differs from --until", metavar="TIME")
    basis: str = setting(
        "auto",
        "what is compared: auto, concurrent (CPU per pod while both ran), per_request, composition (shares "
        "of the profile), or equal_load (CPU per pod at different times, in a load test)",
        parse=make_choice_parser(*BASES),
    )
    baseline_requests: float | None = setting(
        None,
        "requests that A served in its range; rates are then per request",
        parse=parse_positive_float,
        metavar="COUNT",
    )
    comparison_requests: float | None = setting(
        None, "requests that B served in its range", parse=parse_positive_float, metavar="COUNT"
    )
    baseline_seconds: float | None = setting(
        None,
        "files: recording time of A; without it, shares of samples are compared",
        parse=parse_positive_float,
        metavar="SECONDS",
    )
    comparison_seconds: float | None = setting(
        None, "files: recording time of B", parse=parse_positive_float, metavar="SECONDS"
    )
    sample_weight: float | None = setting(
        None,
        "files: weight of one sample where a file does not state it, such as 10000 for microseconds at "
        "100 Hz, or 1 for numbers of samples",
        parse=parse_positive_float,
        metavar="NUMBER",
    )
    min_depth: int | None = setting(
        None, "only stacks with at least this many frames", parse=parse_nonnegative_int
    )
    max_depth: int | None = setting(
        None, "only stacks with at most this many frames", parse=parse_nonnegative_int
    )
    function: str = setting("", "only stacks that contain this function: 'name (file)', or a name")
    focus: str = setting("", "only stacks below this call path, in the format of page addresses")
    endpoint: str = setting(
        "", "only stacks of this endpoint: 'function (file)', as the collector lists them", metavar="NAME"
    )
    group_by: str = setting(
        "",
        "endpoint: put a frame for its endpoint above each stack",
        parse=make_choice_parser("", "endpoint"),
    )
    min_effect: float = setting(
        0.05,
        "minimum effect to detect, as a relative change: 0.05 is 5 %",
        parse=parse_positive_float,
        metavar="SHARE",
    )
    min_relevant_share: float = setting(
        DEFAULT_SIZES.share,
        "smallest relevant change, as a share of the profile: smaller ones are minor",
        parse=parse_share,
        metavar="SHARE",
    )
    min_relevant_depth: float = setting(
        DEFAULT_SIZES.depth,
        "smallest relevant change of stack depth: smaller ones are minor",
        parse=parse_nonnegative_float,
        metavar="FRAMES",
    )
    alpha: float = setting(0.05, "probability of a false alarm over all analyses", parse=parse_probability)
    analysis_index: int | None = setting(
        None,
        "number of this interim analysis, from 1, if you compare repeatedly and act on each result",
        parse=parse_positive_int,
        metavar="COUNT",
    )
    min_coverage: float | None = setting(
        None,
        "warn if a side's sampling coverage is below this share",
        parse=parse_positive_float,
        metavar="SHARE",
    )
    by: str = setting(
        "self",
        "sort the listed functions by the difference of self or total time",
        parse=make_choice_parser(*SORT_ORDERS),
    )
    limit: int = setting(20, "number of functions to list", parse=parse_nonnegative_int, metavar="COUNT")
    significant: bool = setting(default=False, help="list only functions that differ beyond noise")
    json: str = setting(
        "", "write the full result as JSON; - is standard output, instead of the text", metavar="FILE"
    )
    junit: str = setting("", "write the conditions as a JUnit report; - as in --json", metavar="FILE")
    markdown: str = setting("", "write a summary in Markdown; - as in --json", metavar="FILE")
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "timeout of one request", parse=parse_positive_float)

    @property
    def is_file_comparison(self) -> bool:
        """Whether two files are compared."""
        return bool(self.file)

    @property
    def is_open_ended(self) -> bool:
        """Whether a side's range moves with the present, so that more data may arrive."""
        ends = (self.baseline_until or self.until, self.comparison_until or self.until)
        return any(end in ("", "now") for end in ends)

    def __post_init__(self) -> None:
        if [self.json, self.junit, self.markdown].count(STDOUT) > 1:
            raise BadSetting("only one of --json, --junit and --markdown can be -", hint="Name files.")
        if self.is_file_comparison:
            self._check_files()
        else:
            self._check_sides()

    def _check_sides(self) -> None:
        if not self.collector:
            raise BadSetting(
                "--collector is required",
                hint="Give --collector or set SIDELIGHT_COLLECTOR; or give two files.",
            )
        for name in ("baseline", "comparison"):
            # An empty side is usually an unset shell variable.
            if getattr(self, name) == "":
                raise BadSetting(
                    f"--{name} is empty",
                    hint=f"Give --{name} version:VERSION, or omit it to let the collector choose.",
                )
        if self.baseline_seconds or self.comparison_seconds:
            raise BadSetting(
                "--baseline-seconds and --comparison-seconds are for files",
                hint="A range is --from and --until.",
            )
        if self.sample_weight:
            raise BadSetting("--sample-weight is for files", hint="A collector has numbers of samples.")
        if bool(self.baseline_requests) != bool(self.comparison_requests):
            raise BadSetting(
                "--baseline-requests and --comparison-requests belong together",
                hint="Rates are per request only where both sides' requests are known.",
            )

    def _check_files(self) -> None:
        for name in (
            "baseline",
            "comparison",
            "function",
            "focus",
            "endpoint",
            "group_by",
            "min_depth",
            "max_depth",
            "wait",
        ):
            if getattr(self, name):
                flag = name.replace("_", "-")
                raise BadSetting(
                    f"--{flag} is for a collector's windows, not for two files",
                    hint="Give one selector, or no --" + flag,
                )
        if self.basis != "auto":
            raise BadSetting(
                "--basis is for a collector's windows, not for two files",
                hint="Files are compared by composition; with --baseline-seconds and --comparison-seconds, "
                "by samples per second.",
            )
        if bool(self.baseline_seconds) != bool(self.comparison_seconds):
            raise BadSetting(
                "--baseline-seconds and --comparison-seconds belong together",
                hint="Without them shares of samples are compared.",
            )
        for condition in self.fail_on:
            if condition.unit in ABSOLUTE_UNITS:
                raise BadSetting(
                    f"--fail-on {condition.text}: files hold samples, not time",
                    hint="Use % or pp in place of ms and s.",
                )
            if condition.subject in TIME_SUBJECTS and not self.baseline_seconds:
                raise BadSetting(
                    f"--fail-on {condition.text}: files do not say how long they were recorded",
                    hint="Give --baseline-seconds and --comparison-seconds, or use share:PATTERN.",
                )


def parse_compare_settings(argv: Sequence[str], environ: Mapping[str, str]) -> CompareSettings:
    """Parse the settings from a command line and the environment.

    Raises BadSetting or BadCondition.
    """
    return parse_settings(
        CompareSettings, "compare", DESCRIPTION, _expand_bare_json_option(join_negative_times(argv)), environ
    )


def _expand_bare_json_option(argv: Sequence[str]) -> list[str]:
    """Replace `--json` without a file by `--json=-`, even if a selector follows."""
    words: list[str] = []
    for at, word in enumerate(argv):
        following = argv[at + 1] if at + 1 < len(argv) else "--"
        selects = following.startswith("{") or '="' in following or "='" in following or "=~" in following
        bare = word == "--json" and (
            (following.startswith("-") and following != STDOUT) or selects or not following
        )
        words.append(f"--json={STDOUT}" if bare else word)
    return words
