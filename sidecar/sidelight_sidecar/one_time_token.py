"""The token of a sidecar attached for one capture, which names both."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN_PATTERN = re.compile(r"slat_(c_[0-9A-HJKMNP-TV-Z]{26})\.([0-9A-HJKMNP-TV-Z]{26})\.[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class OneTimeToken:
    """A one-time token, the capture that it is for, and the name of this sidecar."""

    token: str
    capture: str
    agent: str

    def __bool__(self) -> bool:
        return bool(self.token)

    def __str__(self) -> str:
        return "***" if self.token else ""


NO_ONE_TIME_TOKEN = OneTimeToken("", "", "")


def parse_one_time_token(text: str) -> OneTimeToken:
    """Parse a one-time token; raises ValueError, whose text does not quote it."""
    match = _TOKEN_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError("it is not a one-time token of a capture")
    return OneTimeToken(text, match[1], match[2])
