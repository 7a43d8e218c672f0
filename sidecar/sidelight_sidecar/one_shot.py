"""A sidecar that was attached to a pod for one capture and then exits.

Its container can never be removed from the pod, so its process must not stay. Its token names the capture
and the sidecar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from sidelight_sidecar.one_time_token import OneTimeToken

_JOB_TIMEOUT_SECONDS = 300.0
_GRACE_SECONDS = 600.0
_CHECK_SECONDS = 0.5
_PROCESS_CHECK_SECONDS, _PROCESS_CHECKS = 0.2, 50
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar")


class CaptureStatus(Protocol):
    """The part of `CapturePoller` that `OneShotCapture` uses."""

    def has_started(self, capture: str) -> bool: ...

    def is_reported(self, capture: str) -> bool: ...


class OneShotCapture:
    """Detects when a one-shot sidecar is done; `on_finished` is always called once."""

    def __init__(
        self,
        token: OneTimeToken,
        max_seconds: float,
        on_finished: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._token = token
        self._max_seconds = max_seconds
        self._on_finished = on_finished
        self._clock = clock

    async def wait_for_process(self, has_process: Callable[[], bool]) -> None:
        """Wait until a process is found, so that an immediate capture job can sample it.

        It gives up after ten seconds.
        """
        for _ in range(_PROCESS_CHECKS):
            if has_process():
                return
            await asyncio.sleep(_PROCESS_CHECK_SECONDS)

    async def run(self, status: CaptureStatus) -> None:
        """Check the capture's progress until it has ended or a timeout has passed."""
        started_at, capture = self._clock(), self._token.capture
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            elapsed = self._clock() - started_at
            if status.is_reported(capture):
                _log.info("the capture that this sidecar was attached for is over", capture=capture)
            elif not status.has_started(capture) and elapsed > _JOB_TIMEOUT_SECONDS:
                _log.warning("no order came: the capture may have ended", capture=capture, waited=elapsed)
            elif elapsed > self._max_seconds + _JOB_TIMEOUT_SECONDS + _GRACE_SECONDS:
                _log.warning("the capture does not end: this sidecar does", capture=capture)
            else:
                continue
            self._on_finished()
            return
