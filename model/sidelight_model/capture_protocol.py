"""Capture messages between the sidecar and the collector, defined once for both.

A sidecar polls the collector (AgentPoll) with its status (AgentStatus) and the progress of its captures
(CaptureReport). The response (AgentPollResponse) has the capture jobs to start (CaptureJob) and the
captures to stop. docs/api-reference.md describes the same messages as JSON.

Messages are untrusted: `parse` truncates text and lists to their limits, reads a value of a wrong type as
empty or 0, ignores unknown fields, and refuses a message without a valid sidecar, capture or state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeVar

from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import LabelLimits, Labels

VERSION: Final = 1
CAPTURE_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
AGENT_PATTERN: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_REPORTS: Final = 64
MAX_JOBS: Final = 20
MAX_PROCESSES: Final = 64
MAX_TOP_FUNCTIONS: Final = 5
MAX_ENTRIES: Final = 32
"""The maximum length of a list of modes, reasons or kinds of errors."""
MAX_TEXT: Final = 500
MAX_WORD: Final = 64
_HINT: Final = "This is for sidecars: docs/api-reference.md says what they send."
Json = Mapping[str, Any]
T = TypeVar("T")


class BadMessage(SidelightError):
    """A message has no valid sidecar, capture or state, or is not a JSON object."""

    reason = Reason.BAD_PARAMETER


class CaptureState(StrEnum):
    """The progress of a capture, or of one sidecar's part of it."""

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    SAMPLING = "sampling"
    UPLOADING = "uploading"
    DONE = "done"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


REPORTABLE_STATES: Final = (
    CaptureState.SAMPLING,
    CaptureState.UPLOADING,
    CaptureState.DONE,
    CaptureState.FAILED,
    CaptureState.STOPPED,
)
"""The states that a sidecar may report for its part."""


@dataclass(frozen=True, slots=True)
class SampledProcess:
    """A sampled process: its role in the pod, and its Python version."""

    pid: int
    role: str = ""
    python_version: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "role": self.role, "python_version": self.python_version}

    @classmethod
    def parse(cls, raw: Json) -> SampledProcess:
        return cls(_integer(raw, "pid"), _text(raw, "role"), _text(raw, "python_version"))


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The capture requests that a sidecar accepts; no modes, or 0, means no limit."""

    modes: tuple[str, ...] = ()
    max_seconds: float = 0.0
    max_rate: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"modes": list(self.modes), "max_seconds": self.max_seconds, "max_rate": self.max_rate}

    @classmethod
    def parse(cls, raw: Json) -> RequestLimits:
        return cls(_words(raw, "modes"), _amount(raw, "max_seconds"), _integer(raw, "max_rate"))


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """A sidecar, and whether it is ready for a capture.

    If it is not ready, `problem` and `hint` say why. `node_agent` says that a node agent samples the pod.
    `only_capture` is the only capture that it takes; empty for any. In its JSON the limits are fields of the
    same object.
    """

    agent: str
    labels: Labels
    sidelight_version: str = ""
    sampler: str = ""
    limits: RequestLimits = field(default_factory=RequestLimits)
    ready: bool = False
    problem: str = ""
    hint: str = ""
    paused: bool = False
    processes: tuple[SampledProcess, ...] = ()
    node_agent: bool = False
    only_capture: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "labels": dict(self.labels),
            "sidelight_version": self.sidelight_version,
            "sampler": self.sampler,
            **self.limits.to_json(),
            "ready": self.ready,
            "problem": self.problem,
            "hint": self.hint,
            "paused": self.paused,
            "processes": [process.to_json() for process in self.processes],
            "node_agent": self.node_agent,
            "only_capture": self.only_capture,
        }

    @classmethod
    def parse(cls, raw: Json, label_limits: LabelLimits | None = None) -> AgentStatus:
        """Raises BadMessage, BadLabel, LimitExceeded (`too_many_labels`)."""
        agent, labels = raw.get("agent"), raw.get("labels")
        if not isinstance(agent, str) or not AGENT_PATTERN.fullmatch(agent):
            raise BadMessage("agent is not a name of 1 to 64 letters, digits, '.', '_' and '-'", hint=_HINT)
        if isinstance(labels, Mapping):
            labels = {name: value for name, value in labels.items() if value}
        return cls(
            agent,
            Labels.parse(labels, label_limits),
            _text(raw, "sidelight_version", MAX_WORD),
            _text(raw, "sampler", MAX_WORD),
            RequestLimits.parse(raw),
            raw.get("ready") is True,
            _text(raw, "problem"),
            _text(raw, "hint"),
            raw.get("paused") is True,
            _objects(raw, "processes", SampledProcess.parse, MAX_PROCESSES),
            raw.get("node_agent") is True,
            _text(raw, "only_capture", MAX_WORD),
        )


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The progress of a capture on one process.

    `rate` is the current rate (Hz); `reduced` has the reasons why it is below the requested rate.
    `covered_since` (RFC 3339) is the start of the windows that cover the time before the capture without a
    gap.
    """

    pid: int
    samples: int = 0
    windows: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    finished: bool = False
    rate: float = 0.0
    reduced: tuple[str, ...] = ()
    preroll_windows: int = 0
    covered_since: str | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "samples": self.samples,
            "windows": self.windows,
            "errors": dict(self.errors),
            "finished": self.finished,
            "rate": self.rate,
            "reduced": list(self.reduced),
            "preroll_windows": self.preroll_windows,
            "covered_since": self.covered_since,
            "problem": self.problem,
        }

    @classmethod
    def parse(cls, raw: Json) -> ProcessReport:
        return cls(
            _integer(raw, "pid"),
            _integer(raw, "samples"),
            _integer(raw, "windows"),
            _counts(raw, "errors"),
            raw.get("finished") is True,
            _amount(raw, "rate"),
            _words(raw, "reduced"),
            _integer(raw, "preroll_windows"),
            _text(raw, "covered_since", MAX_WORD) or None,
            _text(raw, "problem"),
        )


@dataclass(frozen=True, slots=True)
class TopFunction:
    """A function, and the number of samples in which it was at the top of the stack."""

    function: str
    self_samples: int

    def to_json(self) -> dict[str, Any]:
        return {"function": self.function, "self_samples": self.self_samples}

    @classmethod
    def parse(cls, raw: Json) -> TopFunction:
        return cls(_text(raw, "function"), _integer(raw, "self_samples"))


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """The progress or end of a sidecar's part; `seconds` is the requested duration."""

    capture: str
    state: CaptureState
    elapsed_seconds: float = 0.0
    seconds: float = 0.0
    samples: int = 0
    windows: int = 0
    recordings: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[ProcessReport, ...] = ()
    top_functions: tuple[TopFunction, ...] = ()
    problem: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "capture": self.capture,
            "state": self.state.value,
            "elapsed_seconds": self.elapsed_seconds,
            "seconds": self.seconds,
            "samples": self.samples,
            "windows": self.windows,
            "recordings": self.recordings,
            "errors": dict(self.errors),
            "processes": [process.to_json() for process in self.processes],
            "top_functions": [function.to_json() for function in self.top_functions],
            "problem": self.problem,
            "hint": self.hint,
        }

    @classmethod
    def parse(cls, raw: object) -> CaptureReport:
        """Raises BadMessage."""
        capture = raw.get("capture") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not _is_capture_id(capture):
            raise BadMessage("a report names no capture", hint=_HINT)
        state = raw.get("state")
        if state not in REPORTABLE_STATES:
            raise BadMessage(f"a report's state is not one of {', '.join(REPORTABLE_STATES)}", hint=_HINT)
        return cls(
            str(capture),
            CaptureState(state),
            _amount(raw, "elapsed_seconds"),
            _amount(raw, "seconds"),
            _integer(raw, "samples"),
            _integer(raw, "windows"),
            _integer(raw, "recordings"),
            _counts(raw, "errors"),
            _objects(raw, "processes", ProcessReport.parse, MAX_PROCESSES),
            _objects(raw, "top_functions", TopFunction.parse, MAX_TOP_FUNCTIONS),
            _text(raw, "problem"),
            _text(raw, "hint"),
        )


@dataclass(frozen=True, slots=True)
class AgentPoll:
    """A sidecar's poll; the collector may delay the response by `timeout_seconds`.

    With `for_node` a node agent asks which pods of its node to sample for a capture; it is in no service.
    `attached` are the captures for which it looks for a process.
    """

    status: AgentStatus
    timeout_seconds: float = 0.0
    reports: tuple[CaptureReport, ...] = ()
    for_node: bool = False
    attached: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "v": VERSION,
            **self.status.to_json(),
            "timeout_seconds": self.timeout_seconds,
            "reports": [report.to_json() for report in self.reports],
            "for_node": self.for_node,
            "attached": list(self.attached),
        }

    @classmethod
    def parse(cls, raw: Json, label_limits: LabelLimits | None = None) -> AgentPoll:
        """Raises BadMessage, BadLabel, LimitExceeded (`too_many_labels`)."""
        reports = raw.get("reports", [])
        if not isinstance(reports, list) or len(reports) > MAX_REPORTS:
            raise BadMessage(f"reports is not a list of at most {MAX_REPORTS}", hint=_HINT)
        for_node = raw.get("for_node") is True
        return cls(
            AgentStatus.parse(raw, LabelLimits(allow_missing_service=True) if for_node else label_limits),
            _amount(raw, "timeout_seconds"),
            tuple(map(CaptureReport.parse, reports)),
            for_node,
            tuple(filter(_is_capture_id, _words(raw, "attached"))),
        )


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """A capture for a sidecar to take, with all parameters of the capture request.

    The sidecar checks the parameters against its own limits and reports what it refuses. Empty `pids` means
    every process. With `timeline` the sidecar also sends a timeline recording of at most
    `max_recording_bytes` (0: the sidecar's own limit).
    """

    capture: str
    seconds: float = 0.0
    rate: int = 0
    mode: str = ""
    pids: tuple[int, ...] = ()
    timeline: bool = False
    max_recording_bytes: int = 0

    @property
    def request(self) -> dict[str, Any]:
        """The parameters in the format of the sidecar's own API."""
        return {"seconds": self.seconds, "rate": self.rate, "mode": self.mode, "pids": list(self.pids)}

    def to_json(self) -> dict[str, Any]:
        return {
            "capture": self.capture,
            **self.request,
            "timeline": self.timeline,
            "max_recording_bytes": self.max_recording_bytes,
        }

    @classmethod
    def parse(cls, raw: object) -> CaptureJob:
        """Raises BadMessage."""
        capture = raw.get("capture") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not _is_capture_id(capture):
            raise BadMessage(f"{str(capture)[:80]!r} is not the id of a capture")
        pids = raw.get("pids")
        return cls(
            str(capture),
            _amount(raw, "seconds"),
            _integer(raw, "rate"),
            _text(raw, "mode", MAX_WORD),
            tuple(pid for pid in pids if type(pid) is int) if isinstance(pids, list) else (),
            raw.get("timeline") is True,
            _integer(raw, "max_recording_bytes"),
        )


@dataclass(frozen=True, slots=True)
class Attachment:
    """A pod that a node agent samples for one capture, for at most `seconds` from now.

    It polls for the capture as `agent`. `container` is the only container to sample; empty for all.
    """

    capture: str
    agent: str
    namespace: str
    pod: str
    seconds: float
    container: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def parse(cls, raw: Json) -> Attachment:
        names = ("capture", "agent", "namespace", "pod")
        capture, agent, namespace, pod = (_text(raw, name) for name in names)
        return cls(capture, agent, namespace, pod, _amount(raw, "seconds"), _text(raw, "container"))


@dataclass(frozen=True, slots=True)
class AgentPollResponse:
    """The response to a poll: jobs to start, and ids of captures to stop.

    `problems` describes received jobs that cannot be parsed; the sidecar takes the other jobs.
    `attachments` are for node agents. `node_agent` names the agent that leaves the pod to this sidecar.
    """

    capture_jobs: tuple[CaptureJob, ...] = ()
    stop_captures: tuple[str, ...] = ()
    problems: tuple[str, ...] = field(default=(), compare=False)
    attachments: tuple[Attachment, ...] = ()
    node_agent: str = ""

    def __bool__(self) -> bool:
        return bool(self.capture_jobs or self.stop_captures or self.attachments)

    def to_json(self) -> dict[str, Any]:
        return {
            "capture_jobs": [job.to_json() for job in self.capture_jobs],
            "stop_captures": list(self.stop_captures),
            "attachments": [attachment.to_json() for attachment in self.attachments],
            "node_agent": self.node_agent,
        }

    @classmethod
    def parse(cls, raw: object) -> AgentPollResponse:
        """Raises BadMessage."""
        raw_jobs = raw.get("capture_jobs") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(raw_jobs, list):
            raise BadMessage("the answer has no list of capture_jobs")
        jobs: list[CaptureJob] = []
        problems: list[str] = []
        for raw_job in raw_jobs[:MAX_JOBS]:
            try:
                jobs.append(CaptureJob.parse(raw_job))
            except BadMessage as error:
                problems.append(error.message)
        stops = raw.get("stop_captures")
        ids = filter(_is_capture_id, stops) if isinstance(stops, list) else ()
        attachments = _objects(raw, "attachments", Attachment.parse, MAX_JOBS)
        return cls(tuple(jobs), tuple(ids), tuple(problems), attachments, _text(raw, "node_agent"))


def _is_capture_id(value: object) -> bool:
    return isinstance(value, str) and CAPTURE_ID_PATTERN.fullmatch(value) is not None


def _text(raw: Json, name: str, limit: int = MAX_TEXT) -> str:
    value = raw.get(name)
    return value[:limit] if isinstance(value, str) else ""


def _amount(raw: Json, name: str) -> float:
    return _parse_amount(raw.get(name))


def _integer(raw: Json, name: str) -> int:
    return int(_parse_amount(raw.get(name)))


def _parse_amount(value: object) -> float:
    """Return a number from 0 to below 2**53; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return 0
    return value


def _words(raw: Json, name: str) -> tuple[str, ...]:
    values = raw.get(name)
    words = values[:MAX_ENTRIES] if isinstance(values, list) else []
    return tuple(word[:MAX_WORD] for word in words if isinstance(word, str))


def _counts(raw: Json, name: str) -> dict[str, int]:
    values = raw.get(name)
    items = list(values.items())[:MAX_ENTRIES] if isinstance(values, Mapping) else []
    return {word[:MAX_WORD]: int(_parse_amount(count)) for word, count in items if isinstance(word, str)}


def _objects(raw: Json, name: str, parse: Callable[[Json], T], limit: int) -> tuple[T, ...]:
    values = raw.get(name)
    items: Sequence[object] = values[:limit] if isinstance(values, list) else ()
    return tuple(parse(item) for item in items if isinstance(item, Mapping))
