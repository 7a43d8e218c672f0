"""Names as a screen shows them: nothing in them acts, and how wide they are is known.

Function and file names come from whatever program is watched, so they may hold a terminal's control
sequences, marks that turn the order of letters round, or letters that XML forbids. `escape_unprintable`
writes those as Python would in a string (`\\x1b`, `\\u202e`) and leaves everything else as it is. Widths
are in cells, the unit of terminals and of monospaced fonts: two for East Asian wide letters (Unicode
Standard Annex 11), none for marks that combine with the letter before them.
"""

from __future__ import annotations

from unicodedata import combining, east_asian_width

ELLIPSIS = "…"
_JOINERS = "\u200c\u200d"


def escape_unprintable(text: str) -> str:
    """The text with every character that is not shown as itself written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in _JOINERS
        else letter.encode("unicode_escape", "surrogatepass").decode("ascii")
        for letter in text
    )


def measure_width(text: str) -> int:
    """How many cells a visible text takes."""
    return len(text) if text.isascii() else sum(map(_measure_letter, text))


def truncate_to_width(text: str, cells: int) -> str:
    """As much of a visible text as fits, ending in `…` where something is missing."""
    if measure_width(text) <= cells:
        return text
    if cells < 1:
        return ""
    if text.isascii():
        return text[: cells - 1] + ELLIPSIS
    kept, used = 0, 0
    for letter in text:
        used += _measure_letter(letter)
        if used > cells - 1:
            break
        kept += 1
    return text[:kept] + ELLIPSIS


def fit_to_width(text: str, cells: int) -> str:
    """The text cut or filled up with spaces to exactly this many cells."""
    short = truncate_to_width(text, cells)
    return short + " " * (cells - measure_width(short))


def _measure_letter(letter: str) -> int:
    if combining(letter) or letter in _JOINERS:
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1
