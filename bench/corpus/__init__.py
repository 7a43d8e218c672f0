"""Windows of a service as sidecars would send them, in any number and from a seed.

The stacks come from recordings of real programs (`stacks`). Their frequencies follow Zipf's law, in the
order of the recording: few stacks are hot, and most are rare. The exponent is chosen so that a window has
the requested number of different stacks. Every sample of a window is drawn independently, so windows differ
as real ones do.

Each slot (a replica) has one pod at any time. Pods are replaced about once a day, and one after another
when a version is rolled out. Each pod has its own phase within the minute.

A window is generated as columns (`HashedWindow`) with everything that the store needs; `Corpus.window`
converts it to a window with stacks, for the wire.
"""

from __future__ import annotations

import argparse
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from ulid import ULID

from bench.corpus.stacks import service, version
from sidelight_collector.stack_hashing import FIRST_STATES, HashedWindow, hash_stack, pack_stacks
from sidelight_model.counts import STATES, Counts
from sidelight_model.folded import Stack
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window, encode_windows

START_NS: Final = 1_795_219_200 * 10**9
"""2026-11-21T00:00:00Z."""
SECOND_NS: Final = 10**9
PERIOD_NS: Final = 10_000_000
_DRAWS_AT_ONCE: Final = 1 << 21
_POD_SECONDS: Final = 40_000, 160_000
_ROLLOUT_SECONDS: Final = 90


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a corpus.

    `stacks` is the mean number of stacks per window, `distinct` the number per version. The `versions`
    follow each other in equal parts of `days`. Each of `pods` replicas has `processes` processes, and each
    process ships one window after another.
    """

    pods: int = 4
    processes: int = 1
    days: float = 7
    window_seconds: int = 60
    versions: int = 2
    stacks: int = 370
    distinct: int = 20_000
    seed: int = 1
    start_ns: int = START_NS

    @property
    def samples(self) -> int:
        """The number of samples in a window: 100 per second."""
        return self.window_seconds * SECOND_NS // PERIOD_NS

    @property
    def turns(self) -> int:
        """The number of windows that each process ships."""
        return round(self.days * 86_400) // self.window_seconds

    @property
    def windows(self) -> int:
        return self.turns * self.pods * self.processes


def shape_arguments(arguments: argparse.ArgumentParser, **defaults: float) -> None:
    """Add an option for each field of a shape."""
    for field in fields(Shape):
        if field.name != "start_ns":
            default = defaults.get(field.name, field.default)
            name = f"--{field.name.replace('_', '-')}"
            arguments.add_argument(name, type=float if field.name == "days" else int, default=default)


def shape_of(given: argparse.Namespace) -> Shape:
    """Build the shape from the parsed options."""
    return Shape(
        **{field.name: getattr(given, field.name) for field in fields(Shape) if hasattr(given, field.name)}
    )


class _Version:
    """The population from which the windows of one version are drawn.

    It has the stacks in the order of their hashes, and a mapping from random draws to stacks and states.
    """

    def __init__(self, known: Sequence[tuple[Stack, Any]], shape: Shape) -> None:
        weights = zipf(len(known), shape.stacks, shape.samples)
        by_hash = sorted(range(len(known)), key=lambda rank: hash_stack(known[rank][0]))
        self.stacks = [known[rank][0] for rank in by_hash]
        self.hashes = pa.array([hash_stack(stack) for stack in self.stacks], pa.uint64())
        place = {rank: at for at, rank in enumerate(by_hash)}
        items = [
            (weight * share, place[rank], state)
            for rank, weight in enumerate(weights)
            for state, share in enumerate(known[rank][1].states)
            if share
        ]
        total = sum(item[0] for item in items)
        ends = [min(round(end / total * 2**32), 2**32 - 1) for end in accumulate(item[0] for item in items)]
        self.starts = pa.array([0, *ends[:-1]], pa.uint32())
        self.stack_of = pa.array([item[1] for item in items], pa.int64())
        self.state_of = pa.array([item[2] for item in items], pa.int8())


def zipf(distinct: int, stacks: int, samples: int) -> list[float]:
    """Compute Zipf weights of `distinct` stacks.

    The exponent is such that `samples` samples show about `stacks` different stacks.
    """

    def weights(exponent: float) -> list[float]:
        each = [rank**-exponent for rank in range(1, distinct + 1)]
        total = sum(each)
        return [one / total for one in each]

    low, high = 0.0, 6.0
    for _ in range(30):
        middle = (low + high) / 2
        shown = sum(1 - (1 - one) ** samples for one in weights(middle))
        low, high = (middle, high) if shown > stacks else (low, middle)
    return weights(high)


@dataclass(frozen=True, slots=True)
class _Process:
    """A process of a slot, and the phase within the minute at which its windows begin."""

    slot: int
    number: int
    phase_ns: int


class Corpus:
    """Windows of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        known = service(shape.distinct, shape.seed)
        self._versions = [_Version(version(known, at, shape.seed), shape) for at in range(shape.versions)]
        luck = random.Random(f"pods {shape.seed}")
        self._processes = [
            _Process(slot, number, luck.randrange(shape.window_seconds * SECOND_NS))
            for slot in range(shape.pods)
            for number in range(shape.processes)
        ]
        self._ends = [self._replaced(luck) for _ in range(shape.pods)]

    def batches(self) -> Iterator[Sequence[HashedWindow]]:
        """Yield all windows in time order, a few hundred at a time."""
        shape = self.shape
        turns = max(1, _DRAWS_AT_ONCE // (shape.samples * len(self._processes)))
        for first in range(0, shape.turns, turns):
            luck = random.Random(f"windows {shape.seed} {first}")
            plain = [
                self._head(process, turn, luck)
                for turn in range(first, min(first + turns, shape.turns))
                for process in sorted(self._processes, key=lambda one: one.phase_ns)
            ]
            drawn: list[HashedWindow | None] = [None] * len(plain)
            for at in range(shape.versions):
                own = [number for number, (which, _) in enumerate(plain) if which == at]
                rows = self._drawn(self._versions[at], [plain[number][1] for number in own], luck)
                for number, row in zip(own, rows, strict=True):
                    drawn[number] = row
            yield [row for row in drawn if row is not None]

    def windows(self) -> Iterator[HashedWindow]:
        """Yield all windows in time order."""
        for batch in self.batches():
            yield from batch

    def window(self, row: HashedWindow) -> Window:
        """Convert to a window with its stacks, as it is sent over the wire."""
        counts = map(Counts, *row.counts)
        return replace(row.window, counts=dict(zip(row.stacks, counts, strict=True)))

    def _replaced(self, luck: random.Random) -> list[int]:
        """Draw the times at which the pods of a slot are replaced, in seconds."""
        ends: list[int] = [luck.randrange(*_POD_SECONDS)]
        while ends[-1] < self.shape.days * 86_400:
            ends.append(ends[-1] + luck.randrange(*_POD_SECONDS))
        return ends

    def _head(self, process: _Process, turn: int, luck: random.Random) -> tuple[int, Window]:
        """Build a window without stacks; return it with the index of its version."""
        shape = self.shape
        seconds = turn * shape.window_seconds
        each = shape.days * 86_400 / shape.versions
        late = process.slot * min(_ROLLOUT_SECONDS, each / (2 * shape.pods))
        at = min(max(int((seconds - late) // each), 0), shape.versions - 1)
        start_ns = shape.start_ns + seconds * SECOND_NS + process.phase_ns
        life = sum(end <= seconds for end in self._ends[process.slot])
        name = xxhash.xxh3_64_hexdigest(f"{shape.seed} {process.slot} {at} {life}".encode())[:5]
        labels = {"service": "shop", "version": f"2026.11.{at + 1}", "pod": f"shop-{at + 1}-{name}"}
        labels |= {"namespace": "store", "node": f"node-{(process.slot + life) % 3}"}
        labels |= {
            "container": "web",
            "process": "main" if shape.processes == 1 else f"worker-{process.number}",
        }
        window_id = str(ULID.from_bytes((start_ns // 10**6).to_bytes(6, "big") + luck.randbytes(10)))
        return at, Window(
            window_id,
            Labels(dict(sorted(labels.items()))),
            start_ns,
            shape.window_seconds * SECOND_NS,
            PERIOD_NS,
            {},
            Quality(
                attempts=shape.samples,
                samples=shape.samples,
                late_ns=luck.randrange(10**8),
                nominal_ns=shape.window_seconds * SECOND_NS,
                mode="gil",
                sampler="sidelight",
                python="3.11.7",
                threads=1,
                sampler_cpu_ns=luck.randrange(10**8, 2 * 10**8),
                pid=100 + process.number,
                stops=luck.randrange(500),
                stopped_ns=luck.randrange(10**7),
                longest_stop_ns=luck.randrange(10**5),
                reader="own",
            ),
        )

    def _drawn(
        self, among: _Version, windows: Sequence[Window], luck: random.Random
    ) -> Iterator[HashedWindow]:
        """Draw the stacks of windows of one version."""
        if not windows:
            return
        samples, distinct = self.shape.samples, len(among.stacks)
        many = samples * len(windows)
        draws = pa.Array.from_buffers(pa.uint32(), many, [None, pa.py_buffer(luck.randbytes(4 * many))])
        item = pc.subtract(
            pc.call_function("search_sorted", [among.starts, draws], _RIGHT).cast(pa.int64()), 1
        )
        numbers = array("q")
        for number in range(len(windows)):
            numbers.extend(array("q", [number]) * samples)
        window = pa.Array.from_buffers(pa.int64(), many, [None, pa.py_buffer(numbers)])
        counted = pc.value_counts(pc.add(pc.multiply(window, len(among.stack_of)), item))
        found, count = counted.field(0), counted.field(1)
        window = pc.divide(found, len(among.stack_of))
        item = pc.subtract(found, pc.multiply(window, len(among.stack_of)))
        state = among.state_of.take(item)
        rows = pa.table(
            {
                "at": pc.add(pc.multiply(window, distinct), among.stack_of.take(item)),
                **{str(one): pc.if_else(pc.equal(state, one), count, 0) for one in range(3)},
            }
        )
        rows = (
            rows.group_by("at")
            .aggregate([(str(one), "sum") for one in range(3)])
            .sort_by("at")
            .combine_chunks()
        )
        window = pc.divide(rows["at"], distinct)
        stack = pc.subtract(rows["at"], pc.multiply(window, distinct)).combine_chunks()
        columns = [
            _bytes(among.hashes.take(stack)),
            *(_bytes(rows[f"{one}_sum"].combine_chunks()) for one in range(3)),
        ]
        lengths = dict(zip(*(part.to_pylist() for part in pc.value_counts(window).flatten()), strict=True))
        stacks, start = stack.to_pylist(), 0
        for number, head in enumerate(windows):
            end = start + lengths[number]
            h, idle, running, gil = (
                array(kind, column[8 * start : 8 * end]) for kind, column in zip("Qqqq", columns, strict=True)
            )
            none = array("q", bytes(8 * len(h)))
            counts = (idle, running, gil, *[none] * (len(STATES) - len(FIRST_STATES)))
            cpu_ns = (sum(running) + sum(gil)) * PERIOD_NS
            head = replace(head, quality=replace(head.quality, target_cpu_ns=cpu_ns))
            digest = xxhash.xxh3_64(encode_windows([head]))
            for column in (h, idle, running, gil):
                digest.update(column)
            packed = pack_stacks(among.stacks[at] for at in stacks[start:end])
            yield HashedWindow(head, digest.intdigest(), h, counts, packed)
            start = end


_RIGHT: Final = pc.SearchSortedOptions(side="right")


def _bytes(column: pa.Array) -> bytes:
    """Return the bytes of a column without nulls, 8 bytes per value."""
    size = 8 * len(column)
    start = 8 * column.offset
    buffer: Mapping[int, Any] = column.buffers()
    return buffer[1][start : start + size].to_pybytes()
