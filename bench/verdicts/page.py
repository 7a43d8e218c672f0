"""Tables as text, and the file of all of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def text(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join(part for part in (f"## {self.title}", table, self.note) if part) + "\n"


def format_share(part: float) -> str:
    """Format a share as a percentage, or as `none` from tenfold on.

    A change that large is not detectable in practice.
    """
    return "" if part != part else f"{100 * part:.1f} %" if part < 10 else "none"


def describe_run(day: date) -> str:
    """Describe when and on which machine the tables are made."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (
        f"{day}, {os.cpu_count()} CPUs ({names[0] if names else platform.machine()}), "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}."
    )


def write(path: Path, command: str, run: str, tables: Sequence[Table]) -> None:
    """Write the tables, the command that made them, and its run to a Markdown file."""
    head = f"# Tests of comparisons: results\n\n`{command}` wrote this file in one run.\n\n{run}\n"
    path.write_text("\n".join([head, *map(Table.text, tables)]))
