"""The pause switches: sampling is paused while any of them is on.

There are three: a signal (SIGUSR1 on, SIGUSR2 off), a file (on while it exists) and the API (POST /pause,
/resume). Each is turned off in the way it was turned on.
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
    """The state of the switches; nothing is sampled while any is on.

    `pause_count` counts how often sampling was paused. `on_change` is called when a switch changes.
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
        """How to resume sampling."""
        return "To go on: " + " ".join(self._resume_hints[name] for name in self.active_switches)

    def set_switch(self, name: str, is_on: bool) -> None:
        """Turn a switch on or off; does nothing if it is so already."""
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
        """Build the error for a request to sample while sampling is paused."""
        return SidelightError(
            f"sampling is paused by: {', '.join(self.active_switches)}", reason=Reason.PAUSED, hint=self.hint
        )

    def refresh(self) -> None:
        """Set the file's switch; if the file cannot be checked, nothing changes."""
        if self._pause_file is None:
            return
        try:
            exists = self._pause_file.exists()
        except OSError as error:
            _log.error("the pause file cannot be looked for", file=str(self._pause_file), problem=str(error))
            return
        self.set_switch("file", exists)

    async def run(self) -> None:
        """Call `refresh` every second if a pause file is configured."""
        while self._pause_file is not None:
            await asyncio.sleep(_CHECK_SECONDS)
            self.refresh()
