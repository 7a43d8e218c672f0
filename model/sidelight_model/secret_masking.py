"""Passwords and tokens in URLs, masked in every text that leaves a program.

Logs, errors and printed settings may quote a URL with a password in it (RFC 3986, section 3.2.1) or with a
token among its parameters. `mask_urls` masks both and leaves everything else as it is.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
_PASSWORD: Final = re.compile(
    # A password may hold an unencoded slash. Digits alone before a slash are a port.
    r"://(?:(?P<user>[^\s/?#:@]{0,256}):(?!\d*(?:[/?#\s]|$))[^\s@]{0,256}(?:@[^\s/?#@]{0,256})*"
    r"|[^\s/?#:'\"]{1,256})@(?=[^\s@])"
)
_PARAMETER: Final = re.compile(
    r"(?P<name>[?&;#](?:key|[\w.%-]*(?:pass(?:word|wd)?|pwd|secret|token|signature|sig|credential|auth(?:orization)?|"
    r"api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key))=)[^\s&;#'\"<>]+",
    re.IGNORECASE,
)


def mask_urls(text: str) -> str:
    """Replace the secrets of all URLs in a text by `***`.

    These are a password, a name without a password, and the value of a parameter such as `token=`.
    """
    if "@" in text and "://" in text:
        text = _PASSWORD.sub(_mask_password, text)
    if "=" in text:
        text = _PARAMETER.sub(rf"\g<name>{MASK}", text)
    return text


def _mask_password(match: re.Match[str]) -> str:
    user = match["user"]
    return f"://{MASK if user is None else f'{user}:{MASK}'}@"
