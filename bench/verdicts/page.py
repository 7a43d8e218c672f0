"""Tables as text, and their place in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def format_share(part: float) -> str:
    """Format a share as a percentage, or as `none` from tenfold on.

    A change that large is not detectable in practice.
    """
    return "" if part != part else f"{100 * part:.1f} %" if part < 10 else "none"


def write(page: Path, command: str, tables: Sequence[Table]) -> None:
    """Write the tables, and the command that made them, between the page's markers."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    body = "\n".join([f"{BEGIN}\n`{command}` wrote these tables.\n", *(table.text() for table in tables)])
    page.write_text(f"{before}{body}\n{END}{after}")


BEGIN = "<!-- begin: bench.verdicts -->"
END = "<!-- end: bench.verdicts -->"
