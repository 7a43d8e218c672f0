"""The command `sidelight agent`."""

from __future__ import annotations

import os

from sidelight_sidecar.agent.settings import parse_agent_settings


def run(argv: list[str]) -> int:
    """Run the agent; return 0 after a signal, 1 if a root task died.

    Raises SidelightError if the agent cannot start.
    """
    settings = parse_agent_settings(argv, os.environ)
    # Imported here: --help and wrong settings need nothing of the server.
    import asyncio

    from sidelight import logs
    from sidelight.loop_watchdog import log_stalls, run_beside
    from sidelight_sidecar.agent.main import serve
    from sidelight_sidecar.samplers import malloc_tuning

    logs.configure(json=settings.log_json, level=settings.log_level)
    malloc_tuning.limit_arenas()
    return asyncio.run(run_beside(log_stalls(), serve(settings)))
