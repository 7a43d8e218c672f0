"""Safe names for a terminal, and their width.

Function and file names come from any profiled program. They may contain terminal control sequences, marks
that reverse the order of letters, or characters that XML forbids. `escape_unprintable` writes those as
Python string escapes (`\\x1b`, `\\u202e`) and leaves everything else as it is. Widths are in cells, the
unit of terminals and monospaced fonts: two for East Asian wide letters (Unicode Standard Annex 11), zero
for marks that combine with the letter before them.
"""

from __future__ import annotations

import json
import re
from unicodedata import combining, east_asian_width

ELLIPSIS = "…"
_JOINERS = "\u200c\u200d"
_LAYOUT = re.compile(r"([\n\t])")


def escape_unprintable(text: str) -> str:
    """Replace every character that does not print as itself by an escape."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in _JOINERS
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in text
    )


def escape_lines(text: str) -> str:
    """Escape a text as `escape_unprintable` does, but leave line ends and tabs."""
    if all(map(str.isprintable, text.split("\n"))):
        return text
    return "".join(part if part in "\n\t" else escape_unprintable(part) for part in _LAYOUT.split(text))


def escape_json(document: str) -> str:
    """Replace unprintable characters of a JSON document by JSON's escapes."""
    if document.isprintable():
        return document
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS + "\n\r\t" else json.dumps(letter)[1:-1]
        for letter in document
    )


def measure_width(text: str) -> int:
    """Return the width of a printable text in cells."""
    return len(text) if text.isascii() else sum(map(_measure_letter, text))


def truncate_to_width(text: str, cells: int) -> str:
    """Shorten a printable text to at most `cells` cells; a cut text ends in `…`."""
    if measure_width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if text.isascii():
        return text[: cells - 1] + ELLIPSIS
    length, used = 0, 0
    for letter in text:
        used += _measure_letter(letter)
        if used > cells - 1:
            break
        length += 1
    return text[:length] + ELLIPSIS


def fit_to_width(text: str, cells: int) -> str:
    """Shorten a text or pad it with spaces to exactly `cells` cells."""
    short = truncate_to_width(text, cells)
    return short + " " * (cells - measure_width(short))


def _measure_letter(letter: str) -> int:
    if combining(letter) or letter in _JOINERS:
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1
