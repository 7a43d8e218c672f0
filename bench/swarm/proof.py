"""A check that every acknowledged window is stored exactly once and unchanged.

The store must not have windows that were never sent. The check reads the store as queries do: manifests and
listings define its contents, and a window in two places counts in the first. Counts are compared stack by
stack, and the hash of each stack's frames must be its stored hash.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bench.swarm.sidecars import Body, Shipped
from sidelight_collector.arrow_ops import combine_chunks, dictionary_encode, sort_table
from sidelight_collector.stack_hashing import hash_stack
from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import read_segment
from sidelight_model.counts import STATES

_LAST_NS: Final = 2**63 - 1
_COLUMNS: Final = ("h", *STATES)


@dataclass(slots=True)
class Proof:
    """The result of the check; `wrong` has every difference from the sent windows.

    `unanswered` counts stored windows without an acknowledgement, `repeated` windows in two places.
    """

    acknowledged: int = 0
    stored: int = 0
    unanswered: int = 0
    repeated: int = 0
    objects: int = 0
    bytes: int = 0
    samples: int = 0
    wrong: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, shipped: Iterable[Shipped], bodies: Sequence[Body]) -> None:
        self.proof = Proof()
        self.sent = {each.id: each for each in shipped}
        self.found: set[str] = set()
        self.needed: dict[str, set[int]] = defaultdict(set)
        self.named: dict[str, set[int]] = defaultdict(set)
        self._bodies = {body.number: body for body in bodies}

    def windows(self, profiles: pa.Table, samples: pa.Table) -> None:
        """Check that the windows of one object are those that were sent."""
        wrong, places = self.proof.wrong, _places(samples)
        columns = [combine_chunks(samples[name]) for name in _COLUMNS]
        for row in profiles.select(["wid", "service", "ts", "digest", *_COLUMNS[1:]]).to_pylist():
            window_id = row["wid"]
            first, length = places.pop(window_id, (0, 0))
            parts = [column.slice(first, length) for column in columns]
            states = [pc.sum(part).as_py() or 0 for part in parts[1:]]
            sent = self.sent.get(window_id)
            if sent is None:
                wrong.append(f"{window_id} was never sent")
                continue
            if (row["service"], row["ts"], row["digest"]) != (sent.service, sent.start_ns, sent.digest):
                wrong.append(f"{window_id} has another digest, service or start than it was sent with")
            if b"".join(map(_bytes, parts)) != self._bodies[sent.body].columns:
                wrong.append(f"{window_id} has other samples than it was sent with")
            if [row[name] for name in _COLUMNS[1:]] != states:
                wrong.append(f"{window_id} has other totals than samples")
            if window_id in self.found:
                self.proof.repeated += 1
                continue
            self.found.add(window_id)
            self.proof.samples += sum(states)
            self.needed[sent.service].update(parts[0].to_pylist())
        wrong += [f"{window_id} has samples and is no window" for window_id in places]

    def stacks(self, stacks: pa.Table) -> None:
        """Check that the frames of one object's stacks match their hashes."""
        hashes, services = stacks["h"].to_pylist(), stacks["service"].to_pylist()
        fresh = [at for at, h in enumerate(hashes) if h not in self.named[services[at]]]
        frames = combine_chunks(stacks["frames"]).take(pa.array(fresh, pa.int64())).to_pylist()
        for at, names in zip(fresh, frames, strict=True):
            self.named[services[at]].add(hashes[at])
            if hash_stack(";".join(names)) != hashes[at]:
                self.proof.wrong.append(f"stack {hashes[at]:016x} of {services[at]} has other frames")


def prove(store: ObjectStore, shipped: Iterable[Shipped], bodies: Sequence[Body]) -> Proof:
    """Compare what a store holds with what was shipped."""
    reader = _Reader(shipped, bodies)
    proof = reader.proof
    sizes = Counter[str]()
    for entry in store.list("v1/"):
        sizes[entry.key[: entry.key.rfind("/") + 1]] += entry.size
    for ref in list_live_objects(store, 0, _LAST_NS).refs:
        proof.objects += 1
        proof.bytes += sizes[ref.key_prefix]
        # A digest needs the stacks in the order of their hashes; blocks have frequent ones first.
        samples = sort_table(read_segment(store, ref, "samples"), ["wid", "h"])
        reader.windows(read_segment(store, ref, "profiles"), samples)
        reader.stacks(read_segment(store, ref, "stacks"))
    for service, hashes in reader.needed.items():
        if missing := len(hashes - reader.named[service]):
            proof.wrong.append(f"{missing} stacks of {service} have no frames")
    for sent in reader.sent.values():
        stored = sent.id in reader.found
        proof.acknowledged += sent.acknowledged is not None
        proof.unanswered += stored and sent.acknowledged is None
        if sent.acknowledged is not None and not stored:
            proof.wrong.append(f"{sent.id} was acknowledged and is not stored")
    proof.stored = len(reader.found)
    return proof


def _places(samples: pa.Table) -> dict[str, tuple[int, int]]:
    """Return the first row of each window's samples, and the number of rows."""
    wids = dictionary_encode(samples["wid"])
    rows = pa.table({"wid": wids.indices, "row": pa.array(range(len(samples)), pa.int64())})
    spans = rows.group_by("wid").aggregate([("row", "min"), ("row", "max")])
    ends = zip(
        spans["wid"].to_pylist(), spans["row_min"].to_pylist(), spans["row_max"].to_pylist(), strict=True
    )
    return {wids.dictionary[at].as_py(): (first, last + 1 - first) for at, first, last in ends}


def _bytes(column: Any) -> bytes:
    """Return the bytes of a column without nulls, 8 bytes per value."""
    return memoryview(column.buffers()[1])[8 * column.offset : 8 * (column.offset + len(column))].tobytes()
