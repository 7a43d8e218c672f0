"""Spool files that cannot be sent, kept for diagnosis within a size limit."""

from __future__ import annotations

import stat
from pathlib import Path

from sidelight_sidecar.shipping import atomic_file


class Quarantine:
    """The folders `refused/` and `corrupt/`, together at most `max_bytes`.

    The oldest files are deleted first.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._refused_directory = folder / "refused"
        self._corrupt_directory = folder / "corrupt"
        self._max_bytes = max_bytes

    def add_refused(self, path: Path, name: str, note: str) -> None:
        """Keep a refused window, with the reason beside it in `<name>.reason.json`."""
        self._move(path, self._refused_directory / name)
        if (self._refused_directory / name).exists():
            atomic_file.write_file(self._refused_directory / f"{name}.reason.json", note.encode())
            self._trim()

    def add_corrupt(self, path: Path) -> None:
        """Keep an unreadable file under its own name."""
        self._move(path, self._corrupt_directory / path.name)

    def _move(self, path: Path, target: Path) -> None:
        if target.parent.is_symlink():
            target.parent.unlink()
        target.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            if path.lstat().st_size > self._max_bytes:
                path.unlink()
            else:
                path.rename(target)
        except FileNotFoundError:
            return
        self._trim()

    def _trim(self) -> None:
        files = [
            file for folder in (self._refused_directory, self._corrupt_directory) for file in folder.glob("*")
        ]
        statuses = [(file.lstat(), file) for file in files]
        stats = sorted(
            (status.st_mtime_ns, status.st_size, file)
            for status, file in statuses
            if not stat.S_ISDIR(status.st_mode)
        )
        total = sum(size for _, size, _ in stats)
        for _, size, file in stats:
            if total <= self._max_bytes:
                return
            file.unlink(missing_ok=True)
            total -= size
