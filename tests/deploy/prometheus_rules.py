"""Prometheus' promtool over rules, and the metrics and labels that an expression reads.

promtool parses expressions and evaluates rules; the reader of selectors below only lists names. It refuses
every word that it cannot place, so that a name it misses fails a test instead of passing it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

AGGREGATIONS = frozenset(
    [
        *("sum", "min", "max", "avg", "group", "stddev", "stdvar"),
        *("count", "count_values", "bottomk", "topk", "quantile"),
    ]
)
GROUPINGS = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
OPERATORS = frozenset(("and", "or", "unless", "atan2", "bool", "offset"))
TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    | (?P<range>\[[^\]]*\])
    | (?P<number>\d[\w.]*)
    | (?P<word>[A-Za-z_:][\w:]*)
    | (?P<symbol>=~|!~|!=|==|<=|>=|[-+*/%^=<>(){},@.])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Alert:
    """A firing alert."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.labels["alertname"]


@dataclass(frozen=True, slots=True)
class Case:
    """Series by the minute, in promtool's notation, and the minute whose firing alerts are wanted."""

    series: Mapping[str, str]
    minutes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The names in an expression: each metric with its matched labels, and the labels of all groupings."""

    metrics: Mapping[str, frozenset[str]]
    groups: frozenset[str]


def read_names(expression: str) -> Reading:
    """List the metrics and labels of an expression; ValueError for a word that has no place in PromQL."""
    tokens = _tokens(expression)
    metrics: dict[str, set[str]] = {}
    groups: set[str] = set()
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        at += 1
        if text == "{":
            raise ValueError(f"a selector without a metric in {expression!r}")
        if kind != "word" or text in OPERATORS:
            continue
        if text in GROUPINGS:
            if following == "(":
                names, at = _until(tokens, at + 1, ")")
                groups.update(name for kind, name in names if kind == "word")
        elif text in AGGREGATIONS or following == "(":
            if following != "(" and following not in GROUPINGS:
                raise ValueError(f"{text} aggregates nothing in {expression!r}")
        else:
            labels = metrics.setdefault(text, set())
            if following == "{":
                matchers, at = _until(tokens, at + 1, "}")
                labels.update(name for kind, name in matchers if kind == "word")
    return Reading({name: frozenset(labels) for name, labels in metrics.items()}, frozenset(groups))


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(expression):
        match = TOKEN.match(expression, at)
        if match is None:
            raise ValueError(f"{expression[at:]!r} is no PromQL")
        at = match.end()
        if match.lastgroup != "blank":
            found.append((str(match.lastgroup), match[0]))
    return found


def _until(tokens: Sequence[tuple[str, str]], at: int, end: str) -> tuple[Sequence[tuple[str, str]], int]:
    """The tokens before the next `end`, and the position after it."""
    close = next(place for place in range(at, len(tokens)) if tokens[place][1] == end)
    return tokens[at:close], close + 1


def check_expressions(folder: Path, expressions: Iterable[str]) -> str:
    """What promtool has against these expressions; empty if nothing."""
    rules = [{"record": f"expression:{at}", "expr": text} for at, text in enumerate(expressions)]
    path = folder / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "expressions", "rules": rules}]}), encoding="utf-8")
    done = _promtool("check", "rules", str(path))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def find_firing(
    folder: Path, groups: Mapping[str, object], cases: Mapping[str, Case]
) -> dict[str, list[Alert]]:
    """Evaluate a PrometheusRule's `groups` every minute in each case; the alerts that fire at its end."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(groups)), encoding="utf-8")
    names = sorted({rule["alert"] for group in groups["groups"] for rule in group["rules"]})  # type: ignore[attr-defined]
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in case.series.items()],
            "alert_rule_test": [
                {"eval_time": f"{case.minutes}m", "alertname": alert, "exp_alerts": []} for alert in names
            ],
        }
        for name, case in cases.items()
    ]
    path = folder / "cases.yaml"
    content = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = _promtool("test", "rules", str(path))
    found = _read_differences(done.stdout + done.stderr, cases)
    assert (done.returncode == 0) is (not any(found.values())), done.stdout + done.stderr
    return found


def _read_differences(text: str, cases: Iterable[str]) -> dict[str, list[Alert]]:
    """The alerts of promtool's report: none was expected, so that each that fires is a difference."""
    found: dict[str, list[Alert]] = {name: [] for name in cases}
    case, labels = "", {}
    for line in map(str.strip, text.splitlines()):
        name, _, value = line.partition(":")
        if name == "name":
            case = value.strip().removesuffix(",")
        elif name == "Labels":
            labels = _pairs(value)
        elif name == "Annotations":
            found[case].append(Alert(labels, _pairs(value)))
        else:
            known = r"|Unit Testing: .*|FAILED:|SUCCESS|alertname: \w+, time: \w+,|exp:\[\],|got:\[|\d+:|\]"
            assert re.fullmatch(known, line), text
    return found


def _pairs(text: str) -> dict[str, str]:
    """Labels as Go prints them: `{name="value", …}`."""
    return {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', text)}


def _promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.fail("promtool is missing: install Debian's prometheus (make tools)", pytrace=False)
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)
