"""Send windows to a server of Pyroscope's protocol or of OTLP.

Sending blocks, so it is for threads.
"""

from __future__ import annotations

import gzip
import http.client
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from sidelight import __version__
from sidelight_collector.auth.otlp_errors import OTLP_PATH, PROTOBUF_TYPE
from sidelight_collector.forwarding.forward_body import encode_otlp, encode_push
from sidelight_collector.ingest.handler import FORWARDED_HEADER
from sidelight_collector.stack_hashing import HashedWindow

PUSH_PATH: Final = "/push.v1.PusherService/Push"
_GZIP_LEVEL: Final = 1
_MAX_ANSWER_BYTES: Final = 500
_RETRIED: Final = (408, 429, 500, 502, 503, 504)


class ForwardFailed(Exception):
    """A request failed; `is_temporary` tells whether to repeat it."""

    def __init__(self, problem: str, *, is_temporary: bool) -> None:
        super().__init__(problem)
        self.is_temporary = is_temporary


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: following one would send the token to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class ForwardClient:
    """A client of one server.

    A `url` with the path of OTLP profiles is one of OTLP, any other one of Pyroscope's protocol.
    """

    url: str
    token: str = field(default="", repr=False)
    timeout_seconds: float = 10.0
    _opener: OpenerDirector = field(default_factory=lambda: build_opener(_NoRedirects()))

    @property
    def is_otlp(self) -> bool:
        return urlsplit(self.url).path.rstrip("/").endswith(OTLP_PATH)

    def send(self, windows: Sequence[HashedWindow]) -> None:
        """Send windows in one request. Raises ForwardFailed."""
        if self.is_otlp:
            url, body, content_type = self.url, encode_otlp(windows), PROTOBUF_TYPE
        else:
            url = self.url.rstrip("/")
            url = url if url.endswith(PUSH_PATH) else f"{url}{PUSH_PATH}"
            body, content_type = encode_push(windows), "application/proto"
        headers = {
            "Content-Type": content_type,
            "Content-Encoding": "gzip",
            "User-Agent": f"sidelight/{__version__}",
            FORWARDED_HEADER: "1",
        }
        if self.token:
            # http.client encodes headers as Latin-1, and collectors read them as UTF-8.
            headers["Authorization"] = f"Bearer {self.token}".encode().decode("latin-1")
        request = Request(url, gzip.compress(body, _GZIP_LEVEL), headers, method="POST")  # noqa: S310 - checked
        try:
            with self._opener.open(request, timeout=self.timeout_seconds) as response:
                response.read(_MAX_ANSWER_BYTES)
        except HTTPError as error:
            with error:
                said = error.read(_MAX_ANSWER_BYTES).decode(errors="replace")
            raise ForwardFailed(f"{error.code} {said}", is_temporary=error.code in _RETRIED) from error
        except (OSError, http.client.HTTPException) as error:
            raise ForwardFailed(str(error) or type(error).__name__, is_temporary=True) from error
