"""`sidelight query`: print the JSON response of any path of the read API."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sidelight.settings import parse_positive_float, parse_settings, setting
from sidelight.terminal_output import write_standard_output
from sidelight_cli.collector_api import CA_FILE_HELP, CollectorApiClient, read_token
from sidelight_model.terminal_width import escape_json

DESCRIPTION: Final = (
    "Write what the collector answers below /api/v1 to standard output, for instance "
    "`sidelight query depth --param 'query={service=\"shop\"}' --param from=-15m`. The paths and their "
    "parameters are in docs/api-reference.md."
)


def parse_parameter(text: str) -> tuple[str, str]:
    """Parse a query parameter such as `from=-15m` into name and value."""
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Settings of `sidelight query`."""

    path: str = setting(
        "status", "API path to query: services, timeline, depth, top, heatmap …", positional=True
    )
    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    param: tuple[tuple[str, str], ...] = setting(
        (), "query parameter; may be repeated", parse=parse_parameter, metavar="NAME=VALUE"
    )
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "timeout of the request", parse=parse_positive_float)


def run(argv: Sequence[str]) -> int:
    """Send one request and write the response. Raises SidelightError if there is none."""
    settings = parse_settings(QuerySettings, "query", DESCRIPTION, argv, os.environ)
    token = read_token(settings.token_file)
    client = CollectorApiClient(
        settings.collector, token=token, timeout_seconds=settings.timeout_seconds, ca_file=settings.ca_file
    )
    with client.stream(quote(settings.path, safe="/"), dict(settings.param)) as response:
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        for chunk in _escape_chunks(response.chunks) if is_json else response.chunks:
            if not write_standard_output(chunk):
                return 0
    write_standard_output(b"\n")
    return 0


def _escape_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Escape the unprintable characters of a JSON document that arrives in parts."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        yield escape_json(decoder.decode(chunk)).encode()
    yield decoder.decode(b"", final=True).encode()
