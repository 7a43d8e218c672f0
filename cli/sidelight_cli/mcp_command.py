"""`sidelight mcp`: tools for coding agents over standard input and output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight import __version__
from sidelight.settings import parse_positive_float, parse_settings, setting
from sidelight_cli.collector_api import CA_FILE_HELP, CollectorApiClient, read_token
from sidelight_model.errors import Reason, SidelightError

DESCRIPTION: Final = (
    "Serve tools for coding agents over the Model Context Protocol, on standard input and output. An agent "
    "starts this command itself: docs/agents.md has the configuration of some. Agents that speak HTTP need "
    "no command: the collector serves the same tools at /mcp."
)


@dataclass(frozen=True, slots=True)
class McpSettings:
    """Settings of `sidelight mcp`."""

    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "timeout of a request", parse=parse_positive_float)


class ThreadedApiClient:
    """Sends requests in threads, so that the event loop serves other calls."""

    def __init__(self, client: CollectorApiClient, url: str) -> None:
        self._client = client
        self.url = url.rstrip("/")

    async def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        return await asyncio.to_thread(self._client.get, path, parameters)

    async def post(self, path: str, body: Mapping[str, object]) -> Any:
        return await asyncio.to_thread(self._client.send, "POST", path, body)


def run(argv: Sequence[str]) -> int:
    """Serve until standard input ends.

    Raises SidelightError if the package is missing.
    """
    settings = parse_settings(McpSettings, "mcp", DESCRIPTION, argv, os.environ)
    try:
        from sidelight_mcp.tool_server import build_server
    except ModuleNotFoundError as error:
        raise SidelightError(
            f"the tools for coding agents are not installed: {error}",
            reason=Reason.BAD_SETTING,
            hint="Install them: pip install 'sidelight-cli[mcp]'.",
        ) from error
    client = CollectorApiClient(
        settings.collector,
        token=read_token(settings.token_file),
        timeout_seconds=settings.timeout_seconds,
        ca_file=settings.ca_file,
    )
    build_server(ThreadedApiClient(client, settings.collector), __version__).run("stdio")
    return 0
