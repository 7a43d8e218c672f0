"""How trees are looked at, done the slow and plain way: stack by stack.

`golden/lenses.json` holds stacks, ways to look at them, and the trees that come out. This module writes it
(`python -m tests.model.lenses`). `test_lenses.py` holds the file to this and to `sidelight_model`, and
`web/test` holds the pages' own operations to it, so that a picture there adds up as the collector does.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from sidelight_model.aggregate import rank_functions
from sidelight_model.frames import Frame, strip_line_number
from sidelight_model.tree import StackRow, build_tree_from_rows, compute_totals

GOLDEN = Path(__file__).parent / "golden" / "lenses.json"

Stack = tuple[str, ...]
Weighed = tuple[Stack, Sequence[int]]
"""A stack and its samples on each side; a sample stands for 1000 ns here."""

FRAMES = (
    "main (app.py)",
    "handle (shop/views.py)",
    "cart (shop/cart.py)",
    "total (shop/cart.py)",
    "dumps (json/__init__.py)",
    "encode (json/encoder.py)",
    "read (libc.so.6)",
    "(other)",
    "a*b:c (x*/y.py)",
)


def package(frame: str) -> str:
    """The top-level package of a frame's file, empty without one."""
    return re.sub(r"\.(py|pyx|so)$|>$", "", Frame.parse(frame).file.lstrip("/<").split("/", 1)[0])


def matcher(subject: str, name: str) -> Callable[[str], bool]:
    if subject == "file":
        return lambda frame: Frame.parse(frame).file == name
    if subject == "package":
        return lambda frame: package(frame) == name
    return lambda frame: name in (frame, strip_line_number(frame))


def transformed(stack: Stack, verb: str, subject: str, name: str) -> Stack | None:
    """A stack after one transform, None if it is left out."""
    is_meant = matcher(subject, name)
    at = next((at for at, frame in enumerate(stack) if is_meant(frame)), None)
    if verb == "focus":
        return None if at is None else stack[at:]
    if verb == "with":
        return None if at is None else stack
    if verb == "drop":
        return stack if at is None else None
    if verb == "fold":
        return tuple(frame for frame in stack if not is_meant(frame))
    if verb == "below":
        return stack if at is None else stack[: at + 1]
    if verb == "collapse":
        last = max((here for here, frame in enumerate(stack) if is_meant(frame)), default=0)
        return stack if at is None else stack[: at + 1] + stack[last + 1 :]
    assert verb == "one"
    runs = groupby(stack, is_meant)
    return tuple(frame for meant, run in runs for frame in ([f"{name} ({name})"] if meant else run))


def merged(stack: Stack, by: str) -> Stack:
    owner = {"file": lambda frame: Frame.parse(frame).file, "package": package}[by]
    return without_repeats(tuple(owner(frame) or strip_line_number(frame) for frame in stack))


def without_repeats(stack: Stack) -> Stack:
    return tuple(frame for frame, _ in groupby(stack))


def without_cycles(stack: Stack) -> Stack:
    """The frames of a stack, less each repetition of the frames before it, of up to 32."""
    frames: list[str] = []
    for frame in stack:
        frames.append(frame)
        for length in range(1, min(32, len(frames) // 2) + 1):
            if frames[-length:] == frames[-2 * length : -length]:
                del frames[-length:]
                break
    return tuple(frames)


def callers(stack: Stack, fn: str) -> Stack | None:
    return stack[: stack.index(fn) + 1][::-1] if fn in stack else None


def callees(stack: Stack, fn: str) -> Stack | None:
    return stack[stack.index(fn) :] if fn in stack else None


def changed(stacks: Iterable[Weighed], change: Callable[[Stack], Stack | None]) -> list[Weighed]:
    found = ((change(stack), samples) for stack, samples in stacks)
    return [(stack, samples) for stack, samples in found if stack is not None]


def sides_of(stacks: Sequence[Weighed], sides: int) -> list[list[StackRow]]:
    return [
        [(stack, samples[side], samples[side] * 1000) for stack, samples in stacks] for side in range(sides)
    ]


def tree(stacks: Sequence[Weighed], sides: int) -> list[list[Any]]:
    """Nodes in pre-order: level, name, samples of its own by side, samples with callees by side."""
    made = build_tree_from_rows(sides_of(stacks, sides))
    sums = [compute_totals(made, side) for side in range(sides)]
    return [
        [
            made.level[node],
            made.names[made.name_index[node]],
            [made.self_samples[side][node] for side in range(sides)],
            [sums[side][node] for side in range(sides)],
        ]
        for node in range(len(made))
    ]


def functions(stacks: Sequence[Weighed], sides: int) -> list[list[Any]]:
    """Name, self and total by side, by name: `sidelight_model.aggregate` on the same stacks."""
    found = rank_functions([[row for row in rows if row[0]] for rows in sides_of(stacks, sides)])
    return sorted(
        [name, [one.self_samples for one in cost], [one.total_samples for one in cost]]
        for name, cost in found.items()
    )


def ways(stacks: Sequence[Weighed], sides: int) -> Iterable[dict[str, Any]]:
    """Every way to look at these stacks, with what comes of it."""
    whole = [sum(samples[side] for _, samples in stacks) for side in range(sides)]
    frames = sorted({frame for stack, _ in stacks for frame in stack})
    chosen = frames[:2] + frames[-1:]
    subjects = [("function", strip_line_number(frame)) for frame in chosen]
    subjects += [("file", file) for file in sorted({Frame.parse(frame).file for frame in frames} - {""})[:2]]
    subjects += [("package", own) for own in sorted(set(map(package, frames)) - {""})[:2]]
    for subject, name in dict.fromkeys(subjects):
        for verb in ("focus", "with", "drop", "fold", "below", "one", "collapse"):
            if (verb == "one") == (subject == "function") or (verb == "collapse" and subject != "function"):
                continue
            found = changed(stacks, lambda stack, v=verb, s=subject, n=name: transformed(stack, v, s, n))
            left = [whole[side] - sum(samples[side] for _, samples in found) for side in range(sides)]
            kind = verb if subject == "function" else f"{verb}-{subject}"
            yield {"transform": [kind, name], "left": left, "tree": tree(found, sides)}
    longest = max(stacks)[0]
    path = longest[: (len(longest) + 1) // 2]
    below = changed(stacks, lambda stack: stack[len(path) - 1 :] if stack[: len(path)] == path else None)
    left = [whole[side] - sum(samples[side] for _, samples in below) for side in range(sides)]
    yield {"path": path, "left": left, "tree": tree(below, sides)}
    for by in ("file", "package"):
        yield {"by": by, "tree": tree(changed(stacks, lambda stack, by=by: merged(stack, by)), sides)}
    yield {"collapse": True, "tree": tree(changed(stacks, without_cycles), sides)}
    yield {"invert": True, "tree": tree(changed(stacks, lambda stack: stack[::-1]), sides)}
    for fn in dict.fromkeys(chosen):
        yield {
            "sandwich": fn,
            "callers": tree(changed(stacks, lambda stack, fn=fn: callers(stack, fn)), sides),
            "callees": tree(changed(stacks, lambda stack, fn=fn: callees(stack, fn)), sides),
        }
    yield {"functions": functions(stacks, sides)}


def profiles() -> Iterable[tuple[str, list[Weighed], int]]:
    """Stacks to look at: the same ones each time."""
    main, handle, cart, total, dumps, encode, read, other, odd = FRAMES
    yield (
        "a shop",
        [
            ((main, handle, cart, total), (6, 2)),
            ((main, handle, cart), (3, 3)),
            ((main, handle, dumps, encode, read), (2, 5)),
            ((main, handle, other), (1, 0)),
            ((main, odd, handle), (0, 4)),
        ],
        2,
    )
    yield (
        "recursion, its own and through others",
        [
            ((main, dumps, dumps, encode, dumps, encode), (4,)),
            ((main, encode, dumps, dumps), (3,)),
            ((dumps, encode), (2,)),
            ((main,), (5,)),
        ],
        1,
    )
    yield ("one frame", [((main,), (1,))], 1)
    yield (
        "lines",
        [
            (("main (app.py:3)", "handle (shop/views.py:10)", "handle (shop/views.py:12)"), (2, 0)),
            (("main (app.py:4)", "handle (shop/views.py:10)"), (1, 3)),
        ],
        2,
    )
    for seed in range(6):
        luck = random.Random(seed)
        frames = luck.sample(FRAMES, luck.randint(2, 5))
        sides = luck.randint(1, 2)
        stacks = [
            (tuple(luck.choices(frames, k=luck.randint(1, 7))), tuple(luck.choices(range(4), k=sides)))
            for _ in range(luck.randint(1, 8))
        ]
        stacks = [(stack, samples) for stack, samples in stacks if any(samples)]
        yield f"luck {seed}", [*stacks, ((frames[0],), (1,) * sides)], sides


def golden() -> str:
    found = [
        {"profile": title, "stacks": stacks, "ways": list(ways(stacks, sides))}
        for title, stacks, sides in profiles()
    ]
    # A way a line: a change of one is seen as one.
    parts = []
    for one in found:
        rows = ",\n".join("   " + json.dumps(way) for way in one["ways"])
        head = (
            f'{{"profile": {json.dumps(one["profile"])}, "stacks": {json.dumps(one["stacks"])}, "ways": [\n'
        )
        parts.append(f"  {head}{rows}]}}")
    return "[\n" + ",\n".join(parts) + "\n]\n"


if __name__ == "__main__":
    GOLDEN.write_text(golden())
