"""A small client of the collector's API that needs only the standard library."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight import __version__
from sidelight.client_tls import CaBundle, explain_tls_error
from sidelight.settings import BadSetting
from sidelight_model.errors import Reason, SidelightError

CHUNK_BYTES: Final = 1 << 16
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS


CA_FILE_HELP: Final = (
    "PEM file of the authorities to trust for an https:// collector; without it, the system's"
)
NOT_A_COLLECTOR_HINT: Final = (
    "This does not look like a Sidelight collector: check the address and its path prefix."
)


class CollectorUnreachable(SidelightError):
    """The collector sent no valid response, or broke off in the middle of it."""

    reason = Reason.COLLECTOR_UNREACHABLE


class RequestRefused(SidelightError):
    """The collector refused a request.

    Reason, message and hint come from its response; `status` is the HTTP status.
    """

    def __init__(self, status: int, reason: Reason, message: str, hint: str) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class ResponseStream:
    """A response being received; `chunks` yields its uncompressed body as it arrives."""

    headers: Mapping[str, str]
    chunks: Iterator[bytes]

    def get_int(self, header: str) -> int:
        """Return an integer header; 0 if it is absent or no integer."""
        text = self.headers.get(header) or ""
        return int(text) if text.isdigit() else 0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: following one would send the token to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


class CollectorApiClient:
    """A client of one collector.

    `url` is the address of its UI, including a path prefix if there is one. `ca_file` has the authorities to
    trust, if not the system's. The constructor raises SidelightError if one of the arguments is invalid.
    """

    def __init__(
        self, url: str, *, token: str = "", timeout_seconds: float = 60.0, ca_file: Path | None = None
    ) -> None:
        if not is_collector_url(url):
            raise SidelightError(
                f"{url!r} is not the address of a collector",
                reason=Reason.BAD_SETTING,
                hint="Write it as http://HOST:PORT or https://HOST/PREFIX; --token-file has the token.",
            )
        self._url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._headers = {"Accept-Encoding": "gzip", "User-Agent": f"sidelight/{__version__}"}
        if not token.isprintable():
            raise SidelightError(
                "the token is not one line of printable text",
                reason=Reason.BAD_SETTING,
                hint="Give one token: a file of several is for the collector.",
            )
        if token:
            # http.client encodes headers as Latin-1; this makes it send the token as UTF-8.
            self._headers["Authorization"] = f"Bearer {token}".encode().decode("latin-1")
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=CaBundle(ca_file).get_context()))
        self._opener = urllib.request.build_opener(*handlers)

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Send a request that changes something to `/api/v1/<path>`.

        Returns the JSON response, or None if it has no body. Raises CollectorUnreachable or RequestRefused.
        """
        content = None if body is None else json.dumps(body).encode()
        with self.stream(path, {}, method=method, content=content) as response:
            text = b"".join(response.chunks)
        return self._parse_json(text) if text else None

    def get(self, path: str, parameters: Mapping[str, str | Sequence[str]]) -> Any:
        """Return the JSON response of `/api/v1/<path>`.

        Raises CollectorUnreachable or RequestRefused.
        """
        with self.stream(path, parameters) as response:
            return self._parse_json(b"".join(response.chunks))

    def _parse_json(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise CollectorUnreachable(
                f"{self._url} answered what is not JSON", hint=NOT_A_COLLECTOR_HINT
            ) from error

    def post(self, path: str, content: bytes, content_type: str) -> None:
        """Send gzipped content to a path of the collector, not below /api/v1.

        Raises CollectorUnreachable or RequestRefused.
        """
        headers = {**self._headers, "Content-Type": content_type, "Content-Encoding": "gzip"}
        request = urllib.request.Request(f"{self._url}/{path}", content, headers, method="POST")  # noqa: S310 - the scheme was checked
        with self._open(request) as response:
            b"".join(response.chunks)

    @contextmanager
    def stream(
        self,
        path: str,
        parameters: Mapping[str, str | Sequence[str]],
        *,
        method: str = "GET",
        content: bytes | None = None,
    ) -> Iterator[ResponseStream]:
        """Stream the response of `/api/v1/<path>`.

        A parameter with several values is repeated in the query. Raises CollectorUnreachable or
        RequestRefused.
        """
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310 - the scheme was checked
        with self._open(request) as response:
            yield response

    @contextmanager
    def _open(self, request: urllib.request.Request) -> Iterator[ResponseStream]:
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                gzipped = response.headers.get("Content-Encoding") == "gzip"
                yield ResponseStream(response.headers, _iter_chunks(response, gzipped=gzipped))
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


def read_token(file: Path | None) -> str:
    """Read the bearer token from a file; empty without a file.

    Raises BadSetting if the file cannot be read or has no token.
    """
    if file is None:
        return ""
    try:
        token = file.read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"cannot read the token in {file}: {error}", hint="Check --token-file.") from error
    if not token:
        raise BadSetting(f"there is no token in {file}", hint="Check --token-file.")
    return token


_NETWORK_ERRORS: Final = (
    *(urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, zlib.error),
    UnicodeError,  # a host or path that no request can name
)


def is_collector_url(url: str) -> bool:
    """Whether API paths can be appended to this HTTP URL; it has no password."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    is_base = parts.scheme in ("http", "https") and bool(parts.netloc) and not (parts.query or parts.fragment)
    return is_base and "@" not in parts.netloc


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
