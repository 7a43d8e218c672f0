"""HTTP requests with the standard library.

`collector_api` imports it when a command has its settings: its imports are a third of a command's start.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sidelight.client_tls import CaBundle, explain_tls_error
from sidelight_cli.collector_errors import NOT_A_COLLECTOR_HINT, CollectorUnreachable, RequestRefused
from sidelight_model.errors import Reason

CHUNK_BYTES: Final = 1 << 16
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_NETWORK_ERRORS: Final = (
    *(urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, zlib.error),
    UnicodeError,  # a host or path that no request can name
)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: following one would send the token to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


class ApiTransport:
    """Sends requests to the server at a URL. `ca_file` is as for `CollectorApiClient`."""

    def __init__(self, url: str, timeout_seconds: float, ca_file: Path | None) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=CaBundle(ca_file).get_context()))
        self._opener = urllib.request.build_opener(*handlers)

    @contextmanager
    def open(
        self, method: str, path: str, headers: Mapping[str, str], content: bytes | None
    ) -> Iterator[tuple[Mapping[str, str], Iterator[bytes]]]:
        """Send a request; yield the headers of the response, and its body as it arrives.

        Raises CollectorUnreachable or RequestRefused.
        """
        request = urllib.request.Request(f"{self._url}/{path}", content, dict(headers), method=method)  # noqa: S310 - the scheme was checked
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                gzipped = response.headers.get("Content-Encoding") == "gzip"
                yield response.headers, _iter_chunks(response, gzipped=gzipped)
        except urllib.error.HTTPError as error:
            with error:
                raise _parse_refusal(error) from error
        except _NETWORK_ERRORS as error:
            if isinstance(error, BrokenPipeError):
                raise  # from the caller: the reader of its output has closed the pipe
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if problem := explain_tls_error(error):
                raise CollectorUnreachable(
                    f"no connection to {self._url}: {problem.message}",
                    reason=problem.reason,
                    hint=problem.hint,
                ) from error
            raise CollectorUnreachable(
                f"no answer from {self._url}: {cause or type(error).__name__}",
                hint="Check the address, that the collector runs, and that it can be reached from here.",
            ) from error


def _iter_chunks(response: http.client.HTTPResponse, *, gzipped: bool) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(_GZIP_FORMAT) if gzipped else None
    while chunk := _read_chunk(response):
        yield decompressor.decompress(chunk) if decompressor else chunk
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    if decompressor:
        yield decompressor.flush()
        if not decompressor.eof:
            raise http.client.IncompleteRead(b"")


def _read_chunk(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK_BYTES)
    except OSError as error:
        raise urllib.error.URLError(error) from error  # distinct from an OSError of the chunks' consumer


def _parse_refusal(error: urllib.error.HTTPError) -> RequestRefused:
    """Parse an error response, which a proxy may have sent instead of the collector."""
    try:
        document = json.loads(error.read())
        return RequestRefused(
            error.code, Reason(document["error"]), str(document["message"]), str(document.get("hint", ""))
        )
    except (ValueError, KeyError, TypeError, http.client.HTTPException, OSError):
        return RequestRefused(
            error.code,
            Reason.COLLECTOR_UNREACHABLE,
            f"{error.url} answered {error.code} {error.reason}",
            NOT_A_COLLECTOR_HINT,
        )
