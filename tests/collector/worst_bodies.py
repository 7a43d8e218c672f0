"""JSON bodies that take the most memory for their size, and a command that measures them.

    python -m tests.collector.worst_bodies          # a table

Each function of SHAPES fills a text of about `size` bytes.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Final

import orjson

from sidelight_collector.json_body import check_memory, estimate_memory
from sidelight_model.errors import LimitExceeded

MIB: Final = 1 << 20


def fill(item: bytes, size: int) -> bytes:
    """A list of equal items."""
    return b"[" + b",".join([item] * max(1, size // (len(item) + 1))) + b"]"


def names(size: int) -> bytes:
    """An object with as many different names as fit."""
    return b"{" + b",".join(b'"%x":1' % number for number in range(size // 10)) + b"}"


SHAPES: Final[dict[str, Callable[[int], bytes]]] = {
    "empty lists": lambda size: fill(b"[]", size),
    "empty objects": lambda size: fill(b"{}", size),
    "lists of one": lambda size: fill(b"[1]", size),
    "objects of one": lambda size: fill(b'{"a":1}', size),
    "objects of six": lambda size: fill(b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}', size),
    "names": names,
    "small numbers": lambda size: fill(b"1", size),
    "large numbers": lambda size: fill(b"1000", size),
    "fractions": lambda size: fill(b"1.5", size),
    "short texts": lambda size: fill(b'"ab"', size),
    "texts beyond ASCII": lambda size: fill('"é…"'.encode(), size),
    "a long text with an emoji": lambda size: b'["' + b"a" * size + "😀".encode() + b'"]',
    "a long text with an escaped emoji": lambda size: b'["' + b"a" * size + b'\\ud83d\\ude00"]',
    "nested lists": lambda size: fill(b"[" * 500 + b"]" * 500, size),
}


def measure(text: bytes, max_memory_bytes: int) -> int:
    """Check and parse a body as the collector does; return the memory of its values, 0 if refused."""
    tracemalloc.start()
    try:
        check_memory(text, max_memory_bytes, "")
        values = orjson.loads(text)
        size = tracemalloc.get_traced_memory()[0]
        del values
        return size
    except LimitExceeded:
        return 0
    finally:
        tracemalloc.stop()


def find_largest(shape: str, max_memory_bytes: int, max_bytes: int) -> int:
    """The largest size of a shape that is accepted, to one part in a hundred."""
    low, high = 1, max_bytes
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        if estimate_memory(SHAPES[shape](middle)) <= max_memory_bytes:
            low = middle
        else:
            high = middle
    return low


def print_table() -> None:
    """Print, for the default limits of a recording, what the largest accepted body of each shape takes."""
    from sidelight_collector.settings.collector import Settings

    settings = Settings()
    limit, text_limit = (
        settings.timeline_recording_max_memory_bytes,
        settings.timeline_recording_max_decompressed_bytes,
    )
    print(
        f"| recording, limit {limit // MIB} MiB | largest text accepted (MiB) | memory of its values (MiB) |"
    )
    print("|---|---|---|")
    for shape in SHAPES:
        size = find_largest(shape, limit, text_limit)
        grown = measure(SHAPES[shape](size), limit)
        print(f"| {shape} | {size / MIB:.1f} | {grown / MIB:.0f} |")


if __name__ == "__main__":
    print_table()
