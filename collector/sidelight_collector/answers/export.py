"""Profiles to take away, each as one file that says what it stands on.

speedscope's own JSON, pprof's profile and a flame graph as SVG have one side; folded text, a table of
functions (CSV) and a page that opens without a network (HTML) have one or two.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import pyarrow.compute as pc

import sidelight
from sidelight_collector.answers.flame import flame
from sidelight_collector.arrow_ops import Column, integers
from sidelight_collector.comparison.request import Wanted
from sidelight_collector.query.call_tree import costs, drawn
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import STATES_OF, Weights, rows, weigh
from sidelight_collector.query.engine.window_sums import sums
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose,
    choose_all,
)
from sidelight_collector.query.stack_filter import ALL, Pick, narrowed, picked
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.errors import LimitExceeded
from sidelight_model.export_formats.csv_export import write_csv
from sidelight_model.export_formats.html_export import write_page
from sidelight_model.export_formats.pprof import StateRow, write_pprof
from sidelight_model.export_formats.provenance import About, AboutSide
from sidelight_model.export_formats.speedscope import write_speedscope
from sidelight_model.export_formats.svg import DEFAULT_NODES, draw_svg
from sidelight_model.folded import Stack, join, render_folded, render_lines
from sidelight_model.tree import Row, Tree

AnyRow = TypeVar("AnyRow", Row, StateRow)

NO_BOUND: Final = sys.maxsize
EXPORTER: Final = f"sidelight {sidelight.__version__}"


@dataclass(frozen=True, slots=True)
class Exported:
    """A document, and what it stands on."""

    content: bytes
    about: About
    basis: Basis


@dataclass(frozen=True, slots=True)
class Template:
    """The page that a profile is put into."""

    text: str = field(repr=False)


def folded(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    states: bool,
    name: str = "",
    most: int = NO_BOUND,
    says: bool = False,
    pick: Pick = ALL,
) -> Exported:
    """Folded text, sorted; with `states` the state is a last pseudo-frame, without it states are added up.

    Two sides are two counts in each line, as differential flame graphs take them. With `says` the first line
    is `# ` and what it stands on, as JSON: no tool takes that for a stack.
    """
    chosen = choose_all(reading, sides)
    counts = [_counts(reading, windows, kind, pick, lines=lines, most=most) for windows in chosen]
    about = _about(reading, sides, chosen, kind, name, pick)
    header = f"# {about.json()}\n" if says else ""
    if len(counts) == 1:
        text = render_folded(counts[0], kind, states=states)
    else:
        text = "".join(_both(counts, kind, states=states))
    return Exported((header + text).encode(), about, basis(chosen, kind, reading.unreadable))


def speedscope(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    most: int,
    nodes: int | None,
    pick: Pick,
) -> Exported:
    """A sampled profile as speedscope reads it, in nanoseconds; stacks that are equal are one sample.

    With `nodes` the lightest call paths beyond so many become `(other)`, and the profile's name says so.
    """
    windows = choose(reading, sides[0])
    about = _about(reading, sides, [windows], kind, name, pick)
    weights = _weights(reading, windows, kind, pick)
    if nodes is None:
        found, said = list(_bounded(_weighed(reading, windows, weights, lines=lines), most)), name
    else:
        found, dropped = _heaviest(reading, windows, weights, lines=lines, nodes=nodes)
        said = f"{name} · {dropped:,} small call paths in (other)" if dropped else name
    content = write_speedscope(found, said, EXPORTER, about)
    return Exported(content, about, basis([windows], kind, reading.unreadable))


def svg(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    pick: Pick,
) -> Exported:
    """A flame graph that needs nothing but the file."""
    windows = choose(reading, sides[0])
    about = _about(reading, sides, [windows], kind, name, pick)
    weights = _weights(reading, windows, kind, pick)
    made = drawn(reading, [(windows, weights)], lines=lines, most=DEFAULT_NODES)
    reading.deadline.remaining()
    times = [us * 1000 for us in made.microseconds[0]]
    tree = Tree(made.names, made.level, made.name, made.samples, [times])
    content = draw_svg(tree, made.dropped, name, about.notes())
    return Exported(content, about, basis([windows], kind, reading.unreadable))


def pprof(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    most: int,
    pick: Pick,
) -> Exported:
    """A profile for `go tool pprof`, gzipped, its samples labelled with their state."""
    windows = choose(reading, sides[0])
    found = list(_bounded(_by_state(reading, windows, kind, pick, lines=lines), most))
    reading.deadline.remaining()
    about = _about(reading, sides, [windows], kind, name, pick)
    content = write_pprof(found, about, period_ns=_period_ns(windows.table["period_ns"], about))
    return Exported(content, about, basis([windows], kind, reading.unreadable))


def csv(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    name: str,
    most: int,
    says: bool,
    pick: Pick,
) -> Exported:
    """Functions with what they cost, heaviest first, of one side or two."""
    chosen = choose_all(reading, sides)
    found = costs(reading, [(windows, _weights(reading, windows, kind, pick)) for windows in chosen])
    if len(found) > most:
        raise LimitExceeded(
            f"this profile has {len(found):,} functions, and a table may have {most:,}",
            hint="Ask for less (a narrower selector, a shorter range), or raise the collector's --max-rows.",
        )
    heaviest = sorted(found.items(), key=lambda item: (-max(cost.self_ns for cost in item[1]), item[0]))
    about = _about(reading, sides, chosen, kind, name, pick)
    return Exported(write_csv(heaviest, about, says=says), about, basis(chosen, kind, reading.unreadable))


def html(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    lines: bool,
    name: str,
    nodes: int | None,
    most: int,
    states: bool,
    pick: Pick,
    template: Template,
    wanted: Wanted,
) -> Exported:
    """A page with the flame graph, or the comparison and its verdict; with `states` it tells them apart."""
    judged = wanted if len(sides) > 1 else None
    drawing = partial(flame, reading, sides, kind, lines=lines, nodes=nodes, most=most)
    answer = drawing(states=states, pick=pick, wanted=judged)
    numbers = [_about_side(question, told) for question, told in zip(sides, answer["sides"], strict=True)]
    about = About(name, kind.value, EXPORTER, numbers, _said(pick))
    profile = json.dumps({"about": about.told(), "flame": answer}, separators=(",", ":")).encode()
    reading.deadline.remaining()
    return Exported(write_page(template.text, about, profile), about, answer["basis"])


def _counts(
    reading: Reading, windows: Windows, kind: ProfileType, pick: Pick, *, lines: bool, most: int
) -> dict[Stack, Counts]:
    counts: dict[Stack, Counts] = {}
    for row in _bounded(_by_state(reading, windows, kind, pick, lines=lines), most):
        key = join(row.frames)
        counts[key] = counts.get(key, ZERO).plus(Counts(**{row.state: row.samples}))
    return counts


def _both(sides: Sequence[Mapping[Stack, Counts]], kind: ProfileType, *, states: bool) -> Iterator[str]:
    """Lines with two counts each, in the order of their stacks."""
    told = [
        dict(line[:-1].rpartition(" ")[::2] for line in render_lines(counts, kind, states=states))
        for counts in sides
    ]
    for stack in sorted(told[0].keys() | told[1].keys()):
        yield f"{stack} {told[0].get(stack, 0)} {told[1].get(stack, 0)}\n"


def _weights(reading: Reading, windows: Windows, kind: ProfileType, pick: Pick, *states: str) -> Weights:
    """What windows hold of a type, in these states (or all of it), of the stacks that are looked at."""
    return picked(reading, windows, weigh(sums(reading, windows), kind, states or STATES), pick)


def _about(
    reading: Reading,
    sides: Sequence[Question],
    chosen: Sequence[Windows],
    kind: ProfileType,
    name: str,
    pick: Pick,
) -> About:
    numbers = []
    for question, windows in zip(sides, chosen, strict=True):
        told = side(question, windows, kind)
        if not pick.all:
            told = narrowed(told, _weights(reading, windows, kind, pick), pick)
        numbers.append(_about_side(question, told))
    return About(name, kind.value, EXPORTER, numbers, _said(pick))


def _said(pick: Pick) -> str:
    """Which stacks are looked at, in words; empty for all."""
    least, most = pick.min_depth, pick.max_depth
    words = [f"at least {least} frames deep"] if least else []
    words += [f"at most {most} frames deep"] if most else []
    words += [f"with {pick.function}"] if pick.function else []
    words += [f"below {pick.focus.partition('.')[2]}"] if pick.focus else []
    return ", ".join(words)


def _about_side(question: Question, numbers: SideNumbers) -> AboutSide:
    return AboutSide(
        str(question.selector),
        question.from_ns,
        question.until_ns,
        *(
            numbers["samples"],
            numbers["pods"],
            numbers["windows"],
            numbers["seconds"],
            numbers["pod_seconds"],
        ),
    )


def _period_ns(periods: Column, about: About) -> int:
    """The sampling period, or the mean of all samples where windows have different ones."""
    different = integers(pc.unique(periods))
    if len(different) == 1:
        return different[0]
    seen = about.sides[0]
    return round(seen.seconds * 1e9 / seen.samples) if seen.samples else 0


def _bounded(found: Iterable[AnyRow], most: int) -> Iterator[AnyRow]:
    """The same rows. Raises LimitExceeded once their stacks have more than `most` frames together."""
    frames = 0
    for row in found:
        frames += len(row[0])
        if frames > most:
            raise LimitExceeded(
                f"the stacks of this export have more than {most:,} frames together",
                hint="Ask for less (a narrower selector, a shorter range), take format=html, which keeps the "
                "heaviest call paths, or raise the collector's --max-export-frames.",
            )
        yield row


def _weighed(reading: Reading, windows: Windows, weights: Weights, *, lines: bool) -> Iterator[Row]:
    """Stacks with their samples and time, each once."""
    times: dict[tuple[str, ...], tuple[int, int]] = {}
    for frames, samples, ns in rows(reading, windows, weights, lines=lines):
        key = tuple(frames)
        seen = times.get(key, (0, 0))
        times[key] = seen[0] + samples, seen[1] + ns
    yield from ((frames, *weight) for frames, weight in times.items())


def _by_state(
    reading: Reading, windows: Windows, kind: ProfileType, pick: Pick, *, lines: bool
) -> Iterator[StateRow]:
    """Stacks with their samples and time, each once in each state that it was seen in."""
    for state in STATES_OF[kind]:
        weights = _weights(reading, windows, kind, pick, state)
        for frames, samples, ns in _weighed(reading, windows, weights, lines=lines):
            yield StateRow(frames, state, samples, ns)


def _heaviest(
    reading: Reading, windows: Windows, weights: Weights, *, lines: bool, nodes: int
) -> tuple[list[Row], int]:
    """The stacks of the pruned tree, and how many call paths became part of an `(other)`."""
    tree = drawn(reading, [(windows, weights)], lines=lines, most=nodes)
    found: list[Row] = []
    path: list[str] = []
    columns = zip(tree.level, tree.name, tree.samples[0], tree.microseconds[0], strict=True)
    for level, code, samples, us in columns:
        del path[max(level - 1, 0) :]
        if level:
            path.append(tree.names[code])
            if samples:
                found.append((tuple(path), samples, us * 1000))
    return found, tree.dropped
