"""A client of Trino that sends a statement and receives an Arrow table.

Trino answers each request within about a second: with rows, or with the URL to ask next. Between two
requests the client checks the time. A query that ends early is cancelled on the server.

https://trino.io/docs/current/develop/client-protocol.html
"""

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import requests
from trino.auth import BasicAuthentication
from trino.client import ClientSession, TrinoRequest
from trino.exceptions import HttpError, TrinoConnectionError, TrinoQueryError

import sidelight
from sidelight_collector.query.engine.window_sums import SUM_SCHEMA
from sidelight_collector.query.engines.sum_statements import (
    EngineError,
    EngineFailure,
    SqlStatement,
    sanitize_error,
)
from sidelight_collector.settings.engine import TrinoUrl

CONNECT_TIMEOUT_SECONDS: Final = 2.0
CANCEL_TIMEOUT_SECONDS: Final = 2.0
MIN_RUN_SECONDS: Final = 1.0


class TrinoClient:
    """A client of one coordinator; thread-safe."""

    def __init__(self, server: TrinoUrl) -> None:
        self.server = server

    def query(
        self, statement: SqlStatement, timeout_seconds: float, remaining: Callable[[], float]
    ) -> pa.Table:
        """Execute a statement whose columns are those of SUM_SCHEMA: see EngineClient."""
        end = time.monotonic() + timeout_seconds

        def limits() -> tuple[float, float]:
            left = min(end - time.monotonic(), remaining())
            if left <= 0:
                raise EngineError(EngineFailure.TIMEOUT, f"no answer within {timeout_seconds:.1f} s")
            return min(CONNECT_TIMEOUT_SECONDS, left), left

        try:
            with self._open_session() as session:
                return self._fetch(session, statement, timeout_seconds, limits)
        except TrinoQueryError as error:
            is_late = error.error_name == "EXCEEDED_TIME_LIMIT"
            cause = EngineFailure.TIMEOUT if is_late else EngineFailure.REFUSED
            text = f"{error.error_name}: {error.message}"
        except HttpError as error:
            cause, text = EngineFailure.REFUSED, str(error)
        except requests.ReadTimeout:
            cause, text = EngineFailure.TIMEOUT, f"no answer within {timeout_seconds:.1f} s"
        except (
            TrinoConnectionError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            pa.ArrowException,
        ) as error:
            cause, text = (
                EngineFailure.INVALID_RESPONSE,
                f"what answers is no Trino, or sends no sums: {error}",
            )
        except requests.RequestException as error:
            cause, text = EngineFailure.UNREACHABLE, str(error)
        raise EngineError(cause, sanitize_error(text, self.server))

    def _open_session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False  # neither proxies nor passwords of the user who runs the collector
        paths = ssl.get_default_verify_paths()
        session.verify = paths.cafile or paths.capath or True
        return session

    def _fetch(
        self,
        session: requests.Session,
        statement: SqlStatement,
        timeout_seconds: float,
        limits: Callable[[], tuple[float, float]],
    ) -> pa.Table:
        server = self.server
        request = TrinoRequest(
            server.host,
            server.port,
            ClientSession(
                server.user,
                catalog=server.catalog,
                schema=server.schema,
                source=f"sidelight/{sidelight.__version__}",
                properties={"query_max_run_time": f"{max(timeout_seconds, MIN_RUN_SECONDS):.2f}s"},
                timezone="UTC",
            ),
            http_session=session,
            http_scheme="https" if server.secure else "http",
            auth=BasicAuthentication(server.user, server.password) if server.password else None,
            max_attempts=1,
            request_timeout=limits(),
        )
        tables: list[pa.Table] = []
        status = request.process(request.post(statement.text))
        try:
            while status.next_uri:
                status = request.process(session.get(status.next_uri, timeout=limits()))
                if status.rows:
                    tables.append(_build_table(status.rows))
        except BaseException:
            if status.next_uri:
                with suppress(requests.RequestException):
                    session.delete(status.next_uri, timeout=CANCEL_TIMEOUT_SECONDS)
            raise
        return pa.concat_tables(tables) if tables else SUM_SCHEMA.empty_table()


def _build_table(rows: Any) -> pa.Table:
    """Build a table with the columns of SUM_SCHEMA.

    Raises ArrowException, TypeError or ValueError for other rows.
    """
    services, hashes, *numbers = zip(*rows, strict=True)
    columns = [pa.array(services, pa.string()), pa.array(hashes, pa.int64()).view(pa.uint64())]
    return pa.table([*columns, *(pa.array(values, pa.int64()) for values in numbers)], SUM_SCHEMA.names)
