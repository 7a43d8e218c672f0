"""Stacks of a service: recorded stacks, plausible new ones, and versions of them.

Three programs were recorded with `sidelight record` (bench/corpus/programs). Crossing creates any number of
further stacks: where two recorded stacks have a frame in common, the callers in one are joined with the
callees in the other. So every call in a stack occurs in a recording.

A version edits some files: lines below an edit move, a few functions call a new function, and a few
functions become heavier. Nothing changes in files without edits.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack, join_frames, parse_folded, split_stack

PROGRAMS: Final = {"shop": 0.12, "feed": 0.44, "pricing": 0.44}
"""The share of a service's stacks from each program."""
RECORDED: Final = Path(__file__).parent / "recorded"

_PLACE: Final = re.compile(r"(.*) \((.*):(\d+)\)")
_EDITED_SHARE: Final = 0.3
_SPLIT_SHARE: Final = 0.03
_HEAVIER: Final = 3
_FACTOR: Final = 4.0

Frames = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A stack, its relative weight, and the shares of its samples by state.

    The states are idle, running and gil.
    """

    frames: Frames
    weight: float
    states: tuple[float, float, float]


def recorded(program: str) -> dict[Stack, Counts]:
    """Read the recorded stacks of a program."""
    packed = (RECORDED / f"{program}.folded.zst").read_bytes()
    return parse_folded(zstandard.ZstdDecompressor().decompress(packed).decode())


def service(distinct: int, seed: int) -> list[Known]:
    """Create `distinct` stacks of a service that does the work of all programs.

    The heaviest stacks come first.
    """
    luck = random.Random(f"stacks {seed}")
    known: list[Known] = []
    shares = list(PROGRAMS.items())
    for number, (program, share) in enumerate(shares):
        last = number == len(shares) - 1
        wanted = distinct - len(known) if last else round(distinct * share)
        known += _crossed(recorded(program), wanted, share, luck)
    return sorted(known, key=lambda one: (-one.weight, one.frames))


def _crossed(seen: Mapping[Stack, Counts], wanted: int, share: float, luck: random.Random) -> Iterable[Known]:
    """Return a program's heaviest recorded stacks, and crossed ones up to `wanted`."""
    total = sum(count.wall for count in seen.values())
    found = {
        (frames := tuple(split_stack(stack))): Known(frames, share * count.wall / total, _states(count))
        for stack, count in sorted(seen.items(), key=lambda one: (-one[1].wall, one[0]))[:wanted]
    }
    recorded = list(found.values())
    through: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, one in enumerate(recorded):
        for depth, frame in enumerate(one.frames[:-1]):
            through[frame].append((at, depth))
    rare = recorded[-1].weight if recorded else 0.0
    tries = 0
    while len(found) < wanted:
        tries += 1
        if tries > 100 * wanted:
            raise ValueError(f"{len(found)} stacks can be made of what was recorded, not {wanted}")
        one = luck.choice(recorded)
        depth = luck.randrange(len(one.frames))
        crossings = through.get(one.frames[depth])
        if not crossings:
            continue
        other, below = luck.choice(crossings)
        frames = one.frames[:depth] + recorded[other].frames[below:]
        if frames not in found:
            found[frames] = Known(frames, rare * luck.random(), recorded[other].states)
    return found.values()


def _states(count: Counts) -> tuple[float, float, float]:
    return count.idle / count.wall, count.running / count.wall, count.gil / count.wall


def version(known: Sequence[Known], number: int, seed: int) -> list[tuple[Stack, Known]]:
    """Apply the edits of a version to stacks; return them heaviest first.

    Version 0 is the recording.
    """
    edits = {file: [] for one in known for frame in one.frames if (file := _file(frame))}
    heavier: dict[str, float] = {}
    extracted: dict[str, str] = {}
    functions = sorted({frame.rpartition(":")[0] for one in known for frame in one.frames if _file(frame)})
    for at in range(1, number + 1):
        luck = random.Random(f"version {seed} {at}")
        for file in sorted(edits):
            if luck.random() < _EDITED_SHARE:
                edits[file] += [(luck.randrange(1, 400), luck.choice((-3, -1, 1, 2, 7))) for _ in range(3)]
        edited = [function for function in functions if edits[function.rpartition(" (")[2]]]
        for function in luck.sample(edited, round(len(edited) * _SPLIT_SHARE)):
            name, _, file = function.rpartition(" (")
            extracted[function] = f"{name}_part_{at} ({file}:{luck.randrange(400, 600)})"
        heavier = dict.fromkeys(luck.sample(edited, min(_HEAVIER, len(edited))), _FACTOR)
    made: dict[Stack, Known] = {}
    for one in known:
        frames: list[str] = []
        factor = 1.0
        for frame in one.frames:
            function = frame.rpartition(":")[0]
            frames.append(_moved(frame, edits))
            if function in extracted:
                frames.append(extracted[function])
            factor = max(factor, heavier.get(function, 1.0))
        made.setdefault(join_frames(frames), Known(tuple(frames), one.weight * factor, one.states))
    return sorted(made.items(), key=lambda each: (-each[1].weight, each[0]))


def _file(frame: str) -> str:
    match = _PLACE.fullmatch(frame)
    return match[2] if match else ""


def _moved(frame: str, edits: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Move a frame's line by the edits above it."""
    match = _PLACE.fullmatch(frame)
    if match is None or not edits.get(match[2]):
        return frame
    line = int(match[3])
    line += sum(by for above, by in edits[match[2]] if above < line)
    return f"{match[1]} ({match[2]}:{max(line, 1)})"
