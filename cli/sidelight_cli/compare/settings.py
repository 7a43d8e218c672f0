"""What `sidelight compare` is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting, joined, one_of, parse, positive, seconds, setting, whole
from sidelight_model.gates import TIMES, Condition
from sidelight_model.gates import parse as parse_condition

DESCRIPTION: Final = (
    "Compare two sides of a service: the difference in one sentence, what it stands on, and the functions "
    "whose time differs most, with intervals. A side is version:VERSION, or matchers such as 'node=\"n3\"', "
    "over its own range if wanted; or give two files of folded text or speedscope's JSON. --fail-on says "
    "what must not be: cpu>+3% (or wall, gil), idle<-5pp, depth.p95>+5 (or mean, p50, p99, max), "
    "function:PATTERN>+1%, self:PATTERN>+2ms. Exits with 0 when nothing of that is so, 1 when something is,"
    " 2 when there is not enough data to tell (--wait SECONDS asks again), 3 when the sides cannot be "
    "compared; without --fail-on with 0 whatever the difference. Errors are 64 and above: 64 a wrong option"
    " or question, 65 a file that holds no samples, 66 a file or side that is not there, 69 no answer, 73 a"
    " result that cannot be written, 77 not allowed."
)
ORDERS: Final = ("self", "total")
STDOUT: Final = "-"


def _any_pattern(_: str) -> None:
    """The collector says which patterns it takes."""


def condition(text: str) -> Condition:
    """A condition; its pattern is checked by whoever matches."""
    return parse_condition(text, _any_pattern)


def level(text: str) -> float:
    """A probability of being wrong."""
    value = positive(text)
    if value >= 0.5:
        raise ValueError(f"{text!r} is not below 0.5")
    return value


def count(text: str) -> int:
    """A whole number from 1."""
    value = whole(text)
    if value < 1:
        raise ValueError(f"{text!r} is not 1 or more")
    return value


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """What `sidelight compare` is told."""

    selector: str = setting(
        "",
        "which windows both sides are of, as Prometheus matchers: '{service=\"shop\"}'; or the file of the "
        "baseline, folded text or speedscope's JSON (also gzip), with that of the comparison behind it",
        positional=True,
    )
    file: str = setting("", "the comparison's file, where the first is the baseline's", positional=True)
    collector: str = setting("", "the collector's address; not needed for files", metavar="URL")
    baseline: str = setting("", "side A: version:VERSION, or matchers", metavar="SIDE")
    comparison: str = setting("", "side B, written like --baseline", metavar="SIDE")
    fail_on: tuple[Condition, ...] = setting(
        (),
        "what must not be, such as cpu>+3%; may be repeated",
        read=condition,
        metavar="CONDITION",
    )
    wait: float = setting(
        0.0,
        "ask again for at most so long until there is enough data for every condition",
        read=seconds,
        metavar="SECONDS",
    )
    wait_every: float = setting(15.0, "how often to ask while waiting", read=positive, metavar="SECONDS")
    type: str = setting("cpu", "cpu, wall or gil", read=one_of("cpu", "wall", "gil"))
    from_: str = setting("-1h", "first moment: RFC 3339, Unix seconds, now, or -15m", metavar="TIME")
    until: str = setting("now", "end, itself excluded; written like --from", metavar="TIME")
    baseline_from: str = setting("", "first moment of A alone", metavar="TIME")
    baseline_until: str = setting("", "end of A alone", metavar="TIME")
    comparison_from: str = setting("", "first moment of B alone", metavar="TIME")
    comparison_until: str = setting("", "end of B alone", metavar="TIME")
    assume_equal_load: bool = setting(
        default=False,
        help="compare sides at different times as if they had the same load, as in a load test",
    )
    baseline_requests: float | None = setting(
        None,
        "requests that A answered in its range: then rates are per request",
        read=positive,
        metavar="COUNT",
    )
    comparison_requests: float | None = setting(
        None, "requests that B answered in its range", read=positive, metavar="COUNT"
    )
    baseline_seconds: float | None = setting(
        None,
        "files: how long A was recorded; else shares of samples are compared",
        read=positive,
        metavar="SECONDS",
    )
    comparison_seconds: float | None = setting(
        None, "files: how long B was recorded", read=positive, metavar="SECONDS"
    )
    min_depth: int | None = setting(None, "only stacks at least so many frames deep", read=whole)
    max_depth: int | None = setting(None, "only stacks at most so many frames deep", read=whole)
    function: str = setting("", "only stacks with this function: 'name (file)', or a name")
    focus: str = setting("", "only stacks below this call path, as addresses of the pages write it")
    min_effect: float = setting(
        0.05, "minimum effect to detect, as a relative change: 0.05 is 5 %", read=positive, metavar="SHARE"
    )
    alpha: float = setting(0.05, "the chance of a false alarm over all analyses", read=level)
    analysis_index: int | None = setting(
        None,
        "number of this interim analysis, from 1, where you compare repeatedly and act on each result",
        read=count,
        metavar="COUNT",
    )
    min_coverage: float | None = setting(
        None,
        "warn where ticks gave stacks in less than this share of the time",
        read=positive,
        metavar="SHARE",
    )
    by: str = setting(
        "self", "self or total: whose differences are listed, largest first", read=one_of(*ORDERS)
    )
    limit: int = setting(20, "functions to list", read=whole, metavar="COUNT")
    significant: bool = setting(default=False, help="list only functions that differ beyond noise")
    json: str = setting(
        "", "write everything as JSON; - is standard output, in place of the text", metavar="FILE"
    )
    junit: str = setting("", "write the conditions as a JUnit report; - as in --json", metavar="FILE")
    markdown: str = setting("", "write a summary in Markdown; - as in --json", metavar="FILE")
    token_file: Path | None = setting(None, "a file with a bearer token", read=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "after which an answer is given up", read=positive)

    @property
    def of_files(self) -> bool:
        """Whether two files are compared."""
        return bool(self.file)

    def __post_init__(self) -> None:
        if [self.json, self.junit, self.markdown].count(STDOUT) > 1:
            raise BadSetting("only one of --json, --junit and --markdown can be -", hint="Name files.")
        if self.of_files:
            self._check_files()
        else:
            self._check_sides()

    def _check_sides(self) -> None:
        for name in ("collector", "baseline", "comparison"):
            if not getattr(self, name):
                raise BadSetting(
                    f"--{name} is required",
                    hint=f"Give --{name} or set SIDELIGHT_{name.upper()}; or give two files.",
                )
        if self.baseline_seconds or self.comparison_seconds:
            raise BadSetting(
                "--baseline-seconds and --comparison-seconds are for files",
                hint="A range is --from and --until.",
            )
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
            "min_depth",
            "max_depth",
            "wait",
            "assume_equal_load",
        ):
            if getattr(self, name):
                flag = name.replace("_", "-")
                raise BadSetting(
                    f"--{flag} is for a collector's windows, not for two files",
                    hint="Give one selector, or no --" + flag,
                )
        if bool(self.baseline_seconds) != bool(self.comparison_seconds):
            raise BadSetting(
                "--baseline-seconds and --comparison-seconds belong together",
                hint="Without them shares of samples are compared.",
            )
        for one in self.fail_on:
            if one.unit in ("ms", "s"):
                raise BadSetting(
                    f"--fail-on {one.text}: files hold samples, not time",
                    hint="Use % or pp in place of ms and s.",
                )
            if one.subject in TIMES and not self.baseline_seconds:
                raise BadSetting(
                    f"--fail-on {one.text}: files do not say how long they were recorded",
                    hint="Give --baseline-seconds and --comparison-seconds.",
                )


def read(argv: Sequence[str], environ: Mapping[str, str]) -> CompareSettings:
    """The settings of a command line. Raises BadSetting or BadCondition."""
    return parse(CompareSettings, "compare", DESCRIPTION, _with_files(joined(argv)), environ)


def _with_files(argv: Sequence[str]) -> list[str]:
    """`--json` without a file means standard output, also where the selector follows it."""
    words: list[str] = []
    for at, word in enumerate(argv):
        following = argv[at + 1] if at + 1 < len(argv) else "--"
        selects = following.startswith("{") or '="' in following or "='" in following or "=~" in following
        bare = word == "--json" and (
            (following.startswith("-") and following != STDOUT) or selects or not following
        )
        words.append(f"--json={STDOUT}" if bare else word)
    return words
