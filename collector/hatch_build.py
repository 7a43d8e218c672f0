"""Puts the built web UI into the wheel, so that installing it needs no Node.

The UI comes from web/dist, which is built with npm when it is not there yet. A wheel without its UI is never
made. Editable installs take nothing from here.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGED = "sidelight_collector/ui"


class UiBuildHook(BuildHookInterface[Any]):
    """Adds every file of the built UI to `force_include`, source maps left out."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        built = built_ui(Path(self.root))
        for path in sorted(built.rglob("*")):
            if path.is_file() and path.suffix != ".map" and not path.name.startswith("."):
                build_data["force_include"][str(path)] = f"{PACKAGED}/{path.relative_to(built).as_posix()}"


def built_ui(root: Path) -> Path:
    """The directory that holds the built UI's index.html, built first if this is a checkout without one."""
    web = root.parent / "web"
    if not (web / "dist" / "index.html").is_file():
        build_ui(web)
    if not (web / "dist" / "index.html").is_file():
        raise RuntimeError(f"the build of the web UI left no index.html in {web / 'dist'}")
    return web / "dist"


def build_ui(web: Path) -> None:
    """Runs the UI's own build in `web`."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(
            "the web UI is not built and npm is not on PATH: install Node 20.19 or later, "
            "or install from the wheel, which carries the UI"
        )
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        subprocess.run([npm, *command], cwd=web, check=True)
