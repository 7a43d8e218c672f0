"""What a frame means to the rules of each framework.

Sets of rules are numbers: bit N stands for rule N of `FRAMEWORK_RULES`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from sidelight_model.endpoints.framework_rules import FRAMEWORK_RULES
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.packages import CodeOwner, find_code_owner

_WRAPPER: Final = re.compile(
    r"(?:.*_)?(?:wrapper|wrapped|wraps|inner|decorated|decorator)(?:_.*)?|dispatch(?:_request)?"
)
"""Names that decorators give the function that they return, and methods that choose another."""
_STDLIB_WRAPPER: Final = "contextlib.py"
"""Context managers that are used as decorators."""


class FrameRole(NamedTuple):
    """The role of a frame.

    text: the frame as people read it, without a line. calls, passes, handles, stops: the rules to which it
    is a caller, lies between, may be a handler, or is the framework's own and none of these. is_wrapper: a
    decorator or middleware by its name. is_callable_object: its name is `__call__`. is_application: it is
    the service's own.
    """

    text: str
    calls: int
    passes: int
    handles: int
    stops: int
    is_wrapper: bool
    is_callable_object: bool
    is_application: bool


class _PlaceIndex:
    """Places by their file."""

    def __init__(self, places: Iterable[Iterable[str]]) -> None:
        self._by_file: dict[str, list[tuple[int, frozenset[str]]]] = defaultdict(list)
        for rule, texts in enumerate(places):
            for text in texts:
                frame = Frame.parse(text)
                self._by_file[frame.file].append((1 << rule, frozenset(frame.function.split("|"))))

    def find(self, function: str, file: str) -> int:
        """Return the rules that have a place like this."""
        found = 0
        for place in (file, *_list_folders(file)):
            for rule, functions in self._by_file.get(place, ()):
                if "*" in functions or function in functions:
                    found |= rule
        return found


def _list_folders(file: str) -> Iterator[str]:
    """Yield the folders that a file is in, outermost first, each with a final `/`."""
    end = file.find("/")
    while end >= 0:
        yield file[: end + 1]
        end = file.find("/", end + 1)


_CALLERS: Final = _PlaceIndex(rule.callers for rule in FRAMEWORK_RULES)
_PASSES: Final = _PlaceIndex(rule.passes for rule in FRAMEWORK_RULES)
_HANDLERS: Final = _PlaceIndex(rule.handlers for rule in FRAMEWORK_RULES)
_OWN: Final = _PlaceIndex(
    [f"* ({package}{ending})" for package in rule.packages for ending in ("/", ".py", "")]
    for rule in FRAMEWORK_RULES
)
_METHODS: Final = [re.compile(rule.method or ".*", re.DOTALL) for rule in FRAMEWORK_RULES]
_EXCLUDED: Final = [re.compile(rule.excluded or r"\b\B", re.DOTALL) for rule in FRAMEWORK_RULES]


@lru_cache(maxsize=65_536)
def classify_frame(frame: str) -> FrameRole:
    """Find the role of an escaped frame, with or without its line."""
    text = unescape_frame(strip_line_number(frame))
    parsed = Frame.parse(text)
    name, file = parsed.function.rpartition(".")[2], parsed.file.rpartition("-packages/")[2]
    owner = find_code_owner(text)
    callers, passes, own = (index.find(name, file) for index in (_CALLERS, _PASSES, _OWN))
    if file == _STDLIB_WRAPPER:
        passes = (1 << len(FRAMEWORK_RULES)) - 1
    handles = 0
    if owner in (CodeOwner.APPLICATION, CodeOwner.THIRD_PARTY):
        for at, (method, excluded) in enumerate(zip(_METHODS, _EXCLUDED, strict=True)):
            if not own >> at & 1 and method.fullmatch(name) and not excluded.fullmatch(name):
                handles |= 1 << at
        handles |= _HANDLERS.find(name, file)
    stops = own & ~(callers | passes | handles)
    is_callable_object = name == "__call__"
    is_middleware = "middleware" in text.lower()
    return FrameRole(
        text, callers, passes, handles, stops,
        is_wrapper=is_callable_object or is_middleware or _WRAPPER.fullmatch(name) is not None,
        is_callable_object=is_callable_object,
        is_application=owner is CodeOwner.APPLICATION,
    )  # fmt: skip
