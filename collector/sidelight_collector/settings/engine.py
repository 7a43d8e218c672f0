"""Settings of the external engine, a part of the collector's settings.

clickhouse://user:password@host:8123/?cluster=NAME&collection=NAME&endpoint=URL&secure=1
trino://user:password@host:8080/CATALOG/SCHEMA?secure=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sidelight.settings import BadSetting, parse_positive_float, setting
from sidelight_collector.settings.kubernetes import KubernetesSettings

DEFAULT_SECURE_PORT: Final = 8443
CLICKHOUSE_PORT: Final = 8123
TRINO_PORT: Final = 8080

_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "cluster": (r"[\w.-]+", "the name of a cluster"),
    "collection": (r"[A-Za-z_]\w*", "the name of a named collection"),
    "endpoint": (r"https?://[\w.:\[\]-]+", "http://HOST:PORT or https://HOST:PORT"),
    "secure": ("[01]", "0 or 1"),
}
_TRINO_PATH: Final = re.compile(r"/([a-z_][a-z0-9_]*)/([a-z_][a-z0-9_]*)")
_EXAMPLES: Final = "clickhouse://USER@HOST:8123/?cluster=NAME or trino://USER@HOST:8080/CATALOG/SCHEMA"


@dataclass(frozen=True, slots=True)
class ClickHouseUrl:
    """The HTTP interface of a ClickHouse server; `str` leaves out the password.

    cluster: the cluster whose nodes all read, with s3Cluster(). Empty: this server alone reads, with s3().
    collection: the named collection of the server that has the URL of the bucket and its keys. Empty: the
        server's own credentials.
    endpoint: the address of S3 as the server reaches it. Empty: the address that the collector uses.
    """

    engine: ClassVar = "clickhouse"

    host: str
    port: int = CLICKHOUSE_PORT
    secure: bool = False
    user: str = "default"
    password: str = field(default="", repr=False)
    cluster: str = ""
    collection: str = ""
    endpoint: str = ""

    def __str__(self) -> str:
        return _format_server(self)


@dataclass(frozen=True, slots=True)
class TrinoUrl:
    """The coordinator of Trino and its tables; `str` leaves out the password.

    catalog, schema: where `sidelight storage trino-ddl` created the tables of the store.
    """

    engine: ClassVar = "trino"

    host: str
    port: int = TRINO_PORT
    secure: bool = False
    user: str = "sidelight"
    password: str = field(default="", repr=False)
    catalog: str = "profiles"
    schema: str = "sidelight"

    def __str__(self) -> str:
        return f"{_format_server(self)}/{self.catalog}/{self.schema}"


EngineUrl = ClickHouseUrl | TrinoUrl


def _format_server(url: EngineUrl) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.engine}://{url.user}@{host}:{url.port}"


def parse_engine_url(text: str) -> EngineUrl:
    """Parse a URL. Raises ValueError, without the URL, which may have a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
        query_pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(
            "the URL cannot be read: write /, ?, #, @ and % of a password as %2F, %3F, %23, %40 and %25"
        ) from None
    if parts.hostname and not parts.fragment:
        if parts.scheme == "clickhouse":
            return _parse_clickhouse_url(parts, parts.hostname, port, query_pairs)
        if parts.scheme == "trino":
            return _parse_trino_url(parts, parts.hostname, port, query_pairs)
    raise ValueError(f"not {_EXAMPLES}")


def _parse_clickhouse_url(
    parts: SplitResult, host: str, port: int | None, query_pairs: list[tuple[str, str]]
) -> ClickHouseUrl:
    if parts.path not in ("", "/"):
        raise ValueError(f"not {_EXAMPLES}")
    parameters = _check_parameters(query_pairs, _PARAMETERS)
    secure = parameters.get("secure") == "1"
    return ClickHouseUrl(
        host=host,
        port=port or (DEFAULT_SECURE_PORT if secure else CLICKHOUSE_PORT),
        secure=secure,
        user=_parse_user(parts, "default"),
        password=unquote(parts.password or ""),
        cluster=parameters.get("cluster", ""),
        collection=parameters.get("collection", ""),
        endpoint=parameters.get("endpoint", ""),
    )


def _parse_trino_url(
    parts: SplitResult, host: str, port: int | None, query_pairs: list[tuple[str, str]]
) -> TrinoUrl:
    tables = _TRINO_PATH.fullmatch(parts.path)
    if tables is None:
        raise ValueError(f"not {_EXAMPLES}, with names of lower-case letters, digits and _")
    parameters = _check_parameters(query_pairs, {"secure": _PARAMETERS["secure"]})
    secure = parameters.get("secure") == "1"
    return TrinoUrl(
        host=host,
        port=port or (DEFAULT_SECURE_PORT if secure else TRINO_PORT),
        secure=secure,
        user=_parse_user(parts, "sidelight"),
        password=unquote(parts.password or ""),
        catalog=tables[1],
        schema=tables[2],
    )


def _parse_user(parts: SplitResult, default: str) -> str:
    user = unquote(parts.username or default)
    if ":" in user or not user.isprintable() or not user.isascii():
        raise ValueError("a user whose name has a colon or is not ASCII cannot log in over HTTP")
    return user


def _check_parameters(
    query_pairs: list[tuple[str, str]], allowed: Mapping[str, tuple[str, str]]
) -> Mapping[str, str]:
    for name, value in query_pairs:
        if name not in allowed:
            raise ValueError(f"{name[:40]!r} is none of {', '.join(allowed)}")
        pattern, expected = allowed[name]
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"{name} is not {expected}")
    if len(dict(query_pairs)) < len(query_pairs):
        raise ValueError("a parameter is given twice")
    return dict(query_pairs)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class EngineSettings(KubernetesSettings):
    """Settings of the external engine; the collector's `Settings` include them."""

    engine: EngineUrl | None = setting(
        None,
        f"engine that sums samples from the same bucket: {_EXAMPLES}",
        parse=parse_engine_url,
        secret=True,
        metavar="URL",
    )
    engine_password_file: Path | None = setting(None, "file with the password for --engine", parse=Path)
    engine_timeout_seconds: float = setting(
        15.0, "timeout of the engine for one side of a query", parse=parse_positive_float
    )
    engine_fallback: bool = setting(
        default=True, help="run a query in the collector if the engine fails; otherwise the query fails"
    )

    def check_engine(self, store: str) -> None:
        """Raise BadSetting for an engine that cannot read the store, or has no safe login."""
        url, file = self.engine, self.engine_password_file
        if file is not None and (url is None or url.password):
            raise BadSetting(
                "engine_password_file needs an engine without a password",
                hint="Give --engine without a password, and the file beside it.",
            )
        if url is None:
            return
        if not store.startswith("s3://"):
            raise BadSetting(
                "engine is given, and store is not in S3",
                hint="The engine reads the objects itself: give --store s3://…, or no --engine.",
            )
        if isinstance(url, TrinoUrl):
            if (url.password or file) and not url.secure:
                raise BadSetting(
                    "engine has a password and no HTTPS",
                    hint="Trino takes passwords over HTTPS only: add ?secure=1 to --engine.",
                )
            if find_spec("trino") is None:
                raise BadSetting(
                    "engine needs a package that is not installed",
                    hint="Install it: pip install 'sidelight-collector[trino]'.",
                )
