"""An HTTP client of ClickHouse that sends a statement and receives an Arrow table.

The statement and its parameters are fields of a form, because a URL is too short for them. The server binds
the parameters: no value becomes part of the SQL text. The user and the password are in a header, which no
log contains. The server sends the response only when it is complete (`wait_end_of_query`), so that an error
is never half a table.

https://clickhouse.com/docs/interfaces/http
"""

import math
from base64 import b64encode
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

import pyarrow as pa
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

import sidelight
from sidelight_collector.query.engines.sum_statements import (
    EngineError,
    EngineFailure,
    SqlStatement,
    sanitize_error,
)
from sidelight_collector.settings.engine import ClickHouseUrl

MAX_CONNECTIONS: Final = 64
CONNECT_TIMEOUT_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 1.0
"""Extra time for the server to report that the statement timed out."""
CHUNK_BYTES: Final = 1 << 20

_TIMEOUT_EXCEEDED: Final = (
    "159"  # https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
)


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
        self, statement: SqlStatement, timeout_seconds: float, remaining: Callable[[], float]
    ) -> pa.Table:
        """Execute a statement that ends in `FORMAT Arrow`: see EngineClient."""
        url = "/?" + urlencode(
            {"wait_end_of_query": 1, "max_execution_time": max(math.floor(timeout_seconds), 1)}
        )
        fields = {"query": statement.text}
        fields.update((f"param_{name}", value) for name, value in statement.parameters.items())
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
            raise EngineError(EngineFailure.UNREACHABLE, sanitize_error(str(error), self.server)) from error
        except ReadTimeoutError as error:
            raise EngineError(EngineFailure.TIMEOUT, f"no answer within {wait:.1f} s") from error
        except HTTPError as error:
            raise EngineError(EngineFailure.UNREACHABLE, sanitize_error(str(error), self.server)) from error
        if answer.status != 200:
            code = answer.headers.get("X-ClickHouse-Exception-Code", "")
            cause = EngineFailure.TIMEOUT if code == _TIMEOUT_EXCEEDED else EngineFailure.REFUSED
            text = f"{answer.status}: {body.decode(errors='replace')}"
            raise EngineError(cause, sanitize_error(text, self.server))
        try:
            return pa.ipc.open_file(pa.BufferReader(bytes(body))).read_all()
        except (pa.ArrowException, OSError) as error:
            raise EngineError(
                EngineFailure.INVALID_RESPONSE, f"the answer is no Arrow table: {error}"
            ) from error
