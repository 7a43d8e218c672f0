"""Settings of ingest from Pyroscope's clients, a part of the collector's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidelight.settings import setting
from sidelight_collector.settings.client_limits import ClientLimitSettings

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def parse_label_name(text: str) -> str:
    """Parse the name of a label. Raises ValueError."""
    if not _LABEL_NAME.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a label name: letters, digits and _")
    return text


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class PyroscopeSettings(ClientLimitSettings):
    """Settings of the routes for Pyroscope's clients.

    The collector's `Settings` include them.
    """

    pyroscope_ingest: bool = setting(
        default=True,
        help="accept profiles from Pyroscope's clients (/push.v1.PusherService/Push and /ingest)",
    )
    pyroscope_tenant_label: str | None = setting(
        None,
        "label for the tenant (X-Scope-OrgID) of Pyroscope's clients, such as namespace; without it, the "
        "collector ignores the header",
        parse=parse_label_name,
        metavar="LABEL",
    )
