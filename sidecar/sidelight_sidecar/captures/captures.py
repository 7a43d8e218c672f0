"""Captures: sampling for so long, asked for from outside, one at a time on each process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.samplers.sampler import Sampler
from sidelight_sidecar.sampling.capture_job import Order, Part
from sidelight_sidecar.sampling.process_watcher import Fleet
from sidelight_sidecar.settings import CAPTURE_MODES
from sidelight_sidecar.windows.timeline_recording import Room

_REMEMBERED = 100
_TIMED_SECONDS, _LEAST_TIMED, _MOST_TIMED = 200, 2000, 100_000
"""Seconds of one thread's samples that a session keeps one by one. They are taken every second, so this is
room for a hundred threads when one second more passes."""
_FIELDS = ("seconds", "rate", "mode", "pids")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a capture may ask for, and what it gets when it does not say."""

    max_seconds: float
    max_rate: int
    window_seconds: float
    default_seconds: float
    default_rate: int
    default_mode: str


@dataclass(frozen=True, slots=True)
class Wish:
    """A checked request for a capture; no pids means every watched process."""

    seconds: float
    rate: int
    mode: str
    pids: tuple[int, ...] = ()


class Capture:
    """A capture that runs or has run."""

    def __init__(self, capture_id: str, wish: Wish, began: float) -> None:
        self.id = capture_id
        self.wish = wish
        self.began = began
        self.ended: float | None = None
        self.parts: list[Part] = []
        self.stopped = False
        self.timed = False
        self.done = asyncio.Event()

    def elapsed_seconds(self, now: float) -> float:
        """Since it began, until it ended."""
        return round((now if self.ended is None else self.ended) - self.began, 3)

    def told(self, now: float) -> dict[str, object]:
        """Its state as JSON."""
        return {
            "id": self.id,
            "state": "running" if self.ended is None else "done",
            "elapsed_seconds": self.elapsed_seconds(now),
            "seconds": self.wish.seconds,
            "rate": self.wish.rate,
            "mode": self.wish.mode,
            "samples": sum(part.samples for part in self.parts),
            "windows": sum(part.windows for part in self.parts),
            "processes": [part.report().to_json() for part in self.parts],
        }


class Captures:
    """Starts captures and remembers the last hundred."""

    def __init__(
        self,
        fleet: Fleet,
        switches: Switches,
        bounds: Bounds,
        sampler_of: Callable[[str, int], Sampler],
        room: Room,
        metrics: Metrics,
        new_id: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._switches = switches
        self.bounds = bounds
        self._sampler_of = sampler_of
        self._room = room
        self._metrics = metrics
        self._new_id = new_id
        self.clock = clock
        self._captures: dict[str, Capture] = {}

    def get(self, capture_id: str) -> Capture:
        """A capture by its id; raises SidelightError (`not_found`)."""
        if capture_id not in self._captures:
            raise SidelightError(
                f"there is no capture {capture_id[:64]!r}",
                reason=Reason.NOT_FOUND,
                hint=f"The last {_REMEMBERED} captures since this sidecar started are remembered.",
            )
        return self._captures[capture_id]

    async def start(self, wish: Wish, capture_id: str = "", *, recorded: bool = False) -> Capture:
        """Begin a capture, under an id of its own or the one that is given.

        `recorded`: its parts have recordings, where the sampler can (`timed`); whoever asks closes them.

        Raises SidelightError: `nothing_to_watch`, `pid_gone` for a pid that is not watched,
        `capture_running` when one of its processes is in another, `sampler_missing`, `paused`.
        """
        if self._switches.paused:
            raise self._switches.refuse()
        timed = min(max(wish.rate * _TIMED_SECONDS, _LEAST_TIMED), _MOST_TIMED) if recorded else 0
        sampler = await asyncio.to_thread(self._sampler_of, wish.mode, timed)
        watches = [w for w in self._fleet.watches if not wish.pids or w.key.pid in wish.pids]
        missing = sorted(set(wish.pids) - {watch.key.pid for watch in watches})
        if missing:
            raise SidelightError(
                f"process {missing[0]} is not watched",
                reason=Reason.PID_GONE,
                hint="GET /readyz names those that are.",
            )
        if not watches:
            raise SidelightError(
                "no process is watched now", reason=Reason.NOTHING_TO_WATCH, hint="GET /readyz says why."
            )
        busy = [watch.key.pid for watch in watches if watch.capturing]
        if busy:
            raise SidelightError(
                f"a capture runs on process {busy[0]} already",
                reason=Reason.CAPTURE_RUNNING,
                hint="Wait for its end, or name other processes in pids.",
            )
        capture = Capture(capture_id or f"c_{self._new_id()}", wish, self.clock())
        capture.timed = sampler.timed
        capture.parts = [
            Part(
                watch.key.pid,
                lambda: self._look(capture),
                watch.role,
                self._room.open() if capture.timed else None,
            )
            for watch in watches
        ]
        self._remember(capture)
        order = Order(capture.id, wish.seconds, wish.rate, self.bounds.window_seconds, sampler)
        self._fleet.capture(order, list(zip(watches, capture.parts, strict=True)))
        return capture

    def stop(self, capture: Capture) -> None:
        """End a capture now; what was sampled is kept."""
        capture.stopped = capture.stopped or capture.ended is None
        for watch in self._fleet.watches:
            for part in capture.parts:
                if part.pid == watch.key.pid and not part.finished:
                    watch.stop_capture(part)

    def _look(self, capture: Capture) -> None:
        if capture.ended is None and all(part.finished for part in capture.parts):
            capture.ended = self.clock()
            outcome = "failed" if all(part.problem for part in capture.parts) else "done"
            self._metrics.captures.labels(outcome).inc()
            capture.done.set()

    def _remember(self, capture: Capture) -> None:
        self._captures[capture.id] = capture
        finished = [key for key, old in self._captures.items() if old.ended is not None]
        for key in finished[: max(0, len(self._captures) - _REMEMBERED)]:
            del self._captures[key]


def read_wish(raw: object, bounds: Bounds) -> Wish:
    """What a request body asks for; raises SidelightError (`bad_parameter`)."""
    if not isinstance(raw, Mapping):
        raise _bad("the body is not a JSON object")
    unknown = sorted(str(name) for name in raw if name not in _FIELDS)
    if unknown:
        raise _bad(f"there is no field {unknown[0][:64]!r}")
    seconds = _number(raw, "seconds", bounds.default_seconds, bounds.max_seconds)
    rate = _number(raw, "rate", bounds.default_rate, bounds.max_rate)
    if rate != int(rate) or rate < 1:
        raise _bad("rate is not a whole number of samples per second")
    mode = raw.get("mode", bounds.default_mode)
    if mode not in CAPTURE_MODES:
        raise _bad(f"mode {str(mode)[:64]!r} is not one of {', '.join(CAPTURE_MODES)}")
    pids = raw.get("pids", [])
    if not isinstance(pids, list) or not all(type(pid) is int and pid > 0 for pid in pids):
        raise _bad("pids is not a list of process ids")
    return Wish(seconds, int(rate), mode, tuple(pids))


def _number(raw: Mapping[object, object], name: str, default: float, most: float) -> float:
    value = raw.get(name, default)
    # A whole number may be too large for isfinite, which converts it.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise _bad(f"{name} is not a number")
    if not 0 < value <= most:
        raise _bad(f"{name} must be above 0 and at most {most:g}")
    return value


def _bad(problem: str) -> SidelightError:
    return SidelightError(
        problem,
        reason=Reason.BAD_PARAMETER,
        hint='A capture is {"seconds": 30, "rate": 100, "mode": "auto"}; "pids": [N] chooses processes.',
    )
