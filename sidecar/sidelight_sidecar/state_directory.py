"""The directory for files that survive a restart."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from sidelight.settings import BadSetting


def find_state_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory for files that survive a restart.

    It is $XDG_STATE_HOME, or ~/.local/state, or $XDG_RUNTIME_DIR for a user without a home (XDG Base
    Directory Specification).

    Raises BadSetting if there is none.
    """
    directories = [Path(environ.get(name, "")) for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")]
    with contextlib.suppress(RuntimeError):  # this user has no home directory
        if (home := Path.home()).is_dir():
            directories.insert(1, home / ".local" / "state")
    for directory in directories:
        if directory.is_absolute():
            return directory
    raise BadSetting(
        "there is no directory for the spool: this user has no home directory",
        hint="Set --spool-dir to a directory that only this user can write.",
    )
