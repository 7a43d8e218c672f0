"""HTTP requests to the collector, with the current token and a time limit.

They never go through a proxy.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from sidelight.client_tls import CaBundle, explain_tls_error
from sidelight.settings import BadSetting
from sidelight_model.errors import Reason
from sidelight_sidecar.descriptors import is_out_of_descriptors
from sidelight_sidecar.shipping.ingest_response import RequestOutcome

_MAX_RESPONSE_BYTES = 1 << 20
_MAX_ERROR_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The collector's URL, the token, and limits of requests; times in seconds."""

    collector: str
    token_file: Path | None
    batch_max_bytes: int
    timeout_seconds: float
    max_backoff_seconds: float
    token: str = ""
    """A token that is not in a file."""
    ca_bundle: CaBundle = field(default_factory=CaBundle)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response, cut where it is longer than any response of a collector."""

    status: int
    body: bytes
    retry_after: str | None


class RequestFailed(Exception):
    """There was no response; `stored` is None if the request may have arrived."""

    def __init__(
        self,
        message: str,
        *,
        stored: bool | None = None,
        outcome: RequestOutcome = RequestOutcome.UNREACHABLE,
        reason: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.stored = stored
        self.outcome = outcome
        self.reason = reason
        self.hint = hint


class CollectorClient:
    """Sends requests to the collector."""

    def __init__(self, config: ClientConfig, http: aiohttp.ClientSession) -> None:
        self._config = config
        self._http = http

    async def request(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], *, extra_seconds: float = 0.0
    ) -> Reply:
        """Send one request and return the reply; raises RequestFailed.

        `extra_seconds` are added to the usual timeout.
        """
        timeout = self._config.timeout_seconds + extra_seconds
        try:
            all_headers = dict(headers)
            token, tls = await asyncio.to_thread(self._read_files)
            if token:
                all_headers["Authorization"] = f"Bearer {token}"
            async with self._http.request(
                method,
                f"{self._config.collector}{path}",
                data=body,
                headers=all_headers,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
                ssl=tls,
            ) as response:
                content = await response.content.read(_MAX_RESPONSE_BYTES)
                while len(content) < _MAX_RESPONSE_BYTES and (more := await response.content.readany()):
                    content += more
                return Reply(response.status, content, response.headers.get("Retry-After"))
        except aiohttp.ClientConnectorError as error:
            if problem := explain_tls_error(error):
                raise RequestFailed(
                    problem.message, stored=False, reason=problem.reason, hint=problem.hint
                ) from error
            reason = Reason.OUT_OF_DESCRIPTORS if is_out_of_descriptors(error) else ""
            raise RequestFailed(str(error), stored=False, reason=reason) from error
        except TimeoutError as error:
            raise RequestFailed(f"no answer within {timeout:g} seconds") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The error quotes a server that does not speak HTTP, at any length.
            raise RequestFailed((str(error) or type(error).__name__)[:_MAX_ERROR_CHARACTERS]) from error

    def _read_files(self) -> tuple[str, ssl.SSLContext | bool]:
        """Return the token and the trusted authorities; raises RequestFailed."""
        if not self._config.collector.startswith("https://"):
            return self._read_token(), True
        try:
            return self._read_token(), self._config.ca_bundle.get_context()
        except BadSetting as error:
            raise RequestFailed(
                error.message, stored=False, reason=Reason.UNTRUSTED_CERTIFICATE, hint=error.hint
            ) from error

    def _read_token(self) -> str:
        file = self._config.token_file
        if file is None:
            return self._config.token
        try:
            return file.read_text().strip()
        except (OSError, ValueError) as error:
            if is_out_of_descriptors(error):
                raise RequestFailed(str(error), stored=False, reason=Reason.OUT_OF_DESCRIPTORS) from error
            raise RequestFailed(
                f"the token file {file} cannot be read: {error}",
                stored=False,
                outcome=RequestOutcome.UNAUTHORIZED,
                reason="token_file",
            ) from error
