"""ClickHouse over HTTP: one statement there, one Arrow table back.

The statement and its parameters go as fields of a form, the way that takes more than a URL can hold, and are
bound there: no value becomes part of the text. The user and the password go in a header, where no log has
them. The answer is held back until it is whole, so that an error is an error and not half a table.

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
from sidelight_collector.settings.engine_url import EngineUrl

CONNECTIONS: Final = 64
CONNECT_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 1.0
"""How long the server may take to say that it was out of time."""
MAX_ERROR_CHARACTERS: Final = 400
CHUNK_BYTES: Final = 1 << 20

_TIMEOUT_EXCEEDED: Final = (
    "159"  # https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
)


class Cause(StrEnum):
    """Why an engine did not answer: a closed set of words."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    WRONG = "invalid"


class EngineFailed(Exception):
    """The engine did not do what it was asked; the text has no secrets."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class ClickHouse:
    """One server, asked from many threads at once."""

    def __init__(self, at: EngineUrl) -> None:
        self.at = at
        if at.secure:
            self._pool: urllib3.HTTPConnectionPool = urllib3.HTTPSConnectionPool(
                at.host, at.port, maxsize=CONNECTIONS, retries=False, cert_reqs="CERT_REQUIRED"
            )
        else:
            self._pool = urllib3.HTTPConnectionPool(at.host, at.port, maxsize=CONNECTIONS, retries=False)
        login = b64encode(f"{at.user}:{at.password}".encode()).decode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "User-Agent": f"sidelight/{sidelight.__version__}",
            # A kept connection may be closed by the other side just when it is used again.
            "Connection": "close",
        }

    def ask(
        self, statement: str, parameters: Mapping[str, str], seconds: float, remaining: Callable[[], float]
    ) -> pa.Table:
        """What a statement that ends in FORMAT Arrow answers within so many seconds. Raises EngineFailed.

        `remaining` tells the seconds until nobody waits any longer, and raises what is to be raised then.
        """
        url = "/?" + urlencode({"wait_end_of_query": 1, "max_execution_time": max(math.floor(seconds), 1)})
        fields = {"query": statement, **{f"param_{name}": value for name, value in parameters.items()}}
        wait = min(seconds + GRACE_SECONDS, remaining())
        timeout = urllib3.Timeout(connect=min(CONNECT_SECONDS, wait), read=wait)
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
            raise EngineFailed(Cause.UNREACHABLE, self._clean(str(error))) from error
        except ReadTimeoutError as error:
            raise EngineFailed(Cause.TIMEOUT, f"no answer within {wait:.1f} s") from error
        except HTTPError as error:
            raise EngineFailed(Cause.UNREACHABLE, self._clean(str(error))) from error
        if answer.status != 200:
            code = answer.headers.get("X-ClickHouse-Exception-Code", "")
            cause = Cause.TIMEOUT if code == _TIMEOUT_EXCEEDED else Cause.REFUSED
            raise EngineFailed(cause, self._clean(f"{answer.status}: {body.decode(errors='replace')}"))
        try:
            return pa.ipc.open_file(pa.BufferReader(bytes(body))).read_all()
        except (pa.ArrowException, OSError) as error:
            raise EngineFailed(Cause.WRONG, f"the answer is no Arrow table: {error}") from error

    def _clean(self, text: str) -> str:
        """A text of another's as it may be logged: short, in one line, without the password."""
        plain = text.replace(self.at.password, "***") if self.at.password else text
        line = " ".join(plain.split())
        return line if len(line) <= MAX_ERROR_CHARACTERS else f"{line[:MAX_ERROR_CHARACTERS]} …"
