"""The kill switch: whatever is on pauses all sampling, and each is put out where it was put on.

A signal (SIGUSR1 on, SIGUSR2 off), a file (on while it exists) and the API (POST /pause, /resume).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from sidelight_model.errors import Reason, SidelightError
from sidelight_sidecar.metrics import SidecarMetrics

SWITCHES = ("api", "file", "signal")
_CHECK_SECONDS = 1.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.overhead.pause_control")


class PauseControl:
    """Which switches are on; nothing is sampled while any is.

    `pauses` counts how often that came about; `told` is called whenever one is turned.
    """

    def __init__(self, metrics: SidecarMetrics, *, pid: int, pause_file: Path | None) -> None:
        self._metrics = metrics
        self._pause_file = pause_file
        self._resume_hints = {
            "api": "POST /resume.",
            "file": f"Remove {pause_file}.",
            "signal": f"kill -USR2 {pid}.",
        }
        self._active_switches: set[str] = set()
        self.pause_count = 0
        self.on_change: Callable[[], None] = lambda: None
        for name in SWITCHES:
            metrics.paused.labels(name).set(0)

    @property
    def active_switches(self) -> tuple[str, ...]:
        return tuple(sorted(self._active_switches))

    @property
    def is_paused(self) -> bool:
        return bool(self._active_switches)

    @property
    def hint(self) -> str:
        """How to go on sampling."""
        return "To go on: " + " ".join(self._resume_hints[name] for name in self.active_switches)

    def set_switch(self, name: str, is_on: bool) -> None:
        """Put a switch on or out; to do so again changes nothing."""
        if is_on == (name in self._active_switches):
            return
        self.pause_count += is_on and not self._active_switches
        (self._active_switches.add if is_on else self._active_switches.discard)(name)
        self._metrics.paused.labels(name).set(int(is_on))
        self.on_change()
        if is_on:
            _log.warning("sampling is paused", switch=name, hint=self.hint)
        elif self._active_switches:
            _log.warning("sampling stays paused", switches=self.active_switches, hint=self.hint)
        else:
            _log.info("sampling goes on")

    def make_paused_error(self) -> SidelightError:
        """What is said to whoever asks for sampling meanwhile."""
        return SidelightError(
            f"sampling is paused by: {', '.join(self.active_switches)}", reason=Reason.PAUSED, hint=self.hint
        )

    def refresh(self) -> None:
        """See whether the pause file is there; one that cannot be looked for leaves all as it is."""
        if self._pause_file is None:
            return
        try:
            exists = self._pause_file.exists()
        except OSError as error:
            _log.error("the pause file cannot be looked for", file=str(self._pause_file), problem=str(error))
            return
        self.set_switch("file", exists)

    async def run(self) -> None:
        """Look at the pause file every second, if there is one to look for."""
        while self._pause_file is not None:
            await asyncio.sleep(_CHECK_SECONDS)
            self.refresh()
