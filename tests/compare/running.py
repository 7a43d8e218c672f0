"""`sidelight compare` as a process."""

from __future__ import annotations

import os
import subprocess

from tests.running import sidelight

SIDES = ("--baseline", "version:1", "--comparison", "version:2", '{service="shop"}')


def compare(*argv: str, url: str = "") -> subprocess.CompletedProcess[str]:
    """Run it to its end; `url` is that of a collector."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SIDELIGHT_")}
    environment["COLUMNS"] = "100"
    if url:
        environment["SIDELIGHT_COLLECTOR"] = url
    return subprocess.run(
        sidelight("compare", *argv), capture_output=True, text=True, timeout=120, env=environment, check=False
    )
