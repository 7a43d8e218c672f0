"""The command `sidelight injector`."""

from __future__ import annotations

import os

from sidelight.settings import parse_settings
from sidelight_injector.settings import Settings

DESCRIPTION = "Put a sidecar into the pods that ask for one: an admission webhook for Kubernetes."


def run(argv: list[str]) -> int:
    """Serve until a signal, then return 0, or 1 if a root task failed.

    Raises SidelightError if the injector cannot start.
    """
    settings = parse_settings(Settings, "injector", DESCRIPTION, argv, os.environ)
    # Imported here: --help and wrong settings need nothing of the server.
    import asyncio

    from sidelight import logs
    from sidelight.loop_watchdog import log_stalls, run_beside
    from sidelight_injector.main import serve

    logs.configure(json=settings.log_json, level=settings.log_level)
    return asyncio.run(run_beside(log_stalls(), serve(settings)))
