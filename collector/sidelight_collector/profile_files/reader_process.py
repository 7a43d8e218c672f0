"""Read profile files in a process of its own, within memory and time.

A file of a few megabytes can hold stacks of gigabytes. The process that reads it has limits of its memory and
CPU time, which no parser can exceed. It gets the files on its standard input, and writes the answer.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from sidelight_collector.profile_files.sent_file import ProfileFile
from sidelight_model.counts import ProfileType
from sidelight_model.errors import LimitExceeded, Reason, SidelightError

MODULE: Final = "sidelight_collector.profile_files.reader_process"
_REFUSED: Final = 3
_OUT_OF_MEMORY: Final = 4


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """Limits of reading: memory and nodes of the answer, and seconds."""

    memory_bytes: int
    max_nodes: int
    timeout_seconds: float


class ReadingTimeout(SidelightError):
    """Files took too long to read."""

    reason = Reason.QUERY_TIMEOUT


def read_in_process(
    files: Sequence[ProfileFile], kind: ProfileType | None, limits: ReaderLimits, *, lines: bool
) -> bytes:
    """Return the answer on one file or two, as JSON.

    Raises ReadingTimeout, LimitExceeded, and what `build_file_answer` raises.
    """
    header = {
        "files": [[file.name, len(file.content)] for file in files],
        "type": kind,
        "lines": lines,
        "max_nodes": limits.max_nodes,
        "memory_bytes": limits.memory_bytes,
        "cpu_seconds": ceil(limits.timeout_seconds),
    }
    sent = b"\n".join((json.dumps(header).encode(), b"".join(file.content for file in files)))
    try:
        reader = subprocess.run(
            [sys.executable, "-m", MODULE],
            input=sent,
            capture_output=True,
            timeout=limits.timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _build_timeout(limits) from None
    if reader.returncode == 0:
        return reader.stdout
    if reader.returncode == _REFUSED:
        refusal = json.loads(reader.stdout)
        raise SidelightError(refusal["message"], reason=Reason(refusal["error"]), hint=refusal["hint"])
    if reader.returncode == _OUT_OF_MEMORY:
        raise LimitExceeded(
            f"the profile needs more than {limits.memory_bytes} bytes of memory",
            hint="Record less at once, or raise the collector's --max-file-memory-bytes.",
        )
    if reader.returncode < 0:
        raise _build_timeout(limits)
    raise SidelightError(
        f"the process that reads files failed: {reader.stderr.decode(errors='replace')[-500:]}",
        hint="This is a defect: report it with the file.",
    )


def _build_timeout(limits: ReaderLimits) -> ReadingTimeout:
    return ReadingTimeout(
        f"the profile took longer than {limits.timeout_seconds:g} s to read",
        hint="Record less at once, or raise the collector's --query-timeout-seconds.",
    )


def main() -> int:
    """Answer on the files of standard input."""
    # The collector, which starts this process, does without all formats.
    from sidelight_collector.profile_files.file_answers import build_file_answer

    header: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    _limit(resource.RLIMIT_AS, header["memory_bytes"])
    _limit(resource.RLIMIT_CPU, header["cpu_seconds"])
    _limit(resource.RLIMIT_CORE, 0)
    try:
        files = [ProfileFile(name, sys.stdin.buffer.read(size)) for name, size in header["files"]]
        kind = ProfileType(header["type"]) if header["type"] else None
        answer = build_file_answer(files, kind, lines=header["lines"], max_nodes=header["max_nodes"])
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    except MemoryError:
        return _OUT_OF_MEMORY
    except SidelightError as error:
        refusal = {"error": error.reason.value, "message": error.message, "hint": error.hint}
        sys.stdout.write(json.dumps(refusal))
        return _REFUSED
    sys.stdout.buffer.write(text)
    return 0


def _limit(name: int, value: int) -> None:
    _, hard = resource.getrlimit(name)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(name, (value, value))


if __name__ == "__main__":
    sys.exit(main())
