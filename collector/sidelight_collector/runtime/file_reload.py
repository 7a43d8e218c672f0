"""Files that are loaded again when they change.

A file is read at each check, by its path: an atomic replacement, and the swap of the link `..data` with which
the kubelet updates a mounted Secret, both count as a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from sidelight.waiting import wait_for_event
from sidelight_model.errors import SidelightError

Content = TypeVar("Content")
_log = structlog.get_logger()


def get_message(error: SidelightError) -> str:
    return error.message


class FileReloader(Generic[Content]):
    """Loads files at intervals.

    `read` returns the content, or raises SidelightError. `use` takes it into use, and returns whether it
    differs from the content before. Content that cannot be read is logged, and the previous content stays in
    use. `count` receives `loaded` for each change, and `failed` for each fault. `describe` words such an
    error for `/readyz`, which everybody may read.
    """

    def __init__(
        self,
        subject: str,
        read: Callable[[], Content],
        use: Callable[[Content], bool],
        count: Callable[[str], None],
        *,
        describe: Callable[[SidelightError], str] = get_message,
    ) -> None:
        self._subject = subject
        self._read = read
        self._use = use
        self._count = count
        self._describe = describe
        self._error: SidelightError | None = None

    def describe_problems(self) -> list[str]:
        """Describe why the files cannot be used now, if they cannot."""
        return [self._describe(self._error)] if self._error else []

    async def check(self) -> None:
        """Load the files if they have changed."""
        try:
            if self._use(await asyncio.to_thread(self._read)):
                self._count("loaded")
                _log.info(f"{self._subject} loaded")
            self._error = None
        except SidelightError as error:
            self._count("failed")
            if self._error is None or self._error.message != error.message:
                _log.error(f"{self._subject} not loaded", error=error.message, hint=error.hint)
            self._error = error

    async def run(self, stop: asyncio.Event, interval_seconds: float) -> None:
        """Check the files at each interval until `stop` is set. A root task."""
        while not await wait_for_event(stop, interval_seconds):
            await self.check()
