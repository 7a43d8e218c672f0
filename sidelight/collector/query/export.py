"""Profiles to take away: folded text for any tool, speedscope's own JSON, and a flame graph as a file."""

from collections.abc import Iterator
from dataclasses import dataclass

import sidelight
from sidelight.collector.columns import integers, one, words
from sidelight.collector.query.basis import Basis, basis
from sidelight.collector.query.frames import rows, stacks, weigh
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.scan import sums
from sidelight.collector.query.windows import Question, Windows, choose
from sidelight.collector.store.tables import STATES
from sidelight.collector.times import rfc3339
from sidelight.stacks.counts import ZERO, Counts, ProfileType
from sidelight.stacks.folded import Stack, join, render_folded
from sidelight.stacks.speedscope import write_speedscope
from sidelight.stacks.svg import write_svg
from sidelight.stacks.tree import Row


@dataclass(frozen=True, slots=True)
class Exported:
    """A document, and what it stands on."""

    content: bytes
    basis: Basis


def folded(reading: Reading, question: Question, kind: ProfileType, *, lines: bool, states: bool) -> Exported:
    """Folded text, sorted; with `states` the state is a last pseudo-frame, without it states are added up."""
    windows = choose(reading, question)
    summed = sums(reading, windows)
    frames = stacks(reading, windows, words(summed["service"]), one(summed["h"]), lines=lines)
    counts: dict[Stack, Counts] = {}
    for stack, *samples in zip(frames, *(integers(summed[state]) for state in STATES), strict=True):
        key = join(stack)
        counts[key] = counts.get(key, ZERO).plus(Counts(*samples))
    text = render_folded(counts, kind, states=states)
    return Exported(text.encode(), basis([windows], kind, reading.unreadable))


def speedscope(
    reading: Reading, question: Question, kind: ProfileType, *, lines: bool, name: str
) -> Exported:
    """A sampled profile as speedscope reads it, in nanoseconds; stacks that are equal are one sample."""
    windows = choose(reading, question)
    weighed = _weighed(reading, windows, kind, lines=lines)
    content = write_speedscope(weighed, name, f"sidelight {sidelight.__version__}")
    return Exported(content, basis([windows], kind, reading.unreadable))


def svg(reading: Reading, question: Question, kind: ProfileType, *, lines: bool, name: str) -> Exported:
    """A flame graph that needs nothing but the file."""
    windows = choose(reading, question)
    span = f"{rfc3339(question.from_ns)} until {rfc3339(question.until_ns)}"
    content = write_svg(_weighed(reading, windows, kind, lines=lines), name, [span])
    return Exported(content, basis([windows], kind, reading.unreadable))


def _weighed(reading: Reading, windows: Windows, kind: ProfileType, *, lines: bool) -> Iterator[Row]:
    """Stacks with their samples and time, each once."""
    times: dict[tuple[str, ...], tuple[int, int]] = {}
    for frames, samples, ns in rows(reading, windows, weigh(sums(reading, windows), kind), lines=lines):
        key = tuple(frames)
        seen = times.get(key, (0, 0))
        times[key] = seen[0] + samples, seen[1] + ns
    yield from ((frames, *weights) for frames, weights in times.items())
