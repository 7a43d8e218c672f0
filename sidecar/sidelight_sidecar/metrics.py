"""Every metric of the sidecar, declared once. Labels come from closed sets."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from sidelight_model.errors import Reason

_PREFIX = "sidelight_sidecar"
_EXTENSION_ERROR_KINDS = {
    *("copy", "depth", "exec", "exited", "leaving", "lock", "moved", "other", "panic", "read", "slow"),
    *("stopped", "traced", "unstoppable"),
}
_COMMAND_ERROR_KINDS = {"failed_ticks", "no_output", "unreadable_lines", "watchdog"}


class SidecarMetrics:
    """The sidecar's metrics and the registry that owns them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.processes = self._gauge("processes", "Processes watched now")
        self.sessions = self._gauge("sessions", "Sampling sessions open now")
        self.scan_cpu_seconds = self._gauge("scan_cpu_seconds", "CPU time of the last scan of /proc")
        self.attach_failures = self._counter(
            "attach_failures", "Processes that could not be sampled", ["reason"]
        )
        self.windows = self._counter("windows", "Windows taken", ["kind"])
        self.samples = self._counter("samples", "Samples taken", ["state"])
        self.sampling_errors = self._counter("sampling_errors", "Ticks or runs that gave no stacks", ["kind"])
        self.truncated = self._counter("truncated_samples", "Samples clipped at --max-depth")
        self.other = self._counter("other_samples", "Samples counted under (other) above --max-stacks")
        self.preempted_seconds = self._counter(
            "preempted_seconds", "Time in which captures displaced scheduled windows"
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
        self.cpu_seconds = self._counter("cpu_seconds", "CPU time of the whole sidecar, sampling included")
        self.stops = self._counter("stops", "Times a thread stood still to be read")
        self.stopped_seconds = self._counter("stopped_seconds", "Time threads stood still to be read")
        self.stopped_ratio = self._gauge(
            "stopped_ratio", "Largest share of its time a process stood still in its last window"
        )
        self.longest_stop_seconds = self._gauge("longest_stop_seconds", "Longest stop of the last minute")
        self.rate_target_hz = self._gauge("rate_target_hz", "Samples per second of --rate")
        self.rate_hz = self._gauge("rate_hz", "Samples per second in force, of all processes", ["bound"])
        self.reduced_rate = self._gauge(
            "reduced_rate_processes", "Processes sampled at less than the target rate", ["reason"]
        )
        self.paused = self._gauge("paused", "Whether a switch pauses all sampling", ["switch"])
        self.sampler = self._gauge("sampler", "What reads stacks: 1 for what is in use", ["kind"])
        self.cpu_limit = self._gauge("cpu_limit_cores", "CPU limit of the sidecar's cgroup; 0 is none")
        self.throttled_seconds = self._counter(
            "throttled_seconds", "Time the sidecar's cgroup was frozen for its CPU limit"
        )
        self.preroll_windows = self._gauge("preroll_windows", "Windows kept for the next capture")
        self.preroll_bytes = self._gauge("preroll_bytes", "Bytes of windows kept for the next capture")
        self.preroll_dropped = self._counter(
            "preroll_dropped_windows", "Windows kept for a capture that did not come in time", ["reason"]
        )
        self.target_cpu_seconds = self._counter(
            "target_cpu_seconds", "CPU time of the processes sampled, meanwhile"
        )
        self.targets_resumed = self._counter(
            "targets_resumed", "Targets found stopped after sampling and resumed", ["outcome"]
        )
        self.triggers = self._counter("triggers", "Times a trigger fired", ["trigger"])
        self.captures = self._counter("captures", "Captures asked for", ["outcome"])
        self.capture_polls = self._counter(
            "capture_polls", "Polls of the collector for capture jobs", ["outcome"]
        )
        self.capture_jobs = self._counter("capture_jobs", "Capture jobs of the collector", ["outcome"])
        self.timeline_recordings = self._counter(
            "timeline_recordings", "Timeline recordings of captures", ["outcome"]
        )
        self.timeline_recording_bytes = self._gauge(
            "timeline_recording_bytes", "Bytes of timeline recordings in memory"
        )
        self.timeline_recording_dropped = self._counter(
            "timeline_recording_dropped_samples", "Samples dropped from timeline recordings for lack of room"
        )
        self.spool_windows = self._gauge("spool_windows", "Windows waiting to be sent")
        self.spool_bytes = self._gauge("spool_bytes", "Bytes of windows waiting to be sent")
        self.spool_merged = self._counter(
            "spool_merged_windows", "Windows added up because the spool was full"
        )
        self.spool_dropped = self._counter("spool_dropped_windows", "Windows lost", ["reason"])
        self.spool_dropped_samples = self._counter("spool_dropped_samples", "Samples of the windows lost")
        self.spool_corrupt = self._counter("spool_corrupt_files", "Spool files set aside as unreadable")
        self.sends = self._counter("sends", "Requests to the collector", ["outcome"])
        self.shipped = self._counter("shipped_windows", "Windows the collector acknowledged", ["outcome"])
        self.refused = self._counter("refused_windows", "Windows the collector refused for good", ["reason"])
        self.last_shipped = self._gauge(
            "last_shipped_timestamp_seconds", "When a window was last acknowledged"
        )
        self.http_refusals = self._counter("http_refusals", "Requests to this sidecar refused", ["reason"])
        self.loop_errors = self._counter("loop_errors", "Unexpected errors a loop went on after", ["loop"])

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
