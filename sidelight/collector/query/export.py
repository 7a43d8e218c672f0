"""Profiles to take away, each as one file that says what it stands on.

speedscope's own JSON, pprof's profile and a flame graph as SVG have one side; folded text, a table of
functions (CSV) and a page that opens without a network (HTML) have one or two.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow.compute as pc

import sidelight
from sidelight.collector.columns import Column, integers, one, words
from sidelight.collector.query.basis import Basis, SideNumbers, basis, side
from sidelight.collector.query.drawing import costs, drawn
from sidelight.collector.query.flame import flame
from sidelight.collector.query.frames import STATES_OF, rows, stacks, weigh
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.scan import sums
from sidelight.collector.query.windows import Question, Windows, choose, choose_all
from sidelight.collector.store.tables import STATES
from sidelight.stacks.about import About, AboutSide
from sidelight.stacks.counts import ZERO, Counts, ProfileType
from sidelight.stacks.errors import LimitExceeded
from sidelight.stacks.folded import Stack, join, render_folded, render_lines
from sidelight.stacks.page import write_page
from sidelight.stacks.pprof import StateRow, write_pprof
from sidelight.stacks.speedscope import write_speedscope
from sidelight.stacks.spreadsheet import write_csv
from sidelight.stacks.svg import write_svg
from sidelight.stacks.tree import Row

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
) -> Exported:
    """Folded text, sorted; with `states` the state is a last pseudo-frame, without it states are added up.

    Two sides are two counts in each line, as differential flame graphs take them. With `says` the first line
    is `# ` and what it stands on, as JSON: no tool takes that for a stack.
    """
    chosen = choose_all(reading, sides)
    counts = [_counts(reading, windows, lines=lines, most=most) for windows in chosen]
    about = _about(sides, chosen, kind, name)
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
) -> Exported:
    """A sampled profile as speedscope reads it, in nanoseconds; stacks that are equal are one sample.

    With `nodes` the lightest call paths beyond so many become `(other)`, and the profile's name says so.
    """
    windows = choose(reading, sides[0])
    about = _about(sides, [windows], kind, name)
    if nodes is None:
        found, said = list(_weighed(reading, windows, kind, lines=lines, most=most)), name
    else:
        found, dropped = _heaviest(reading, windows, kind, lines=lines, nodes=nodes)
        said = f"{name} · {dropped:,} small call paths in (other)" if dropped else name
    content = write_speedscope(found, said, EXPORTER, about)
    return Exported(content, about, basis([windows], kind, reading.unreadable))


def svg(
    reading: Reading, sides: Sequence[Question], kind: ProfileType, *, lines: bool, name: str, most: int
) -> Exported:
    """A flame graph that needs nothing but the file."""
    windows = choose(reading, sides[0])
    about = _about(sides, [windows], kind, name)
    found = _weighed(reading, windows, kind, lines=lines, most=most)
    return Exported(write_svg(found, name, about.notes()), about, basis([windows], kind, reading.unreadable))


def pprof(
    reading: Reading, sides: Sequence[Question], kind: ProfileType, *, lines: bool, name: str, most: int
) -> Exported:
    """A profile for `go tool pprof`, gzipped, its samples labelled with their state."""
    windows = choose(reading, sides[0])
    summed = sums(reading, windows)
    found = stacks(reading, windows, words(summed["service"]), one(summed["h"]), lines=lines)
    weights: dict[tuple[tuple[str, ...], str], tuple[int, int]] = {}
    periods = integers(summed["period_ns"])
    for state in STATES_OF[kind]:
        counted = zip(_bounded(found, most), integers(summed[state]), periods, strict=True)
        for frames, samples, period_ns in counted:
            if samples:
                key = (tuple(frames), state)
                seen = weights.get(key, (0, 0))
                weights[key] = seen[0] + samples, seen[1] + samples * period_ns
    reading.deadline.remaining()
    about = _about(sides, [windows], kind, name)
    state_rows = (StateRow(frames, state, *weight) for (frames, state), weight in weights.items())
    content = write_pprof(state_rows, about, period_ns=_period_ns(windows.table["period_ns"], about))
    return Exported(content, about, basis([windows], kind, reading.unreadable))


def csv(
    reading: Reading, sides: Sequence[Question], kind: ProfileType, *, name: str, most: int, says: bool
) -> Exported:
    """Functions with what they cost, heaviest first, of one side or two."""
    chosen = choose_all(reading, sides)
    found = costs(reading, [(windows, weigh(sums(reading, windows), kind)) for windows in chosen])
    if len(found) > most:
        raise LimitExceeded(
            f"this profile has {len(found):,} functions, and a table may have {most:,}",
            hint="Ask for less (a narrower selector, a shorter range), or raise the collector's --max-rows.",
        )
    heaviest = sorted(found.items(), key=lambda item: (-max(cost.self_ns for cost in item[1]), item[0]))
    about = _about(sides, chosen, kind, name)
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
    template: Template,
) -> Exported:
    """A page with the flame graph or the comparison in it."""
    answer = flame(reading, sides, kind, lines=lines, nodes=nodes, most=most)
    shown = zip(sides, answer["sides"], strict=True)
    about = About(name, kind.value, EXPORTER, [_about_side(question, numbers) for question, numbers in shown])
    profile = json.dumps({"about": about.told(), "flame": answer}, separators=(",", ":")).encode()
    reading.deadline.remaining()
    return Exported(write_page(template.text, about, profile), about, answer["basis"])


def _counts(reading: Reading, windows: Windows, *, lines: bool, most: int) -> dict[Stack, Counts]:
    summed = sums(reading, windows)
    frames = stacks(reading, windows, words(summed["service"]), one(summed["h"]), lines=lines)
    counts: dict[Stack, Counts] = {}
    columns = zip(*(integers(summed[state]) for state in STATES), strict=True)
    for stack, samples in zip(_bounded(frames, most), columns, strict=True):
        key = join(stack)
        counts[key] = counts.get(key, ZERO).plus(Counts(*samples))
    return counts


def _both(sides: Sequence[Mapping[Stack, Counts]], kind: ProfileType, *, states: bool) -> Iterator[str]:
    """Lines with two counts each, in the order of their stacks."""
    told = [
        dict(line[:-1].rpartition(" ")[::2] for line in render_lines(counts, kind, states=states))
        for counts in sides
    ]
    for stack in sorted(told[0].keys() | told[1].keys()):
        yield f"{stack} {told[0].get(stack, 0)} {told[1].get(stack, 0)}\n"


def _about(sides: Sequence[Question], chosen: Sequence[Windows], kind: ProfileType, name: str) -> About:
    numbers = [
        _about_side(question, side(question, windows, kind))
        for question, windows in zip(sides, chosen, strict=True)
    ]
    return About(name, kind.value, EXPORTER, numbers)


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


def _bounded(found: Iterable[Sequence[str]], most: int) -> Iterator[Sequence[str]]:
    """The same stacks. Raises LimitExceeded once they have more than `most` frames."""
    frames = 0
    for stack in found:
        frames += len(stack)
        if frames > most:
            raise LimitExceeded(
                f"the stacks of this export have more than {most:,} frames together",
                hint="Ask for less (a narrower selector, a shorter range), take format=html, which keeps the "
                "heaviest call paths, or raise the collector's --max-export-frames.",
            )
        yield stack


def _weighed(
    reading: Reading, windows: Windows, kind: ProfileType, *, lines: bool, most: int
) -> Iterator[Row]:
    """Stacks with their samples and time, each once."""
    times: dict[tuple[str, ...], tuple[int, int]] = {}
    for frames, samples, ns in rows(reading, windows, weigh(sums(reading, windows), kind), lines=lines):
        key = tuple(frames)
        seen = times.get(key, (0, 0))
        times[key] = seen[0] + samples, seen[1] + ns
    yield from zip(_bounded(times, most), *zip(*times.values(), strict=True), strict=True) if times else ()


def _heaviest(
    reading: Reading, windows: Windows, kind: ProfileType, *, lines: bool, nodes: int
) -> tuple[list[Row], int]:
    """The stacks of the pruned tree, and how many call paths became part of an `(other)`."""
    tree = drawn(reading, [(windows, weigh(sums(reading, windows), kind))], lines=lines, most=nodes)
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
