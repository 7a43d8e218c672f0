"""Tell the formats of profile files apart by their content."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sidelight_model.errors import Reason, SidelightError
from sidelight_model.import_formats.austin_mojo import is_mojo
from sidelight_model.import_formats.gecko_profile import is_gecko
from sidelight_model.import_formats.perf_script import is_perf_script
from sidelight_model.import_formats.pprof_profile import is_pprof
from sidelight_model.import_formats.trace_events import is_trace, parse_trace_json

_CPYTHON_MAGIC: Final = b"HCAT"
_MEMRAY_MAGIC: Final = b"memray"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_AUSTIN_LINE: Final = re.compile(rb"P[0-9]+;T[0-9a-fx:]+[; ]")
_AUSTIN_HEADER: Final = re.compile(rb"# austin: ")
_CPYTHON_JSON_LINES: Final = re.compile(rb'\{"type":"meta",[^\n]*"run_id":')


class FileFormat(StrEnum):
    """A format of profile files."""

    FOLDED = "folded text"
    AUSTIN = "Austin text"
    MOJO = "Austin MOJO"
    PPROF = "pprof"
    SPEEDSCOPE = "speedscope"
    TRACE = "Chrome trace"
    GECKO = "Firefox Profiler"
    PERF = "perf script"


class UnreadableFormat(SidelightError):
    """A file is in a format that is not read."""

    reason = Reason.BAD_FOLDED


@dataclass(frozen=True, slots=True)
class IdentifiedFile:
    """The format of a file, and its JSON document if it is JSON."""

    format: FileFormat
    document: Any = None


def identify_file(file_name: str, content: bytes) -> IdentifiedFile:
    """Return the format of unpacked content without a byte order mark.

    Folded text is what has no other format. JSON that is damaged counts as speedscope. Raises
    UnreadableFormat.
    """
    _refuse(file_name, content)
    start = content.lstrip()[:1]
    if start in (b"{", b"["):
        try:
            document = parse_trace_json(content)
        except (ValueError, RecursionError):
            return IdentifiedFile(FileFormat.SPEEDSCOPE if start == b"{" else FileFormat.FOLDED)
        if is_trace(document):
            return IdentifiedFile(FileFormat.TRACE, document)
        if is_gecko(document):
            return IdentifiedFile(FileFormat.GECKO, document)
        return IdentifiedFile(FileFormat.SPEEDSCOPE, document)
    if is_mojo(content):
        return IdentifiedFile(FileFormat.MOJO)
    if is_pprof(content):
        return IdentifiedFile(FileFormat.PPROF)
    if is_perf_script(content):
        return IdentifiedFile(FileFormat.PERF)
    return IdentifiedFile(FileFormat.AUSTIN if _is_austin(content) else FileFormat.FOLDED)


def describe_json_error(content: bytes) -> str:
    """Return why content is not JSON, with the line."""
    try:
        json.loads(content)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except RecursionError:
        return "it is nested too deeply"
    return "it is of no known kind"


def _refuse(file_name: str, content: bytes) -> None:
    if content.startswith(_CPYTHON_MAGIC):
        raise UnreadableFormat(
            f"{file_name} is the private binary format of CPython's profiler",
            hint="Convert it with the Python that wrote it: "
            f"python3.15 -m profiling.sampling replay --gecko -o NAME.json {file_name}",
        )
    if _CPYTHON_JSON_LINES.match(content):
        raise UnreadableFormat(
            f"{file_name} has functions without stacks (JSON lines of CPython's profiler)",
            hint="Record it with --gecko or --collapsed instead of --jsonl.",
        )
    if content.startswith((_MEMRAY_MAGIC, _LZ4_MAGIC)) and _MEMRAY_MAGIC in content[:64]:
        raise UnreadableFormat(
            f"{file_name} holds allocations of memray, not time", hint="Record a profile of CPU or wall time."
        )


def _is_austin(content: bytes) -> bool:
    """Return whether the first line with a stack, or a header before it, is Austin's."""
    for line in content.split(b"\n", 100)[:100]:
        text = line.strip()
        if _AUSTIN_HEADER.match(text):
            return True
        if text and not text.startswith(b"#"):
            return _AUSTIN_LINE.match(text) is not None
    return False
