"""The truth of a recorded stack: the services say which of their functions are handlers."""

from __future__ import annotations

from collections.abc import Sequence

from sidelight_model.frames import strip_line_number
from tests.services.endpoints.shops import Shop


def find_handler(frames: Sequence[str], shop: Shop) -> str | None:
    """Return the outermost frame that is a handler of the service, as `endpoints` names it.

    Pythons before 3.11 do not tell qualified names: there the last part of the name counts.
    """
    names = {name: name for name in shop.endpoints}
    names |= {shorten_name(name): name for name in shop.endpoints}
    return next((names[text] for text in map(strip_line_number, frames) if text in names), None)


def is_same_function(name: str, handler: str) -> bool:
    """Whether a frame is a handler, whose name may be qualified."""
    return name in (handler, shorten_name(handler))


def shorten_name(name: str) -> str:
    """Return a frame with the last part of its function's name, as Pythons before 3.11 have it."""
    function, _, file = name.partition(" (")
    return f"{function.rpartition('.')[2]} ({file}"
