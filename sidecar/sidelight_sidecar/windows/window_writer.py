"""Where windows enter the spool, and what was sampled enters the metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from sidelight_model.errors import Reason
from sidelight_model.labels import Labels
from sidelight_model.window import Window, decode
from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics, known_kind
from sidelight_sidecar.samplers.sampler import Sampled
from sidelight_sidecar.shipping.atomic_file import pack, unpack
from sidelight_sidecar.shipping.spool import Spool
from sidelight_sidecar.windows.preroll import AGE, ENDED, Kept, Preroll
from sidelight_sidecar.windows.windows import Source, Taking, windows_of

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.windows.window_writer")


class Intake:
    """Turns what was sampled into windows in the spool, or in memory until a capture wants them."""

    def __init__(
        self,
        spool: Spool,
        preroll: Preroll,
        metrics: Metrics,
        board: Board,
        new_id: Callable[[], str],
        arrived: Callable[[], None],
    ) -> None:
        self._spool = spool
        self._preroll = preroll
        self._metrics = metrics
        self._board = board
        self._new_id = new_id
        self._arrived = arrived

    async def keep(self, sampled: Sampled, source: Source, taking: Taking) -> int:
        """Put the windows into the spool; how many, so none when there was nothing to keep or no room."""
        self._count(sampled)
        if sampled.empty:
            return 0
        return await self._put(windows_of(sampled, source, taking, self._new_id))

    async def hold_back(self, key: Key, sampled: Sampled, source: Source, taking: Taking, end: float) -> None:
        """Keep the windows in memory; `end` is when they ended, in monotonic seconds."""
        self._count(sampled)
        if sampled.empty:
            return
        windows = windows_of(sampled, source, taking, self._new_id)
        packed = await asyncio.to_thread(lambda: tuple(pack(window) for window in windows))
        for why, count in self._preroll.add(Kept(key, sampled.start_ns, end, packed)).items():
            self._metrics.preroll_dropped.labels(why).inc(count)
        self._tell_preroll()

    async def ship_held_back(self, key: Key, labels: Mapping[str, str]) -> tuple[int, int | None]:
        """Put what is held back of a process into the spool, with the labels of a capture or a trigger.

        Returns how many windows that were, and when the first began.
        """
        held = self._preroll.drain(key)
        self._tell_preroll()
        shipped = await self._put(await asyncio.to_thread(self._unpacked, held, labels))
        return shipped, held[0].start_ns if held else None

    async def ship_all_held_back(self, labels: Mapping[str, str], now: float) -> None:
        """Put what is held back of any process into the spool, also of those that have ended."""
        self._metrics.preroll_dropped.labels(AGE).inc(self._preroll.age(now))
        for key in self._preroll.keys:
            await self.ship_held_back(key, labels)

    def _unpacked(self, held: Sequence[Kept], labels: Mapping[str, str]) -> list[Window]:
        windows: list[Window] = []
        for kept in held:
            found = [decode(unpack(packed))[0] for packed in kept.packed]
            ids = sorted(self._new_id() for _ in found)
            windows += [
                replace(window, id=window_id, labels=Labels({**window.labels, **labels}))
                for window, window_id in zip(found, ids, strict=True)
            ]
        return windows

    def forget(self, key: Key) -> None:
        """Drop what is held back of a process that has ended."""
        held = self._preroll.drain(key)
        self._metrics.preroll_dropped.labels(ENDED).inc(sum(len(kept.packed) for kept in held))
        self._tell_preroll()

    async def _put(self, windows: Sequence[Window]) -> int:
        kept = 0
        for window in windows:
            kind = next((name for name in ("capture", "trigger") if name in window.labels), "ordinary")
            self._metrics.windows.labels(kind).inc()
            try:
                kept += await asyncio.to_thread(self._spool.put, window)
            except OSError as error:
                problem = Problem(
                    Reason.SPOOL_UNWRITABLE,
                    f"windows are lost: the spool cannot be written: {error.strerror}",
                    "Free space on the volume of --spool-dir, or make it writable.",
                )
                if self._board.report("spool", problem):
                    _log.error("a window could not be kept", window=window.id, problem=problem.message)
            else:
                self._board.clear("spool")
                self._arrived()
        return kept

    def _count(self, sampled: Sampled) -> None:
        quality = sampled.quality
        for counts in sampled.threads.values():
            for count in counts.values():
                for state, samples in count._asdict().items():
                    if samples:
                        self._metrics.samples.labels(state).inc(samples)
        for kind, times in quality.errors.items():
            self._metrics.sampling_errors.labels(known_kind(kind)).inc(times)
        self._metrics.truncated.inc(quality.truncated)
        self._metrics.other.inc(quality.other)
        self._metrics.stops.inc(quality.stops)
        self._metrics.stopped_seconds.inc(quality.stopped_ns / 1e9)
        self._metrics.target_cpu_seconds.inc(quality.target_cpu_ns / 1e9)

    def _tell_preroll(self) -> None:
        self._metrics.preroll_windows.set(self._preroll.windows)
        self._metrics.preroll_bytes.set(self._preroll.size)
