"""The command `sidelight sidecar`."""

from __future__ import annotations

import os

from sidelight_sidecar.settings import parse_sidecar_settings


def run(argv: list[str]) -> int:
    """Run the sidecar; return 0 after a signal, 1 if a root task died.

    Raises SidelightError if the sidecar cannot start.
    """
    settings = parse_sidecar_settings(argv, os.environ)
    # Imported here: --help and wrong settings need nothing of the server.
    import asyncio

    from sidelight import logs
    from sidelight.loop_watchdog import log_stalls, run_beside
    from sidelight_sidecar.main import serve
    from sidelight_sidecar.samplers import malloc_tuning

    logs.configure(json=settings.log_json, level=settings.log_level)
    malloc_tuning.limit_arenas()
    return asyncio.run(run_beside(log_stalls(), serve(settings)))
