"""`sidelight compare`: what takes more or less time in B than in A, by function, in text or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.client import NOT_A_COLLECTOR, Client, Unreachable, read_token
from sidelight.export import number
from sidelight.settings import joined, one_of, parse, positive, setting, whole
from sidelight.stacks.about import moment, plural
from sidelight.stacks.cells import fit, visible, width
from sidelight.stacks.changes import (
    Change,
    Direction,
    SideTime,
    change,
    change_words,
    short,
    signed,
    verdict,
)
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.frames import Frame
from sidelight.stacks.selectors import side_matchers

DESCRIPTION: Final = (
    "Compare two sides of a service: the whole difference in one sentence, then the functions whose time per "
    "pod-second differs most. A side is version:VERSION, or matchers such as 'node=\"n3\"', over its own "
    "range if wanted. Exits with 0 whatever the difference is, 1 when there is no answer, 2 for a wrong "
    "option; 3 is kept for a difference that is too large."
)
MOST_FUNCTIONS: Final = "100000"
ORDERS: Final = ("self", "total")
_LENGTH: Final = 20


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """What `sidelight compare` is told."""

    selector: str = setting(
        "", "which windows both sides are of, as Prometheus matchers: '{service=\"shop\"}'", positional=True
    )
    collector: str = setting("", "the collector's address", required=True, metavar="URL")
    a: str = setting("", "the baseline: version:VERSION, or matchers", required=True, metavar="SIDE")
    b: str = setting("", "what is compared with it, written like --a", required=True, metavar="SIDE")
    type: str = setting("cpu", "cpu, wall or gil", read=one_of("cpu", "wall", "gil"))
    from_: str = setting("-1h", "first moment: RFC 3339, Unix seconds, now, or -15m", metavar="TIME")
    until: str = setting("now", "end, itself excluded; written like --from", metavar="TIME")
    a_from: str = setting("", "first moment of A alone", metavar="TIME")
    a_until: str = setting("", "end of A alone", metavar="TIME")
    b_from: str = setting("", "first moment of B alone", metavar="TIME")
    b_until: str = setting("", "end of B alone", metavar="TIME")
    min_depth: int | None = setting(None, "only stacks at least so many frames deep", read=whole)
    max_depth: int | None = setting(None, "only stacks at most so many frames deep", read=whole)
    function: str = setting("", "only stacks with this function: 'name (file)', or a name")
    focus: str = setting("", "only stacks below this call path, as addresses of the pages write it")
    by: str = setting(
        "self", "self or total: whose differences are listed, largest first", read=one_of(*ORDERS)
    )
    limit: int = setting(_LENGTH, "functions to list", read=whole, metavar="COUNT")
    significant: bool = setting(default=False, help="list only differences beyond counting noise")
    json: bool = setting(default=False, help="write JSON")
    token_file: Path | None = setting(None, "a file with a bearer token", read=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "after which an answer is given up", read=positive)


@dataclass(frozen=True, slots=True)
class Row:
    """One function on both sides; rates are seconds per pod-second."""

    function: str
    file: str
    own: Change
    total: Change
    self_samples: Sequence[int]
    total_samples: Sequence[int]

    def by(self, order: str) -> Change:
        return self.own if order == "self" else self.total


def run(argv: Sequence[str]) -> int:
    """Compare once. Raises SidelightError when there is no answer."""
    settings = parse(CompareSettings, "compare", DESCRIPTION, joined(argv), os.environ)
    token = read_token(settings.token_file)
    client = Client(settings.collector, token=token, timeout_seconds=settings.timeout_seconds)
    answer = client.get("top", parameters(settings))
    try:
        rows, sides = rows_of(answer), [_side(side) for side in answer["sides"]]
        said = Compared(
            answer, *verdict(sides, ProfileType(settings.type)), listed(rows, settings), len(rows)
        )
        text = said.json(settings) if settings.json else said.text(settings)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"{settings.collector} answered no comparison", hint=NOT_A_COLLECTOR) from error
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing must be flushed at exit into what takes no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    for note in said.notes():
        sys.stderr.write(f"{note}\n")
    return 0


def parameters(settings: CompareSettings) -> Mapping[str, str]:
    """The query of the request."""
    given = {
        "query": settings.selector,
        "baseline": side_matchers(settings.a),
        "comparison": side_matchers(settings.b),
        "from": settings.from_,
        "until": settings.until,
        "baseline_from": settings.a_from,
        "baseline_until": settings.a_until,
        "comparison_from": settings.b_from,
        "comparison_until": settings.b_until,
        "type": settings.type,
        "min_depth": number(settings.min_depth),
        "max_depth": number(settings.max_depth),
        "function": settings.function,
        "focus": settings.focus,
        "by": settings.by,
        "limit": MOST_FUNCTIONS,
    }
    return {name: text for name, text in given.items() if text or name in ("baseline", "comparison")}


def rows_of(answer: Any) -> list[Row]:
    """The functions of an answer of /api/v1/top with two sides."""
    a, b = answer["sides"]
    divisors = [side["pod_seconds"] * 1e6 for side in (a, b)]
    rows = []
    for at, function in enumerate(answer["rows"]["function"]):
        own, total = ([a[f"{of}_samples"][at], b[f"{of}_samples"][at]] for of in ORDERS)
        by_self, by_total = (
            change([a[f"{of}_us"][at], b[f"{of}_us"][at]], samples, divisors)
            for of, samples in zip(ORDERS, (own, total), strict=True)
        )
        rows.append(Row(function, answer["rows"]["file"][at], by_self, by_total, own, total))
    return rows


def listed(rows: Iterable[Row], settings: CompareSettings) -> list[Row]:
    """The rows to show: the largest differences first."""
    beyond = (Direction.MORE, Direction.LESS, Direction.NEW, Direction.GONE)
    kept = [row for row in rows if not settings.significant or row.by(settings.by).direction in beyond]
    kept.sort(key=lambda row: (-abs(row.by(settings.by).delta), row.function, row.file))
    return kept[: settings.limit]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that can be written."""

    answer: Any
    sentence: str
    direction: Direction
    rows: Sequence[Row]
    functions: int

    def json(self, settings: CompareSettings) -> str:
        """Everything as JSON; rates and differences are seconds per pod-second."""
        kept = ("selector", "from", "until", "samples", "seconds", "pod_seconds", "pods", "windows")
        written = {
            "type": settings.type,
            "by": settings.by,
            "verdict": {"sentence": self.sentence, "direction": self.direction},
            "sides": [{name: side[name] for name in kept} for side in self.answer["sides"]],
            "functions": self.functions,
            "rows": [_row_told(row) for row in self.rows],
            "basis": self.answer["basis"],
        }
        return json.dumps(written, ensure_ascii=False, indent=2) + "\n"

    def text(self, settings: CompareSettings) -> str:
        """The sentence, what it stands on, and an aligned table. Names cannot act on a terminal."""
        lines = [visible(self.sentence), ""]
        lines += [_side_line(name, side) for name, side in zip("AB", self.answer["sides"], strict=True)]
        if self.rows:
            lines += ["", f"milliseconds per pod-second, largest difference of {settings.by} first", ""]
            lines += _table(self.rows, settings.by)
        left = self.functions - len(self.rows)
        if left > 0:
            lines += ["", f"{plural(left, 'more function')}: --limit {self.functions} lists all."]
        return "\n".join(lines) + "\n"

    def notes(self) -> list[str]:
        """What a person should know besides, for standard error."""
        basis, notes = self.answer["basis"], []
        if unreadable := basis.get("unreadable_segments"):
            notes.append(
                f"warning: {unreadable} stored segments could not be read; their windows are missing"
            )
        if unresolved := basis.get("unresolved_windows"):
            notes.append(
                f"warning: {unresolved} windows are left out: their stacks are kept only with others"
            )
        if (whole := self.answer["functions"]) > self.functions:
            notes.append(f"warning: of {whole:,} functions the {self.functions:,} heaviest were compared")
        return notes


def _table(rows: Sequence[Row], by: str) -> list[str]:
    head = ["self A", "self B", "Δ self", "total A", "total B", "Δ total", f"{by}, in words", "function"]
    body = [
        [*_cells(row.own), *_cells(row.total), change_words(row.by(by)), _name(row.function, row.file)]
        for row in rows
    ]
    widths = [max(width(line[at]) for line in (head, *body)) for at in range(len(head) - 1)]
    return ["  ".join([*_aligned(line[:-1], widths), line[-1]]).rstrip() for line in (head, *body)]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    for at, (text, wide) in enumerate(zip(cells, widths, strict=True)):
        yield fit(text, wide) if at == len(widths) - 1 else " " * (wide - width(text)) + text


def _cells(of: Change) -> list[str]:
    unknown = of.direction is Direction.UNKNOWN
    delta = "-" if unknown else signed(short(of.delta * 1000), of.delta)
    return [short(of.a * 1000), short(of.b * 1000), delta]


def _name(function: str, file: str) -> str:
    return visible(Frame(function, file).text)


def _side_line(name: str, side: Any) -> str:
    span = " until ".join(moment(round(side[edge] * 1e9)) for edge in ("from", "until"))
    counted = " · ".join(plural(side[f"{what}s"], what) for what in ("sample", "pod", "window"))
    return f"{name}  {visible(side['selector'])}  {span}  {counted}"


def _row_told(row: Row) -> Mapping[str, object]:
    told: dict[str, object] = {"function": row.function, "file": row.file}
    for name, of, samples in (
        ("self", row.own, row.self_samples),
        ("total", row.total, row.total_samples),
    ):
        told[name] = {
            "a": of.a,
            "b": of.b,
            "difference": of.delta,
            "noise": of.least,
            "change": of.direction,
            "samples": list(samples),
        }
    return told


def _side(side: Any) -> SideTime:
    return SideTime(side["seconds"], side["samples"], side["pod_seconds"], side["missing_states"])
