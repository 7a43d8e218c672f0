"""Every metric of the sidecar, declared once. Labels come from closed sets."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from sidelight.connection_phases import CloseReason
from sidelight_model.errors import Reason

_PREFIX = "sidelight_sidecar"
_EXTENSION_ERROR_KINDS = {
    *("copy", "depth", "descriptors", "exec", "exited", "leaving", "limit", "lock", "moved", "other"),
    *("panic", "read", "slow", "stopped", "traced", "unstoppable"),
}
_COMMAND_ERROR_KINDS = {"failed_ticks", "no_output", "unreadable_lines", "watchdog"}


class SidecarMetrics:
    """The sidecar's metrics and the registry that owns them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.processes = self._gauge("processes", "Processes profiled now")
        self.agent_pods = self._gauge(
            "agent_pods",
            "Pods of the node, for a node agent: profiled, attached (for a capture), not_requested, sidecar, "
            "bad_label, bad_annotation",
            ["decision"],
        )
        self.displaces_agent = self._gauge(
            "displaces_agent", "1 if the node has a node agent, which leaves this pod to this sidecar"
        )
        self.sessions = self._gauge("sessions", "Open sampling sessions")
        self.scan_cpu_seconds = self._gauge("scan_cpu_seconds", "CPU time of the last scan of /proc")
        self.attach_failures = self._counter(
            "attach_failures", "Processes that could not be sampled", ["reason"]
        )
        self.windows = self._counter("windows", "Windows sampled: ordinary, capture, trigger", ["kind"])
        self.samples = self._counter(
            "samples",
            "Samples taken: idle, running, gil, cpu_wait, gil_wait, lock, poll, io, sleep",
            ["state"],
        )
        self.task_seconds = self._counter(
            "task_seconds",
            "Time of asyncio tasks; its rate is their number: task_running, task_ready, task_waiting",
            ["state"],
        )
        self.task_readings = self._counter(
            "task_readings", "Readings of all asyncio tasks of a process: good, failed", ["outcome"]
        )
        self.longest_ready_task_seconds = self._gauge(
            "longest_ready_task_seconds",
            "Longest time that a ready asyncio task was seen to wait for its event loop, in the last window",
        )
        self.sampling_errors = self._counter("sampling_errors", "Ticks or runs that gave no stacks", ["kind"])
        self.truncated = self._counter(
            "truncated_samples", "Samples whose stack was truncated at --max-depth"
        )
        self.other = self._counter("other_samples", "Samples counted as (other) above --max-stacks")
        self.preempted_seconds = self._counter(
            "preempted_seconds", "Time without scheduled windows because captures preempted them"
        )
        self.unsampled_seconds = self._counter(
            "unsampled_seconds", "Time in which processes were not sampled", ["reason"]
        )
        self.missed_windows = self._counter(
            "missed_windows", "Scheduled windows that did not start in their interval"
        )
        self.sampler_cpu_seconds = self._counter("sampler_cpu_seconds", "CPU time of sampling")
        self.sampler_cpu_ratio = self._gauge(
            "sampler_cpu_ratio", "CPU time of sampling as a share of one core, over ten seconds"
        )
        self.cpu_seconds = self._counter("cpu_seconds", "CPU time of the whole sidecar, including sampling")
        self.stops = self._counter("stops", "Times that threads were stopped to read them")
        self.stops_over_limit = self._counter(
            "stops_over_limit", "Stops of threads that lasted longer than --max-stop-ms"
        )
        self.stopped_seconds = self._counter("stopped_seconds", "Time that threads were stopped to read them")
        self.stopped_ratio = self._gauge(
            "stopped_ratio", "Largest share of its time that a process was stopped, in its last window"
        )
        self.longest_stop_seconds = self._gauge("longest_stop_seconds", "Longest stop of the last minute")
        self.rate_target_hz = self._gauge("rate_target_hz", "Target rate (--rate), in samples per second")
        self.rate_hz = self._gauge(
            "rate_hz", "Lowest and highest rate of all processes, in samples per second", ["bound"]
        )
        self.reduced_rate = self._gauge(
            "reduced_rate_processes",
            "Processes sampled below the target rate: cpu, stops, cgroup, paused",
            ["reason"],
        )
        self.paused = self._gauge(
            "paused", "1 while a switch pauses all sampling: api, file, signal", ["switch"]
        )
        self.sampler = self._gauge(
            "sampler", "1 for the reader of stacks in use: extension, command", ["kind"]
        )
        self.cpu_limit = self._gauge("cpu_limit_cores", "CPU limit of the sidecar's cgroup; 0 for none")
        self.throttled_seconds = self._counter(
            "throttled_seconds", "Time that the sidecar's cgroup was throttled at its CPU limit"
        )
        self.preroll_windows = self._gauge("preroll_windows", "Pre-roll windows in memory")
        self.preroll_bytes = self._gauge("preroll_bytes", "Bytes of pre-roll windows in memory")
        self.preroll_dropped = self._counter(
            "preroll_dropped_windows",
            "Pre-roll windows dropped before a capture used them: expired, full, ended",
            ["reason"],
        )
        self.target_cpu_seconds = self._counter("target_cpu_seconds", "CPU time of the sampled processes")
        self.targets_resumed = self._counter(
            "targets_resumed", "Processes found stopped after sampling: resumed, denied, unknown", ["outcome"]
        )
        self.triggers = self._counter(
            "triggers", "Triggers fired: cpu, throttled, rss, ready, sigterm", ["trigger"]
        )
        self.captures = self._counter("captures", "Captures ended: done, failed", ["outcome"])
        self.capture_polls = self._counter(
            "capture_polls",
            "Polls of the collector for capture jobs: answered, changed, unsupported, unauthorized, "
            "overloaded, unexpected, unreachable",
            ["outcome"],
        )
        self.capture_jobs = self._counter(
            "capture_jobs",
            "Capture jobs of the collector: done, stopped, failed, refused, unreadable",
            ["outcome"],
        )
        self.timeline_recordings = self._counter(
            "timeline_recordings", "Timeline recordings of captures: sent, failed", ["outcome"]
        )
        self.timeline_recording_bytes = self._gauge(
            "timeline_recording_bytes", "Bytes of timeline recordings in memory"
        )
        self.timeline_recording_dropped = self._counter(
            "timeline_recording_dropped_samples",
            "Samples dropped from timeline recordings at the memory limit",
        )
        self.spool_windows = self._gauge("spool_windows", "Windows in the spool")
        self.spool_bytes = self._gauge("spool_bytes", "Bytes of windows in the spool")
        self.spool_merged = self._counter("spool_merged_windows", "Windows merged because the spool was full")
        self.spool_dropped = self._counter(
            "spool_dropped_windows", "Windows lost: full, too_large, unwritable, missing", ["reason"]
        )
        self.spool_dropped_samples = self._counter("spool_dropped_samples", "Samples of the lost windows")
        self.spool_corrupt = self._counter("spool_corrupt_files", "Spool files set aside as unreadable")
        self.sends = self._counter("sends", "Requests to the collector", ["outcome"])
        self.shipped = self._counter(
            "shipped_windows", "Windows that the collector acknowledged: accepted, duplicate", ["outcome"]
        )
        self.refused = self._counter(
            "refused_windows", "Windows that the collector rejected permanently", ["reason"]
        )
        self.last_shipped = self._gauge(
            "last_shipped_timestamp_seconds", "Unix time of the last acknowledged window"
        )
        self.http_refusals = self._counter("http_refusals", "Rejected requests to the sidecar", ["reason"])
        self.connections_closed = self._counter(
            "connections_closed", "Connections that the sidecar closed or refused", ["reason"]
        )
        for close_reason in CloseReason:
            self.connections_closed.labels(close_reason)
        self.loop_errors = self._counter(
            "loop_errors", "Unexpected errors after which a loop continued", ["loop"]
        )

    def render(self) -> bytes:
        """Render the metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: list[str] | None = None) -> Counter:
        return Counter(f"{_PREFIX}_{name}_total", text, labels or [], registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels or [], registry=self.registry)


def to_reason_label(word: str) -> str:
    """Return an external reason as a metric label: a word of the enum, or "other"."""
    return word if word in set(Reason) else "other"


def to_kind_label(word: str) -> str:
    """Return a kind of sampling error as a metric label."""
    return word if word in _EXTENSION_ERROR_KINDS | _COMMAND_ERROR_KINDS else "other"
