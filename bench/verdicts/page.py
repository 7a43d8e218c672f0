"""Tables as text, and where they go in a page."""

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


def share(part: float) -> str:
    """A part as a percentage; a change that would have to be tenfold is none that can be seen."""
    return f"{100 * part:.1f} %" if part < 10 else "none"


def write(page: Path, command: str, tables: Sequence[Table]) -> None:
    """Put the tables between the markers of the page, with the command that makes them."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    body = "\n".join([f"{BEGIN}\n`{command}` wrote these tables.\n", *(table.text() for table in tables)])
    page.write_text(f"{before}{body}\n{END}{after}")


BEGIN = "<!-- begin: bench.verdicts -->"
END = "<!-- end: bench.verdicts -->"
