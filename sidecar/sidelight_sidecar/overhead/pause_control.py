"""The kill switch: whatever is on pauses all sampling, and each is put out where it was put on.

A signal (SIGUSR1 on, SIGUSR2 off), a file (on while it exists) and the API (POST /pause, /resume).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.metrics import Metrics

NAMES = ("api", "file", "signal")
_LOOK_SECONDS = 1.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.overhead.pause_control")


class Switches:
    """Which switches are on; nothing is sampled while any is.

    `pauses` counts how often that came about; `told` is called whenever one is turned.
    """

    def __init__(self, metrics: Metrics, *, pid: int, pause_file: Path | None) -> None:
        self._metrics = metrics
        self._pause_file = pause_file
        self._put_out = {
            "api": "POST /resume.",
            "file": f"Remove {pause_file}.",
            "signal": f"kill -USR2 {pid}.",
        }
        self._on: set[str] = set()
        self.pauses = 0
        self.told: Callable[[], None] = lambda: None
        for name in NAMES:
            metrics.paused.labels(name).set(0)

    @property
    def on(self) -> tuple[str, ...]:
        return tuple(sorted(self._on))

    @property
    def paused(self) -> bool:
        return bool(self._on)

    @property
    def hint(self) -> str:
        """How to go on sampling."""
        return "To go on: " + " ".join(self._put_out[name] for name in self.on)

    def turn(self, name: str, on: bool) -> None:
        """Put a switch on or out; to do so again changes nothing."""
        if on == (name in self._on):
            return
        self.pauses += on and not self._on
        (self._on.add if on else self._on.discard)(name)
        self._metrics.paused.labels(name).set(int(on))
        self.told()
        if on:
            _log.warning("sampling is paused", switch=name, hint=self.hint)
        elif self._on:
            _log.warning("sampling stays paused", switches=self.on, hint=self.hint)
        else:
            _log.info("sampling goes on")

    def refuse(self) -> SidelightError:
        """What is said to whoever asks for sampling meanwhile."""
        return SidelightError(
            f"sampling is paused by: {', '.join(self.on)}", reason=Reason.PAUSED, hint=self.hint
        )

    def look(self) -> None:
        """See whether the pause file is there; one that cannot be looked for leaves all as it is."""
        if self._pause_file is None:
            return
        try:
            there = self._pause_file.exists()
        except OSError as error:
            _log.error("the pause file cannot be looked for", file=str(self._pause_file), problem=str(error))
            return
        self.turn("file", there)

    async def run(self) -> None:
        """Look at the pause file every second, if there is one to look for."""
        while self._pause_file is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()
