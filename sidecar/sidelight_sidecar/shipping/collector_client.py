"""Requests to the collector: with the token as it is now, bounded in time, and never through a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from sidelight_sidecar.shipping.ingest_response import Outcome

_MAX_ANSWER_BYTES = 1 << 20
_MAX_SAID = 200


@dataclass(frozen=True, slots=True)
class Route:
    """Where windows go and how patiently; times in seconds."""

    collector: str
    token_file: Path | None
    batch_max_bytes: int
    timeout: float
    backoff_max: float
    token: str = ""
    """A token that stands in no file."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer; its body is cut where it is longer than any collector's."""

    status: int
    body: bytes
    retry_after: str | None


class Unanswered(Exception):
    """There was no answer; `stored` is None when the request may have arrived all the same."""

    def __init__(
        self,
        message: str,
        *,
        stored: bool | None = None,
        outcome: Outcome = Outcome.UNREACHABLE,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.stored = stored
        self.outcome = outcome
        self.reason = reason


class Reach:
    """Asks the collector."""

    def __init__(self, route: Route, http: aiohttp.ClientSession) -> None:
        self._route = route
        self._http = http

    async def ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, patience: float = 0.0
    ) -> Reply:
        """One request; raises Unanswered. `patience`: seconds that it may take beyond the usual."""
        timeout = self._route.timeout + patience
        try:
            sent = dict(headers)
            if token := await asyncio.to_thread(self._token):
                sent["Authorization"] = f"Bearer {token}"
            async with self._http.request(
                method,
                f"{self._route.collector}{path}",
                data=body,
                headers=sent,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as response:
                told = await response.content.read(_MAX_ANSWER_BYTES)
                while len(told) < _MAX_ANSWER_BYTES and (more := await response.content.readany()):
                    told += more
                return Reply(response.status, told, response.headers.get("Retry-After"))
        except aiohttp.ClientConnectorError as error:
            raise Unanswered(str(error), stored=False) from error
        except TimeoutError as error:
            raise Unanswered(f"no answer within {timeout:g} seconds") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # What answers without speaking HTTP is quoted in the error: as much of it as it likes to send.
            raise Unanswered((str(error) or type(error).__name__)[:_MAX_SAID]) from error

    def _token(self) -> str:
        file = self._route.token_file
        if file is None:
            return self._route.token
        try:
            return file.read_text().strip()
        except (OSError, ValueError) as error:
            raise Unanswered(
                f"the token file {file} cannot be read: {error}",
                stored=False,
                outcome=Outcome.UNAUTHORIZED,
                reason="token_file",
            ) from error
