"""The value of --clickhouse-url: a ClickHouse server and its access to objects.

clickhouse://user:password@host:8123/?cluster=NAME&collection=NAME&endpoint=URL&secure=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

DEFAULT_PORT: Final = 8123
DEFAULT_SECURE_PORT: Final = 8443

_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "cluster": (r"[\w.-]+", "the name of a cluster"),
    "collection": (r"[A-Za-z_]\w*", "the name of a named collection"),
    "endpoint": (r"https?://[\w.:\[\]-]+", "http://HOST:PORT or https://HOST:PORT"),
    "secure": ("[01]", "0 or 1"),
}


@dataclass(frozen=True, slots=True)
class ClickHouseUrl:
    """The HTTP interface of a ClickHouse server; `str` leaves out the password.

    cluster: the cluster whose nodes all read, with s3Cluster(). Empty: this server alone reads, with s3().
    collection: the named collection of the server that has the URL of the bucket and its keys. Empty: the
        server's own credentials.
    endpoint: the address of S3 as the server reaches it. Empty: the address that the collector uses.
    """

    host: str
    port: int = DEFAULT_PORT
    secure: bool = False
    user: str = "default"
    password: str = field(default="", repr=False)
    cluster: str = ""
    collection: str = ""
    endpoint: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"clickhouse://{self.user}@{host}:{self.port}"


def parse_clickhouse_url(text: str) -> ClickHouseUrl:
    """Parse a URL. Raises ValueError, without the URL, which may have a password."""
    try:
        parts = urlsplit(text)
        port = parts.port
        query_pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(
            "the URL cannot be read: write /, ?, #, @ and % of a password as %2F, %3F, %23, %40 and %25"
        ) from None
    if parts.scheme != "clickhouse" or not parts.hostname or parts.path not in ("", "/") or parts.fragment:
        raise ValueError("not clickhouse://user@host:8123/?cluster=NAME")
    parameters = _check_parameters(query_pairs)
    secure = parameters.get("secure") == "1"
    return ClickHouseUrl(
        host=parts.hostname,
        port=port or (DEFAULT_SECURE_PORT if secure else DEFAULT_PORT),
        secure=secure,
        user=_parse_user(parts),
        password=unquote(parts.password or ""),
        cluster=parameters.get("cluster", ""),
        collection=parameters.get("collection", ""),
        endpoint=parameters.get("endpoint", ""),
    )


def _parse_user(parts: SplitResult) -> str:
    user = unquote(parts.username or "default")
    if ":" in user:
        raise ValueError("a user whose name has a colon cannot log in over HTTP")
    return user


def _check_parameters(query_pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    for name, value in query_pairs:
        if name not in _PARAMETERS:
            raise ValueError(f"{name[:40]!r} is none of {', '.join(_PARAMETERS)}")
        pattern, expected = _PARAMETERS[name]
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"{name} is not {expected}")
    if len(dict(query_pairs)) < len(query_pairs):
        raise ValueError("a parameter is given twice")
    return dict(query_pairs)
