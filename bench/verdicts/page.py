"""Tables as text, and the file of all of them."""

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
        return f"## {self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def format_share(part: float) -> str:
    """Format a share as a percentage, or as `none` from tenfold on.

    A change that large is not detectable in practice.
    """
    return "" if part != part else f"{100 * part:.1f} %" if part < 10 else "none"


def write(path: Path, command: str, tables: Sequence[Table]) -> None:
    """Write the tables, and the command that made them, to a Markdown file."""
    path.write_text(
        "\n".join(
            [f"# Tests of comparisons: results\n\n`{command}` wrote this file.\n", *map(Table.text, tables)]
        )
    )
