"""Windows: the stacks of one process over a few seconds, as a sidecar ships them.

On the wire a window is a line `# {json header}` followed by folded lines; a request body holds one or more
windows. Tools that read folded text skip the header. Equal windows give equal bytes: the header has sorted
keys and no spaces, and the stacks are sorted. docs/formats.md is the specification.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sidelight_model.counts import FURTHER_STATES, ZERO, Counts
from sidelight_model.errors import BadHeader, LimitExceeded, Reason
from sidelight_model.folded import Stack, decode_line, parse_folded_lines, render_folded, split_stack
from sidelight_model.frames import TRUNCATED
from sidelight_model.labels import LabelLimits, Labels

WINDOW_FORMAT = 3
"""A window without asyncio tasks is in format 2, or 1 if its sampler has none of FURTHER_STATES."""
_ULID = re.compile("[0-7][0-9A-HJKMNP-TV-Z]{25}")
_MAX_INT = 2**63 - 1
_MAX_ENTRIES = 32
_MAX_TASK_COUNT = 10**12


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a window was sampled. Zero or empty means unknown.

    Durations are in nanoseconds.

    attempts: ticks tried
    samples: thread samples taken
    errors: failed ticks by kind
    late_ns: the sum of the delays of all ticks
    nominal_ns: the requested length
    mode: `gil` (at most the thread that holds the GIL is stopped while stacks are read), `blocking` (all
        threads are stopped), `nonblocking` (none is, and stacks may be wrong) or `command` (`py-spy
        record`)
    threads: the largest number of threads at once
    truncated: samples with a truncated stack
    target_cpu_ns, sampler_cpu_ns: CPU time used during the window
    paused_ns: time without samples just before the window, because a capture ran or the rate was lowered to
        zero
    missing_states: states that this sampler cannot tell apart
    pid: the process id in the sampler's namespace
    stops, stopped_ns, longest_stop_ns: how often and how long one or more threads of the process were
        stopped to be read
    other: samples counted under `(other)`, because there were too many stacks to record theirs
    reader: what read the stacks: `own`, `py-spy` or `py-spy-native` (which also reads C frames)
    reduced: why there were fewer ticks than requested: `cpu`, `stops`, `cgroup` or `paused`

    A process may be shipped as several windows of the same span, one for each value of the label `thread`.
    The window of `main` then has the values of the whole process (late_ns, the two CPU times and the three
    values of stops), and every window has attempts and errors.
    """

    attempts: int = 0
    samples: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    late_ns: int = 0
    nominal_ns: int = 0
    mode: str = ""
    sampler: str = ""
    python: str = ""
    threads: int = 0
    truncated: int = 0
    target_cpu_ns: int = 0
    sampler_cpu_ns: int = 0
    paused_ns: int = 0
    missing_states: tuple[str, ...] = ()
    pid: int = 0
    stops: int = 0
    stopped_ns: int = 0
    longest_stop_ns: int = 0
    other: int = 0
    reader: str = ""
    reduced: tuple[str, ...] = ()

    @property
    def failed_attempts(self) -> int:
        """The number of ticks without stacks."""
        return sum(self.errors.values())


@dataclass(frozen=True, slots=True)
class TaskReadings:
    """How the asyncio tasks of a process were read in a window.

    readings: how often all tasks were listed
    failed: how often they could not be; such a reading counts nowhere else
    tasks, ready: the number of tasks, and of ready tasks, added up over the readings
    longest_ready_ns: the longest time that a ready task was seen to wait for its event loop
    loops: the largest number of event loops at once
    """

    readings: int = 0
    failed: int = 0
    tasks: int = 0
    ready: int = 0
    longest_ready_ns: int = 0
    loops: int = 0

    def plus(self, other: TaskReadings) -> TaskReadings:
        return TaskReadings(
            self.readings + other.readings,
            self.failed + other.failed,
            self.tasks + other.tasks,
            self.ready + other.ready,
            max(self.longest_ready_ns, other.longest_ready_ns),
            max(self.loops, other.loops),
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Stacks of one process, counted from `start_ns` (Unix time) for `duration_ns`.

    `period_ns` is the requested sampling period (10^9 / rate): the time that a sample stands for. `tasks` is
    None if no asyncio tasks were read.
    """

    id: str
    labels: Labels
    start_ns: int
    duration_ns: int
    period_ns: int
    counts: Mapping[Stack, Counts]
    quality: Quality = field(default_factory=Quality)
    tasks: TaskReadings | None = None

    @property
    def total(self) -> Counts:
        """Samples by state, over all stacks."""
        total = ZERO
        for counts in self.counts.values():
            total = total.plus(counts)
        return total


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Limits of a request body of windows.

    Deeper stacks are truncated; every other excess is refused.
    """

    max_windows: int = 1000
    max_header_bytes: int = 64 << 10
    max_stacks: int = 100_000
    max_depth: int = 4096
    max_duration_ns: int = 3600 * 10**9
    labels: LabelLimits = field(default_factory=LabelLimits)


def encode_windows(windows: Iterable[Window]) -> bytes:
    """Encode windows for the wire and the spool."""
    return "".join(
        f"# {_render_header(window)}\n{render_folded(window.counts, None)}" for window in windows
    ).encode()


def decode_windows(body: bytes, limits: WindowLimits | None = None) -> list[Window]:
    """Parse the output of `encode_windows`, from an untrusted client.

    Raises BadHeader or BadFolded with the line number, BadLabel, or LimitExceeded. Samples whose stack is
    truncated here are counted in `quality.truncated`, together with those that the sampler truncated.
    """
    limits = limits or WindowLimits()
    windows: list[Window] = []
    lines = iter(enumerate(body.split(b"\n"), 1))
    header = _find_first_header(lines)
    while header is not None:
        if len(windows) == limits.max_windows:
            raise too_many_windows_error(limits.max_windows)
        part = _WindowLines(lines)
        counts = parse_folded_lines(part, max_stacks=limits.max_stacks, max_depth=limits.max_depth)
        windows.append(
            replace(parse_header(*header, limits, truncated_samples=count_truncated(counts)), counts=counts)
        )
        header = part.next_header
    return windows


def too_many_windows_error(max_windows: int) -> LimitExceeded:
    """Build the error for a request body with more windows than allowed."""
    return LimitExceeded(
        f"more than {max_windows} windows in one request",
        reason=Reason.TOO_MANY_WINDOWS,
        hint="Send fewer windows at once.",
    )


def is_window_id(text: str) -> bool:
    """Return whether `text` is a ULID, the format of window ids."""
    return _ULID.fullmatch(text) is not None


class _WindowLines:
    """The folded lines of one window, up to the next header or the end."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self.next_header: tuple[int, bytes] | None = None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, line in self._lines:
            if line.startswith(b"#"):
                self.next_header = (number, line)
                return
            yield number, decode_line(number, line)


def _find_first_header(lines: Iterator[tuple[int, bytes]]) -> tuple[int, bytes] | None:
    for number, line in lines:
        if line.startswith(b"#"):
            return number, line
        if line.strip():
            raise BadHeader(number, "folded lines before any header")
    return None


def _render_header(window: Window) -> str:
    quality = {f.name: getattr(window.quality, f.name) for f in fields(Quality)}
    missing = window.quality.missing_states
    quality["missing_states"] = [state for state in missing if state not in FURTHER_STATES]
    states = [state for state in FURTHER_STATES if state not in missing]
    header = {
        **({"format": 2, "states": states} if states else {"format": 1}),
        **(
            {"format": WINDOW_FORMAT, "states": states, "tasks": asdict(window.tasks)} if window.tasks else {}
        ),
        "id": window.id,
        "labels": dict(window.labels),
        "start_ns": window.start_ns,
        "duration_ns": window.duration_ns,
        "period_ns": window.period_ns,
        "quality": {name: value for name, value in quality.items() if value},
    }
    # JSON text may contain line separators other than \n; in ASCII the header is one line for every tool.
    return json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=dict)


def parse_header(number: int, line: bytes, limits: WindowLimits, *, truncated_samples: int = 0) -> Window:
    """Parse a window's header line; the returned window has no stacks.

    `number` is the line number. `truncated_samples` is the number of samples with a truncated stack: it
    replaces a smaller `quality.truncated`. Raises BadHeader with the line number, BadLabel, or
    LimitExceeded.
    """
    if len(line) > limits.max_header_bytes:
        raise LimitExceeded(
            f"line {number}: the header of a window is larger than {limits.max_header_bytes} bytes",
            hint="Use fewer and shorter labels, or raise the collector's --max-window-header-bytes.",
        )
    try:
        raw = json.loads(line[1:])
    except (ValueError, RecursionError) as error:
        raise BadHeader(number, f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadHeader(number, "not a JSON object")
    window_format = raw.get("format")
    if window_format not in range(1, WINDOW_FORMAT + 1) or isinstance(window_format, bool):
        raise BadHeader(
            number, f"format {window_format!r} is not known here (this is format {WINDOW_FORMAT})"
        )
    field_names = {"format", "id", "labels", "start_ns", "duration_ns", "period_ns", "quality"}
    if window_format != 1:
        field_names.add("states")
    if window_format == WINDOW_FORMAT:
        field_names.add("tasks")
    if unknown := sorted(set(raw) - field_names):
        raise BadHeader(number, f"unknown field {unknown[0]!r}")
    states = _parse_states(number, raw.get("states", []))
    if not isinstance(raw.get("id"), str) or not is_window_id(raw["id"]):
        raise BadHeader(number, "`id` is not a ULID")
    start, duration, period = (
        _parse_int(number, raw, name) for name in ("start_ns", "duration_ns", "period_ns")
    )
    if not 0 < duration <= limits.max_duration_ns:
        raise BadHeader(number, f"`duration_ns` must be above 0 and at most {limits.max_duration_ns}")
    if not 0 < period <= 10**10:
        raise BadHeader(number, "`period_ns` must be above 0 and at most 10^10")
    labels = Labels.parse(raw.get("labels"), limits.labels)
    quality = _parse_quality(number, raw.get("quality", {}))
    if absent := [state for state in FURTHER_STATES if state not in (*states, *quality.missing_states)]:
        quality = replace(quality, missing_states=(*quality.missing_states, *absent))
    if truncated_samples > quality.truncated:
        quality = replace(quality, truncated=truncated_samples)
    tasks = _parse_tasks(number, raw["tasks"]) if "tasks" in raw else None
    return Window(raw["id"], labels, start, duration, period, {}, quality, tasks)


def count_truncated(counts: Mapping[Stack, Counts]) -> int:
    """Count the samples with a truncated stack, truncated here or earlier."""
    return sum(
        sum(count)
        for stack, count in counts.items()
        if TRUNCATED in stack and TRUNCATED in split_stack(stack)
    )


def _parse_states(number: int, raw: object) -> list[str]:
    """Parse the states of a window that format 1 does not have."""
    if not isinstance(raw, list):
        raise BadHeader(number, "`states` is not a list of states")
    for state in raw:
        if state not in FURTHER_STATES:
            raise BadHeader(
                number, f"state {state!r} is not known here: {', '.join(FURTHER_STATES)} can be in `states`"
            )
    return raw


def _parse_tasks(number: int, raw: object) -> TaskReadings:
    """Parse the field `tasks`: counts of which many windows are added up."""
    if not isinstance(raw, dict):
        raise BadHeader(number, "`tasks` is not a JSON object")
    values = {
        spec.name: _parse_int(number, raw, spec.name) for spec in fields(TaskReadings) if spec.name in raw
    }
    if unknown := sorted(set(raw) - set(values)):
        raise BadHeader(number, f"unknown field `tasks.{unknown[0]}`")
    for name, value in values.items():
        if value > _MAX_TASK_COUNT and name != "longest_ready_ns":
            raise BadHeader(number, f"`tasks.{name}` is above 10^12")
    return TaskReadings(**values)


def _parse_quality(number: int, raw: object) -> Quality:
    if not isinstance(raw, dict):
        raise BadHeader(number, "`quality` is not a JSON object")
    values: dict[str, Any] = {}
    for spec in fields(Quality):
        if spec.name not in raw:
            continue
        value = raw[spec.name]
        if spec.name == "errors":
            if not isinstance(value, dict) or len(value) > _MAX_ENTRIES:
                raise BadHeader(number, f"`quality.errors` is not an object of at most {_MAX_ENTRIES} counts")
            value = {_parse_word(number, kind): _parse_int(number, value, kind) for kind in sorted(value)}
        elif spec.name in ("missing_states", "reduced"):
            if not isinstance(value, list) or len(value) > _MAX_ENTRIES:
                raise BadHeader(
                    number, f"`quality.{spec.name}` is not a list of at most {_MAX_ENTRIES} words"
                )
            value = tuple(_parse_word(number, word) for word in value)
        elif spec.name in ("mode", "sampler", "python", "reader"):
            value = _parse_word(number, value)
        else:
            value = _parse_int(number, raw, spec.name)
        values[spec.name] = value
    if unknown := sorted(set(raw) - {spec.name for spec in fields(Quality)}):
        raise BadHeader(number, f"unknown field `quality.{unknown[0]}`")
    return Quality(**values)


def _parse_int(number: int, raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INT:
        raise BadHeader(number, f"`{name}` is not a whole number from 0 to 2^63-1")
    return value


def _parse_word(number: int, value: object) -> str:
    if not isinstance(value, str) or len(value) > 64 or not value.isprintable():
        raise BadHeader(number, f"{str(value)[:40]!r} is not a short text")
    return value
