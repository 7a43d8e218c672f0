"""Changes of inputs: of bytes, by tokens of a format, and of values inside JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

MAX_CHANGES: Final = 4
MAX_REPEATS: Final = 300
INTEGERS: Final = (
    0,
    1,
    -1,
    2,
    127,
    255,
    256,
    65535,
    2**31 - 1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
)
VALUES: Final[tuple[Any, ...]] = (
    *INTEGERS,
    *(None, True, False, "", "a", "0", "é\u2028", "\x00\n\r\t", "\U0001f600" * 3, "x" * 300, "../..", "%"),
    *(0.5, -1e308, 1e308, [], {}, [[]], [{}], {"": ""}, [None] * 3, list(range(20))),
)
BYTES: Final = (
    b"\x00",
    b"\xff",
    b"\n",
    b"\r\n",
    b" ",
    b";",
    b'"',
    b"\\",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"0" * 30,
)


def mutate(
    data: bytes, random: Random, tokens: Sequence[bytes], others: Sequence[bytes], max_bytes: int
) -> bytes:
    """Change an input a few times; `others` are inputs to take pieces from."""
    for _ in range(random.randint(1, MAX_CHANGES)):
        change = random.choice(_CHANGES)
        data = change(data, random, tokens, others)[:max_bytes]
    return data


def _flip(data: bytes, random: Random, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, random: Random, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.randbytes(random.randint(1, 4)) + data[at + random.randint(0, 4) :]


def _delete(data: bytes, random: Random, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + data[at + random.randint(1, max(1, len(data) // 4)) :]


def _repeat(data: bytes, random: Random, _: Sequence[bytes], __: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    piece = data[at : at + random.randint(1, 32)]
    return data[:at] + piece * random.choice((2, 3, random.randint(2, MAX_REPEATS))) + data[at:]


def _insert(data: bytes, random: Random, tokens: Sequence[bytes], _: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    pieces = (*tokens, *BYTES, str(random.choice(INTEGERS)).encode())
    return data[:at] + random.choice(pieces) + data[at + random.choice((0, 0, 1, 8)) :]


def _splice(data: bytes, random: Random, _: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else b""
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def change_json(data: bytes, random: Random, _: Sequence[bytes] = (), __: Sequence[bytes] = ()) -> bytes:
    """Replace, remove or repeat a value of the JSON that begins at the first brace of a line."""
    lines = data.split(b"\n")
    at = random.choice([number for number, line in enumerate(lines) if b"{" in line] or [0])
    start = max(0, lines[at].find(b"{"))
    try:
        value = json.loads(lines[at][start:])
    except (ValueError, RecursionError):
        return data
    text = json.dumps(_change_value(value, random), ensure_ascii=random.random() < 0.5)
    lines[at] = lines[at][:start] + text.encode(errors="replace")
    return b"\n".join(lines)


def _change_value(value: Any, random: Random) -> Any:
    """Return JSON with one value changed, anywhere inside."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        kind = random.random()
        if kind < 0.1:
            return {other: one for other, one in value.items() if other != name}
        if kind < 0.15:
            return {**value, random.choice(("", "x", "__class__", name.upper(), "n" * 300)): value[name]}
        return {**value, name: _change_value(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            return [*value[:at], *value[at:] * random.choice((0, 2, 5)), *value[:at]]
        return [*value[:at], _change_value(value[at], random), *value[at + 1 :]]
    if isinstance(value, int) and random.random() < 0.3:
        return value + random.choice((-1, 1, 1000, -1000))
    if isinstance(value, str) and random.random() < 0.3:
        return value + random.choice(("x", "\n", "é", "0", '"', "=" * 300))
    return random.choice(VALUES)


_CHANGES: Final = (
    _flip,
    _overwrite,
    _delete,
    _repeat,
    _insert,
    _insert,
    _splice,
    change_json,
    change_json,
    change_json,
)
