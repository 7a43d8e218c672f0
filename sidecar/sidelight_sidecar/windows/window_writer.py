"""Writes windows into the spool, and counts their samples in the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from sidelight_model.errors import Reason
from sidelight_model.labels import Labels
from sidelight_model.window import Window, decode_windows
from sidelight_sidecar.descriptors import is_out_of_descriptors
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics, to_kind_label
from sidelight_sidecar.samplers.sampler import SampleBatch
from sidelight_sidecar.shipping.atomic_file import compress_window, decompress_window
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.windows.preroll import AGE, ENDED, BufferedWindows, Preroll
from sidelight_sidecar.windows.window_builder import TargetLabels, WindowContext, build_windows

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.windows.window_writer")


class WindowWriter:
    """Builds windows from samples and puts them into the spool or the pre-roll."""

    def __init__(
        self,
        spool: Spool,
        preroll: Preroll,
        metrics: SidecarMetrics,
        health: HealthBoard,
        new_id: Callable[[int], str],
        on_window_added: Callable[[], None],
    ) -> None:
        self._spool = spool
        self._preroll = preroll
        self._metrics = metrics
        self._health = health
        self._new_id = new_id
        self._on_window_added = on_window_added

    async def write(self, batch: SampleBatch, target_labels: TargetLabels, context: WindowContext) -> int:
        """Put the windows into the spool; return how many of them it took.

        That is 0 if there were no samples or no room.
        """
        self._update_metrics(batch)
        if batch.is_empty:
            return 0
        return await self._write_to_spool(build_windows(batch, target_labels, context, self._new_id))

    async def buffer(
        self,
        key: ProcessKey,
        batch: SampleBatch,
        target_labels: TargetLabels,
        context: WindowContext,
        ended_at: float,
    ) -> None:
        """Keep the windows in the pre-roll; `ended_at` is in monotonic seconds."""
        self._update_metrics(batch)
        if batch.is_empty:
            return
        windows = build_windows(batch, target_labels, context, self._new_id)
        compressed = await asyncio.to_thread(lambda: tuple(compress_window(window) for window in windows))
        for reason, count in self._preroll.add(
            BufferedWindows(key, batch.start_ns, ended_at, compressed)
        ).items():
            self._metrics.preroll_dropped.labels(reason).inc(count)
        self._update_preroll_metrics()

    async def release(self, key: ProcessKey, labels: Mapping[str, str]) -> tuple[int, int | None]:
        """Move a process's pre-roll into the spool, with labels of a capture or trigger.

        Returns the number of windows, and when the first began (Unix time in nanoseconds).
        """
        buffered = self._preroll.drain(key)
        self._update_preroll_metrics()
        shipped = await self._write_to_spool(await asyncio.to_thread(self._decode_buffered, buffered, labels))
        return shipped, buffered[0].start_ns if buffered else None

    async def release_all(self, labels: Mapping[str, str], now: float) -> None:
        """Move the pre-roll of all processes into the spool, also of ended ones."""
        self._metrics.preroll_dropped.labels(AGE).inc(self._preroll.drop_expired(now))
        for key in self._preroll.process_keys:
            await self.release(key, labels)

    def _decode_buffered(
        self, buffered: Sequence[BufferedWindows], labels: Mapping[str, str]
    ) -> list[Window]:
        windows: list[Window] = []
        for item in buffered:
            decoded = [decode_windows(decompress_window(body))[0] for body in item.compressed]
            windows += [replace(window, labels=Labels({**window.labels, **labels})) for window in decoded]
        return windows

    def discard(self, key: ProcessKey) -> None:
        """Drop the pre-roll of a process that has ended."""
        buffered = self._preroll.drain(key)
        self._metrics.preroll_dropped.labels(ENDED).inc(sum(len(item.compressed) for item in buffered))
        self._update_preroll_metrics()

    async def _write_to_spool(self, windows: Sequence[Window]) -> int:
        written = 0
        for window in windows:
            kind = next((name for name in ("capture", "trigger") if name in window.labels), "ordinary")
            self._metrics.windows.labels(kind).inc()
            try:
                written += await asyncio.to_thread(self._spool.put, window)
            except OSError as error:
                problem = HealthIssue(
                    Reason.SPOOL_UNWRITABLE,
                    f"windows are lost: the spool cannot be written: {error.strerror}",
                    "Free space on the volume of --spool-dir, or make it writable.",
                )
                if is_out_of_descriptors(error):
                    problem = HealthIssue.out_of_descriptors(error)
                if self._health.report("spool", problem):
                    _log.error("a window could not be kept", window=window.id, problem=problem.message)
            else:
                self._health.clear("spool")
                self._on_window_added()
        return written

    def _update_metrics(self, batch: SampleBatch) -> None:
        quality = batch.quality
        for counts in batch.threads.values():
            for count in counts.values():
                for state, samples in count._asdict().items():
                    if samples:
                        self._metrics.samples.labels(state).inc(samples)
        for kind, times in quality.errors.items():
            self._metrics.sampling_errors.labels(to_kind_label(kind)).inc(times)
        self._metrics.truncated.inc(quality.truncated)
        self._metrics.other.inc(quality.other)
        self._metrics.stops.inc(quality.stops)
        self._metrics.stopped_seconds.inc(quality.stopped_ns / 1e9)
        self._metrics.target_cpu_seconds.inc(quality.target_cpu_ns / 1e9)
        if batch.tasks is not None:
            readings = batch.tasks.readings
            self._metrics.task_readings.labels("good").inc(readings.readings)
            self._metrics.task_readings.labels("failed").inc(readings.failed)
            self._metrics.longest_ready_task_seconds.set(readings.longest_ready_ns / 1e9)
            for (_, state), weight in batch.tasks.weights.items():
                seconds = weight * batch.duration_ns / 1e9 / max(readings.readings, 1)
                self._metrics.task_seconds.labels(state).inc(seconds)

    def _update_preroll_metrics(self) -> None:
        self._metrics.preroll_windows.set(self._preroll.window_count)
        self._metrics.preroll_bytes.set(self._preroll.size)
