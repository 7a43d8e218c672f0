"""The Pythons of this machine that the programs run on."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

OLDEST, NEWEST = 8, 15
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
UV = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))


def found() -> dict[int, Path]:
    """By minor version, an interpreter of each Python 3.8 to 3.15 that is installed. The one that runs this
    stands for its own version."""
    paths: dict[int, Path] = {}
    for folder in (PYENV, UV):
        for path in sorted(folder.glob("*3.*/bin/python3")):
            version = re.search(r"\b3\.(\d+)(?:\.\d+)?(?:-linux.*)?$", path.parts[-3])
            if version and OLDEST <= int(version[1]) <= NEWEST:
                paths.setdefault(int(version[1]), path)
    paths[int(platform.python_version_tuple()[1])] = Path(sys.executable)
    return dict(sorted(paths.items()))


def free_threaded() -> dict[str, Path]:
    """By version, an interpreter of each free-threaded Python that can be sampled."""
    return {path.parts[-3]: path for path in sorted(PYENV.glob("3.13.*t/bin/python3"))}


def builds() -> dict[str, Path]:
    """By version, like "3.13" or "3.13t", an interpreter of each Python that the programs run on."""
    pythons = {f"3.{minor}": path for minor, path in found().items()}
    return pythons | {f"{version.rpartition('.')[0]}t": path for version, path in free_threaded().items()}


def few() -> dict[int, Path]:
    """The interpreter that runs this, and the oldest and the newest of the others."""
    paths = found()
    wanted = {min(paths), sys.version_info.minor, max(paths)}
    return {minor: path for minor, path in paths.items() if minor in wanted}
