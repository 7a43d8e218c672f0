"""Find the endpoint of a stack: the outermost handler that a framework calls.

The search goes from a caller of handlers towards the leaf. It goes past the framework's frames that lie
between, and past decorators and middlewares, which are known by their names. The next frame is the handler,
unless it belongs to the framework. Then the search goes on at the next caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from sidelight_model.endpoints.frame_roles import FrameRole, classify_frame
from sidelight_model.endpoints.framework_rules import FRAMEWORK_RULES

NO_ENDPOINT: Final = "(no endpoint)"
"""Stands for stacks without a handler."""


class Endpoint(NamedTuple):
    """A handler as `function (file)`, and the framework that calls it."""

    framework: str
    name: str


def find_endpoint(frames: Sequence[str]) -> Endpoint | None:
    """Find the endpoint of a stack of escaped frames, root first; None if it has none."""
    roles = [classify_frame(frame) for frame in frames]
    callers = [at for at, role in enumerate(roles) if role.calls]
    return search_roles(callers, len(roles), roles.__getitem__)


def search_roles(callers: Iterable[int], depth: int, get_role: Callable[[int], FrameRole]) -> Endpoint | None:
    """Find the endpoint of a stack by the roles of its frames.

    callers: positions of the frames that call handlers, root first. get_role: the role at a position.
    """
    for caller in callers:
        calls = get_role(caller).calls
        while calls:
            rule = calls & -calls
            calls ^= rule
            handler = _find_handler(caller, depth, get_role, rule)
            if handler is not None:
                return Endpoint(FRAMEWORK_RULES[rule.bit_length() - 1].framework, handler.text)
    return None


def _find_handler(
    caller: int, depth: int, get_role: Callable[[int], FrameRole], rule: int
) -> FrameRole | None:
    is_asgi = FRAMEWORK_RULES[rule.bit_length() - 1].is_asgi
    is_guess = needs_framework = False
    for at in range(caller + 1, depth):
        role = get_role(at)
        if (role.calls | role.passes) & rule:
            needs_framework = False
        elif role.is_wrapper and not role.stops & rule:
            is_guess, needs_framework = True, needs_framework or (is_asgi and role.is_callable_object)
        elif role.handles & rule and not needs_framework and (role.is_application or not is_guess):
            return role
        else:
            return None
    return None
