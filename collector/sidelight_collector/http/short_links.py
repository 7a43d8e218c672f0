"""Short links to views: `POST /api/v1/links` keeps an address, `GET /l/<id>` leads to it.

    v1/links/3q5f0c8m2w7r1d9k.json

    {"format": 1, "made": 1795300000, "path": "/s/shop?from=2026-11-21T09%3A00%3A00Z&…"}

A link is named by what it stands for, so the same view has the same link, from whichever collector. It leads
to pages of this collector and nowhere else: the address is looked at when it is kept and again when it is
read, because a store may hold what somebody else has put there.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b32encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import structlog
from aiohttp import web

from sidelight_collector.auth.authorizer import NotFound, get_principal
from sidelight_collector.settings.types import DAY_SECONDS
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/links/"
FORMAT: Final = 1
PATH: Final = "/api/v1/links"
KEY_PATTERN: Final = re.compile(r"v1/links/([a-z2-7]{16})\.json")
RECEIVE_SECONDS: Final = 10
RENEW_SECONDS: Final = DAY_SECONDS
"""A link that is made again is written again, once it is so old."""

_ID_PATTERN: Final = re.compile(r"[a-z2-7]{16}")
_PAGE_PATTERN: Final = re.compile(
    r"/(?:services|s/[^/?#]+(?:/[^/?#]+)?|captures(?:/[^/?#]+)?|settings)?(?:\?[^#]*)?"
)
_PRINTABLE_ASCII: Final = re.compile(r"[!-~]+")
"""Addresses are ASCII without blanks: all else stands in them percent-encoded."""

_log = structlog.get_logger()


class BadLink(SidelightError):
    """What is to be linked to is no page of this collector."""

    reason = Reason.BAD_REQUEST


class LinkTooLarge(SidelightError):
    """An address is longer than a link may stand for."""

    reason = Reason.TOO_LARGE


class LinksDisabled(SidelightError):
    """This collector keeps no links."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """Whether links are kept, for how many days (0: for ever), and how long an address may be."""

    is_enabled: bool = True
    retention_days: int = 400
    max_bytes: int = 32 << 10


def is_page(path: str) -> bool:
    """Whether this is the address of a page, as it stands behind the path prefix.

    `.` and `..`, however they are written, would lead out of the prefix; a browser takes `\\` for `/`.
    """
    if not _PRINTABLE_ASCII.fullmatch(path) or "\\" in path or not _PAGE_PATTERN.fullmatch(path):
        return False
    parts = path.partition("?")[0].lower().replace("%2e", ".").split("/")
    return not {".", ".."} & set(parts)


def link_id(path: str) -> str:
    """80 bits of the address's digest, as 16 letters and digits."""
    return b32encode(sha256(path.encode()).digest()[:10]).decode().lower()


class LinkStore:
    """The links of a store. Methods block; they raise StoreError when the store fails."""

    def __init__(
        self, store: ObjectStore, policy: LinkPolicy, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock

    def create(self, path: str) -> str:
        """The id of the link to a page, kept for its full time from now on. Raises BadLink, LinkTooLarge."""
        most = self._policy.max_bytes
        if len(path) > most:
            raise LinkTooLarge(
                f"the address has {len(path):,} characters, and a link may stand for {most:,}",
                hint="Share the address itself, or raise the collector's --max-link-bytes.",
            )
        if not is_page(path):
            raise BadLink(
                "this is not the address of a page here",
                hint="Send path and query of a page as they stand behind the path prefix: /s/shop?type=cpu.",
            )
        name, now = link_id(path), self._clock()
        known = self._read(name)
        if known is None or known[0] != path or now - known[1] > RENEW_SECONDS:
            content = {"format": FORMAT, "made": int(now), "path": path}
            self._store.put(f"{ROOT}{name}.json", json.dumps(content, sort_keys=True).encode())
        return name

    def resolve(self, name: str) -> str | None:
        """What a link leads to; None if there is no such link, or it leads to no page."""
        found = self._read(name) if _ID_PATTERN.fullmatch(name) else None
        if found is None or not is_page(found[0]) or self._is_expired(found[1]):
            return None
        return found[0]

    def delete_expired(self) -> int:
        """Delete links whose time is over; how many."""
        over = [
            entry.key
            for entry in self._store.list(ROOT)
            if KEY_PATTERN.fullmatch(entry.key) and self._is_expired(entry.modified)
        ]
        for key in over:
            self._store.delete(key)
        return len(over)

    def _is_expired(self, created_at: float) -> bool:
        return (
            self._policy.retention_days > 0
            and self._clock() - created_at > self._policy.retention_days * DAY_SECONDS
        )

    def _read(self, name: str) -> tuple[str, float] | None:
        try:
            told = json.loads(self._store.get(f"{ROOT}{name}.json"))
            return str(told["path"]), float(told["made"])
        except ObjectMissing:
            return None
        except (ValueError, KeyError, TypeError):
            _log.warning("a link cannot be read", key=f"{ROOT}{name}.json")
            return None


def routes(links: LinkStore, policy: LinkPolicy, path_prefix: str = "") -> list[web.RouteDef]:
    """The routes of links, without the prefix in their paths."""

    async def create_link(request: web.Request) -> web.Response:
        if not policy.is_enabled:
            raise LinksDisabled(
                "this collector keeps no links",
                hint="Share the address itself, or start the collector with --links.",
            )
        get_principal(
            request
        )  # an address is nobody's profile: what it asks for is asked as whoever follows it
        path = await _receive_path(request, policy.max_bytes)
        name = await asyncio.to_thread(links.create, path)
        return web.json_response({"id": name, "path": f"/l/{name}"}, headers={"Cache-Control": "no-store"})

    async def follow_link(request: web.Request) -> web.Response:
        get_principal(request)
        path = await asyncio.to_thread(links.resolve, request.match_info["id"]) if policy.is_enabled else None
        if path is None:
            kept = f" Links are kept {policy.retention_days} days." if policy.retention_days else ""
            raise NotFound(
                "there is no such link here", hint=f"Ask whoever shared it for the long address.{kept}"
            )
        # Byte for byte: aiohttp's own redirect would write the address anew.
        headers = {"Location": f"{path_prefix}{path}", "Cache-Control": "no-store"}
        return web.Response(status=303, headers=headers)

    return [web.post(PATH, create_link), web.get("/l/{id}", follow_link)]


async def _receive_path(request: web.Request, max_bytes: int) -> str:
    """The address that is sent: JSON, which no form of another site can send without being asked."""
    if request.content_type != "application/json":
        raise BadLink(
            "links are asked for in JSON",
            hint='Send {"path": "/s/shop"} with Content-Type: application/json.',
        )
    body = bytearray()
    try:
        async with asyncio.timeout(RECEIVE_SECONDS):
            async for chunk in request.content.iter_chunked(1 << 16):
                body += chunk
                if len(body) > 6 * max_bytes + 1024:  # JSON may write a letter in six
                    raise LinkTooLarge(
                        "the request is too large", hint=f"An address may have {max_bytes:,} characters."
                    )
    except TimeoutError:
        raise BadLink(
            f"the request did not arrive within {RECEIVE_SECONDS} s",
            reason=Reason.REQUEST_TIMEOUT,
            hint="Send it again.",
        ) from None
    try:
        path = json.loads(body)["path"]
    except (ValueError, KeyError, TypeError):
        path = None
    if not isinstance(path, str):
        raise BadLink("the request names no path", hint='Send {"path": "/s/shop"}.')
    return path


async def expire_links(links: LinkStore, stop: asyncio.Event, interval_seconds: float) -> None:
    """Delete links whose time is over, now and then until `stop` is set."""
    while not stop.is_set():
        try:
            if gone := await asyncio.to_thread(links.delete_expired):
                _log.info("links are over", links=gone)
        except StoreError as error:
            _log.warning("links not looked through", error=error.message, hint=error.hint)
        try:
            await asyncio.wait_for(stop.wait(), interval_seconds)
        except TimeoutError:
            continue
