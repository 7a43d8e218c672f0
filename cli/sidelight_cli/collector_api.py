"""A small client of the collector's read API, on the standard library alone."""

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
from sidelight.settings import BadSetting
from sidelight_model.errors import Reason, SidelightError

CHUNK_BYTES: Final = 1 << 16
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS


NOT_A_COLLECTOR_HINT: Final = (
    "This does not look like a Sidelight collector: check the address and its path prefix."
)


class CollectorUnreachable(SidelightError):
    """The collector did not answer, or stopped in the middle of its answer."""

    reason = Reason.COLLECTOR_UNREACHABLE


class RequestRefused(SidelightError):
    """The collector answered that it will not; reason, message and hint are its own."""

    def __init__(self, status: int, reason: Reason, message: str, hint: str) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class ResponseStream:
    """An answer under way: `chunks` are its body as it arrives, not compressed."""

    headers: Mapping[str, str]
    chunks: Iterator[bytes]

    def get_int(self, header: str) -> int:
        """A header that is a whole number; 0 when it is absent."""
        text = self.headers.get(header) or ""
        return int(text) if text.isdigit() else 0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: following one would hand the token to whoever is named there."""

    def redirect_request(self, *_: object) -> None:
        return None


class CollectorApiClient:
    """Asks one collector; `url` is where its UI is, with a path prefix if it has one."""

    def __init__(self, url: str, *, token: str = "", timeout_seconds: float = 60.0) -> None:
        if not is_collector_url(url):
            raise SidelightError(
                f"{url!r} is not the address of a collector",
                reason=Reason.BAD_SETTING,
                hint="Write it as http://HOST:PORT or https://HOST/PREFIX.",
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
            # http.client writes headers as Latin-1; the bytes that go out are UTF-8.
            self._headers["Authorization"] = f"Bearer {token}".encode().decode("latin-1")
        self._opener = urllib.request.build_opener(_NoRedirects)

    def send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON answer of `/api/v1/<path>` to a request that changes something; None if it has no body."""
        content = None if body is None else json.dumps(body).encode()
        with self.stream(path, {}, method=method, content=content) as answer:
            text = b"".join(answer.chunks)
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise CollectorUnreachable(
                f"{self._url} answered what is not JSON", hint=NOT_A_COLLECTOR_HINT
            ) from error

    def get(self, path: str, parameters: Mapping[str, str | Sequence[str]]) -> Any:
        """The JSON answer of `/api/v1/<path>`. Raises Unreachable or Refused."""
        with self.stream(path, parameters) as answer:
            text = b"".join(answer.chunks)
        try:
            return json.loads(text)
        except ValueError as error:
            raise CollectorUnreachable(
                f"{self._url} answered what is not JSON", hint=NOT_A_COLLECTOR_HINT
            ) from error

    @contextmanager
    def stream(
        self,
        path: str,
        parameters: Mapping[str, str | Sequence[str]],
        *,
        method: str = "GET",
        content: bytes | None = None,
    ) -> Iterator[ResponseStream]:
        """The answer of `/api/v1/<path>` as it arrives; a parameter of several values is given several times.

        Raises Unreachable or Refused.
        """
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310 - the scheme was checked
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as response:
                gzipped = response.headers.get("Content-Encoding") == "gzip"
                yield ResponseStream(response.headers, _iter_chunks(response, gzipped=gzipped))
        except urllib.error.HTTPError as error:
            with error:
                raise _parse_refusal(error) from error
        except _NETWORK_ERRORS as error:
            if isinstance(error, BrokenPipeError):
                raise  # the reader of our own output went away
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            raise CollectorUnreachable(
                f"no answer from {self._url}: {cause or type(error).__name__}",
                hint="Check the address, that the collector runs, and that it can be reached from here.",
            ) from error


def read_token(file: Path | None) -> str:
    """The bearer token in a file, empty without a file. Raises BadSetting."""
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
    """Whether this is a URL that paths can be added to."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and not (parts.query or parts.fragment)


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
        raise urllib.error.URLError(error) from error  # unlike one of whoever takes the chunks


def _parse_refusal(error: urllib.error.HTTPError) -> RequestRefused:
    """What the collector said; something in between may have answered in its place, in any words."""
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
