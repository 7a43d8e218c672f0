"""A short description of a process for logs and profiles, without its arguments.

Arguments may hold passwords, and logs and profiles are shared.
"""

from __future__ import annotations

import re
from typing import Final

from sidelight_model.errors import mask_urls
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width
from sidelight_sidecar.discovery.processes import Proc

_MAX_CELLS: Final = 80
_OPTIONS_WITH_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_PYTHON: Final = re.compile(r"python[\w.-]*")
_ARGUMENTS: Final = re.compile(r"\s*[\s(]-(?!\s).*|[\s(][\w-]+=.*", re.DOTALL)
"""The arguments in a title: everything from the first option, or from the first `name=value`."""


def describe_process(proc: Proc) -> str:
    """Describe a process by its program and, for Python, its script or module."""
    return truncate_to_width(escape_unprintable(_describe(proc)), _MAX_CELLS)


def _describe(proc: Proc) -> str:
    program, *words = proc.command_line or (proc.executable or "?",)
    name = program.rpartition("/")[2] or program
    if not _PYTHON.fullmatch(name):
        return _describe_title(program)
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            return f"{name} -m {words[0]}"
        if word.startswith("-m") and len(word) > 2:
            return f"{name} -m {word[2:]}"
        if word == "-" or word.startswith("-c"):
            return f"{name} {word[:2]}"
        if word in _OPTIONS_WITH_VALUE and words:
            words.pop(0)
        elif not word.startswith("-"):
            return f"{name} {word.rpartition('/')[2]}"
    return name


def _describe_title(title: str) -> str:
    """Describe a program by its file name, or by the title that a process sets itself.

    Such a title ("gunicorn: worker [shop]") is a single argument. It may repeat the arguments.
    """
    text = mask_urls(_ARGUMENTS.sub("", title))
    path, _, rest = text.partition(" ")
    name = path.rpartition("/")[2] or path
    return f"{name} {rest}" if rest else name
