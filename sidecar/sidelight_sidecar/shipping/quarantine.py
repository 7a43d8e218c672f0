"""Spool files that cannot be sent, kept for diagnosis within a size limit."""

from __future__ import annotations

from pathlib import Path


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
            (self._refused_directory / f"{name}.reason.json").write_text(note)
            self._trim()

    def add_corrupt(self, path: Path) -> None:
        """Keep an unreadable file under its own name."""
        self._move(path, self._corrupt_directory / path.name)

    def _move(self, path: Path, target: Path) -> None:
        target.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            if path.stat().st_size > self._max_bytes:
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
        stats = sorted((file.stat().st_mtime_ns, file.stat().st_size, file) for file in files)
        total = sum(size for _, size, _ in stats)
        for _, size, file in stats:
            if total <= self._max_bytes:
                return
            file.unlink(missing_ok=True)
            total -= size
