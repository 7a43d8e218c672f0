"""Writes the chart's README from values.yaml: each value with its default and the comment above it.

`readme.py [FILE]` writes FILE, or the README beside the chart. A value whose parts have comments of their
own is a section; one whose parts have none is a row, with all of it as the default. A value without a comment
ends the run.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

CHART = Path(__file__).resolve().parent / "sidelight"
HEAD = """\
# Sidelight's chart

Which values does the chart have? For operators who install Sidelight.

- [Kubernetes](../../../docs/kubernetes.md): installation, permissions, cost and troubleshooting.
- [rendered/](../rendered): the resources of each mode.

The chart refuses values that are not listed here. Settings of the programs
([collector](../../../docs/collector.md#options), [sidecar](../../../docs/sidecar.md#options),
[agent](../../../docs/settings/agent.md)) go into `collector.settings`, `compactor.settings`,
`sidecar.settings` and `agent.settings`, in snake_case. `make chart` writes this page from
[values.yaml](values.yaml).
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart: where it is, what it is for, and its default, which may have parts of its own."""

    path: str
    comment: str
    default: object
    parts: tuple["Value", ...]

    @property
    def is_section(self) -> bool:
        """Whether its parts are told one by one."""
        return any(part.comment or part.is_section for part in self.parts)


def main(argv: list[str]) -> None:
    target = Path(argv[0]) if argv else CHART / "README.md"
    target.write_text(page(values((CHART / "values.yaml").read_text(encoding="utf-8"))), encoding="utf-8")


def values(text: str) -> tuple[Value, ...]:
    """The values of a values.yaml, in its order."""
    root = cast("yaml.MappingNode", yaml.compose(text, Loader=yaml.SafeLoader))
    return tuple(_parts(root, text.splitlines(), ""))


def _parts(node: yaml.MappingNode, lines: list[str], above: str) -> Iterator[Value]:
    loader = yaml.SafeLoader("")
    for key, value in node.value:
        path = f"{above}.{key.value}" if above else key.value
        parts: tuple[Value, ...] = ()
        if isinstance(value, yaml.MappingNode):
            parts = tuple(_parts(value, lines, path))
        comment = _comment(lines, key.start_mark.line, key.start_mark.column)
        yield Value(path, comment, loader.construct_object(value, deep=True), parts)


def _comment(lines: list[str], line: int, column: int) -> str:
    """The comment lines right above a key, at its depth."""
    found: list[str] = []
    start = f"{' ' * column}# "
    while line > 0 and lines[line - 1].startswith(start):
        line -= 1
        found.insert(0, lines[line].removeprefix(start))
    return " ".join(found)


def page(all_values: tuple[Value, ...]) -> str:
    """The README's text."""
    plain = [value for value in all_values if not value.is_section]
    sections = [value for value in all_values if value.is_section]
    tables = [_table(f"`{value.path}`", value.comment, value.parts) for value in sections]
    return "\n".join([HEAD, _table("General", "", plain), *tables])


def _table(title: str, comment: str, parts: tuple[Value, ...] | list[Value]) -> str:
    lines = [f"## {title}"]
    if comment:
        lines.append(comment)
    lines += ["", "| value | default | |", "|---|---|---|"]
    lines += [_row(value) for part in parts for value in _rows(part)]
    return "\n".join(lines) + "\n"


def _rows(value: Value) -> Iterator[Value]:
    if not value.is_section:
        if not value.comment:
            sys.exit(f"error: values.yaml: {value.path} has no comment\nhint: say above it what it is for")
        yield value
        return
    if value.comment:
        yield Value(value.path, value.comment, ..., ())
    for part in value.parts:
        yield from _rows(part)


def _row(value: Value) -> str:
    default = "" if value.default is ... else f"`{json.dumps(value.default, ensure_ascii=False)}`"
    return f"| `{value.path}` | {_cell(default)} | {_cell(value.comment)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main(sys.argv[1:])
