"""An HTTP client of ClickHouse that sends a statement and receives an Arrow table.

The statement and its parameters are fields of a form, because a URL is too short for them. The server binds
the parameters: no value becomes part of the SQL text. The user and the password are in a header, which no
log contains. The server sends the response only when it is complete (`wait_end_of_query`), so that an error
is never half a table.

https://clickhouse.com/docs/interfaces/http
"""

import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

import pyarrow as pa
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

import sidelight
from sidelight_collector.settings.engine_url import ClickHouseUrl

MAX_CONNECTIONS: Final = 64
CONNECT_TIMEOUT_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 1.0
"""Extra time for the server to report that the statement timed out."""
MAX_ERROR_CHARACTERS: Final = 400
CHUNK_BYTES: Final = 1 << 20

_TIMEOUT_EXCEEDED: Final = (
    "159"  # https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
)


class EngineFailure(StrEnum):
    """Reasons for a failed request to an engine."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    INVALID_RESPONSE = "invalid"


class ClickHouseError(Exception):
    """The engine did not execute a statement; the text contains no secrets."""

    def __init__(self, cause: EngineFailure, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class ClickHouseClient:
    """A client of one server; thread-safe."""

    def __init__(self, server: ClickHouseUrl) -> None:
        self.server = server
        if server.secure:
            self._pool: urllib3.HTTPConnectionPool = urllib3.HTTPSConnectionPool(
                server.host, server.port, maxsize=MAX_CONNECTIONS, retries=False, cert_reqs="CERT_REQUIRED"
            )
        else:
            self._pool = urllib3.HTTPConnectionPool(
                server.host, server.port, maxsize=MAX_CONNECTIONS, retries=False
            )
        login = b64encode(f"{server.user}:{server.password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "User-Agent": f"sidelight/{sidelight.__version__}",
            # The server may close a reused connection at the moment of the next request.
            "Connection": "close",
        }

    def query(
        self,
        statement: str,
        parameters: Mapping[str, str],
        timeout_seconds: float,
        remaining: Callable[[], float],
    ) -> pa.Table:
        """Execute a statement that ends in `FORMAT Arrow`, and return its result.

        `remaining` returns the seconds until the deadline of the query, and raises after it. Raises
        ClickHouseError, and what `remaining` raises.
        """
        url = "/?" + urlencode(
            {"wait_end_of_query": 1, "max_execution_time": max(math.floor(timeout_seconds), 1)}
        )
        fields = {"query": statement, **{f"param_{name}": value for name, value in parameters.items()}}
        wait = min(timeout_seconds + GRACE_SECONDS, remaining())
        timeout = urllib3.Timeout(connect=min(CONNECT_TIMEOUT_SECONDS, wait), read=wait)
        try:
            with self._pool.request(
                "POST",
                url,
                fields=fields,
                headers=self._headers,
                timeout=timeout,
                redirect=False,
                preload_content=False,
            ) as answer:
                body = bytearray()
                for chunk in answer.stream(CHUNK_BYTES):
                    body += chunk
                    remaining()
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise ClickHouseError(EngineFailure.UNREACHABLE, self._sanitize(str(error))) from error
        except ReadTimeoutError as error:
            raise ClickHouseError(EngineFailure.TIMEOUT, f"no answer within {wait:.1f} s") from error
        except HTTPError as error:
            raise ClickHouseError(EngineFailure.UNREACHABLE, self._sanitize(str(error))) from error
        if answer.status != 200:
            code = answer.headers.get("X-ClickHouse-Exception-Code", "")
            cause = EngineFailure.TIMEOUT if code == _TIMEOUT_EXCEEDED else EngineFailure.REFUSED
            raise ClickHouseError(cause, self._sanitize(f"{answer.status}: {body.decode(errors='replace')}"))
        try:
            return pa.ipc.open_file(pa.BufferReader(bytes(body))).read_all()
        except (pa.ArrowException, OSError) as error:
            raise ClickHouseError(
                EngineFailure.INVALID_RESPONSE, f"the answer is no Arrow table: {error}"
            ) from error

    def _sanitize(self, text: str) -> str:
        """Make a text of the server safe to log: short, on one line, without the password."""
        plain = text.replace(self.server.password, "***") if self.server.password else text
        line = " ".join(plain.split())
        return line if len(line) <= MAX_ERROR_CHARACTERS else f"{line[:MAX_ERROR_CHARACTERS]} …"
