"""Refuses requests that a browser sends for a page of another site.

- DNS rebinding: the name of a hostile page resolves to 127.0.0.1, and the browser takes a server on this
  machine for that page's own. `Host` still has the name.
- Cross-site requests: a hostile page sends a form. `Origin` names the page, and `Sec-Fetch-Site` says whether
  it is of the same site (W3C, Fetch Metadata Request Headers).

Clients other than browsers send only `Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sidelight_model.errors import Reason, SidelightError

_READING_METHODS: Final = ("GET", "HEAD", "OPTIONS")


class ForeignRequest(SidelightError):
    """A request for another host, or from a page of another site."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """Which hosts and pages a server answers.

    A server on loopback answers only names and addresses of this machine, and `allowed_hosts`. Any other
    answers every host, unless there are `allowed_hosts`: then these, addresses, and this machine.
    """

    is_loopback: bool = False
    allowed_hosts: tuple[str, ...] = ()

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Raise ForeignRequest for a request that must not be answered."""
        host = headers.get("Host", "")
        if not self._is_allowed_host(_parse_host(f"//{host}")):
            raise ForeignRequest(
                f"this server does not answer for the host {host[:200]!r}",
                hint="Use its own address, or name the host in --allowed-hosts.",
            )
        if method not in _READING_METHODS and not self._is_same_site(headers, host):
            raise ForeignRequest(
                "a page of another site may not change anything here",
                hint="Use this server's own pages, or curl. Behind a proxy that changes the header Host, "
                "name the proxy's host in --allowed-hosts.",
            )

    def _is_allowed_host(self, host: str) -> bool:
        if not host or host in self.allowed_hosts or host == "localhost" or host.endswith(".localhost"):
            return True
        if not self.is_loopback and not self.allowed_hosts:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or not self.is_loopback

    def _is_same_site(self, headers: Mapping[str, str], host: str) -> bool:
        site = headers.get("Sec-Fetch-Site")
        if site is not None:
            return site in ("same-origin", "none")
        origin = headers.get("Origin")
        if origin is None:
            return True
        return _parse_place(origin) == host.lower() or _parse_host(origin) in self.allowed_hosts


ANY_HOST: Final = OriginPolicy()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_host_name(text: str) -> str:
    """Parse the name of a host, without a port."""
    if not text or _parse_host(f"//{text}") != text.lower():
        raise ValueError(f"{text!r} is not the name of a host")
    return text.lower()


def _parse_place(url: str) -> str:
    """Return host and port of a URL, empty if it cannot be read."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _parse_host(url: str) -> str:
    """Return the host of a URL in lower case.

    It is empty if there is none, and `?` if the URL cannot be read.
    """
    try:
        return (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return "?"
