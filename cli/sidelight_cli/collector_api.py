"""A small client of the collector's API that needs only the standard library."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight import __version__
from sidelight.settings import BadSetting
from sidelight_cli.collector_errors import NOT_A_COLLECTOR_HINT, CollectorUnreachable
from sidelight_model.errors import Reason, SidelightError

CA_FILE_HELP: Final = (
    "PEM file of the authorities to trust for an https:// collector; without it, the system's"
)


@dataclass(frozen=True, slots=True)
class ResponseStream:
    """A response being received; `chunks` yields its uncompressed body as it arrives."""

    headers: Mapping[str, str]
    chunks: Iterator[bytes]

    def get_int(self, header: str) -> int:
        """Return an integer header; 0 if it is absent or no integer."""
        text = self.headers.get(header) or ""
        return int(text) if text.isdigit() else 0


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
        # Imported here: --help and wrong settings need no HTTP.
        from sidelight_cli.api_transport import ApiTransport

        self._transport = ApiTransport(self._url, timeout_seconds, ca_file)

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
        with self._transport.open("POST", path, headers, content) as (_, chunks):
            b"".join(chunks)

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
        target = f"api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        with self._transport.open(method, target, headers, content) as response:
            yield ResponseStream(*response)


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


def is_collector_url(url: str) -> bool:
    """Whether API paths can be appended to this HTTP URL; it has no password."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    is_base = parts.scheme in ("http", "https") and bool(parts.netloc) and not (parts.query or parts.fragment)
    return is_base and "@" not in parts.netloc
