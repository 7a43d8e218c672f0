"""The command `sidelight collector`."""

from __future__ import annotations

import os

from sidelight.settings import parse_settings
from sidelight_collector.settings.collector import Settings

DESCRIPTION = "Store windows that sidecars ship; serve the API and the web UI."


def run(argv: list[str]) -> int:
    """Serve until a signal; return 0. Raises SidelightError if it cannot start."""
    settings = parse_settings(Settings, "collector", DESCRIPTION, argv, os.environ)
    # Numpy reads it when it is imported. The matrices of verdicts are small: more threads would wait for each
    # other, and count as CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported here: --help and wrong settings need nothing of the server.
    from sidelight import logs
    from sidelight_collector.main import main

    logs.configure(json=settings.log_json, level=settings.log_level)
    return main(settings)
