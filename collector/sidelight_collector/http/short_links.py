"""Short links to pages: `POST /api/v1/links` creates them, `GET /l/<id>` follows.

    v1/links/3q5f0c8m2w7r1d9k.json

    {"format": 1, "made": 1795300000, "path": "/s/shop?from=2026-11-21T09%3A00%3A00Z&…"}

The id is a hash of the path, so all collectors give the same page the same link. Links lead to pages of
this collector only. The path is checked when a link is created and again when it is followed, because
others may have written to the store.
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
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.json_body import JsonLimits
from sidelight_collector.settings.types import DAY_SECONDS
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/links/"
FORMAT: Final = 1
PATH: Final = "/api/v1/links"
KEY_PATTERN: Final = re.compile(r"v1/links/([a-z2-7]{16})\.json")
RENEW_SECONDS: Final = DAY_SECONDS
"""Age above which creating an existing link again renews it."""

_ID_PATTERN: Final = re.compile(r"[a-z2-7]{16}")
_PAGE_PATTERN: Final = re.compile(
    r"/(?:services|s/[^/?#]+(?:/[^/?#]+)?|captures(?:/[^/?#]+)?|settings)?(?:\?[^#]*)?"
)
_PRINTABLE_ASCII: Final = re.compile(r"[!-~]+")
"""Addresses are ASCII without blanks; all other characters are percent-encoded."""

_log = structlog.get_logger()


class BadLink(SidelightError):
    """A requested link does not lead to a page of this collector."""

    reason = Reason.BAD_REQUEST


class LinkTooLarge(SidelightError):
    """The address is longer than the limit for links."""

    reason = Reason.TOO_LARGE


class LinksDisabled(SidelightError):
    """Short links are disabled on this collector."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """Limits of short links.

    `retention_days` is 0 for links that never expire. `max_bytes` is the maximum length of an address.
    """

    is_enabled: bool = True
    retention_days: int = 400
    max_bytes: int = 32 << 10


def is_page(path: str) -> bool:
    """Return whether a path, without the path prefix, is the address of a page.

    `.` and `..` in any encoding are refused, because they would lead out of the prefix. `\\` is refused,
    because browsers treat it as `/`.
    """
    if not _PRINTABLE_ASCII.fullmatch(path) or "\\" in path or not _PAGE_PATTERN.fullmatch(path):
        return False
    parts = path.partition("?")[0].lower().replace("%2e", ".").split("/")
    return not {".", ".."} & set(parts)


def link_id(path: str) -> str:
    """Return 80 bits of the SHA-256 digest of an address, as 16 letters and digits."""
    return b32encode(sha256(path.encode()).digest()[:10]).decode().lower()


class LinkStore:
    """The short links in a store; methods block and raise StoreError."""

    def __init__(
        self, store: ObjectStore, policy: LinkPolicy, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock

    def create(self, path: str) -> str:
        """Create or renew the link to a page and return its id.

        Raises BadLink and LinkTooLarge.
        """
        max_bytes = self._policy.max_bytes
        if len(path) > max_bytes:
            raise LinkTooLarge(
                f"the address has {len(path):,} characters, and a link may stand for {max_bytes:,}",
                hint="Share the address itself, or raise the collector's --max-link-bytes.",
            )
        if not is_page(path):
            raise BadLink(
                "this is not the address of a page here",
                hint="Send path and query of a page as they stand behind the path prefix: /s/shop?type=cpu.",
            )
        name, now = link_id(path), self._clock()
        existing = self._read(name)
        if existing is None or existing[0] != path or now - existing[1] > RENEW_SECONDS:
            content = {"format": FORMAT, "made": int(now), "path": path}
            self._store.put(f"{ROOT}{name}.json", json.dumps(content, sort_keys=True).encode())
        return name

    def resolve(self, name: str) -> str | None:
        """Return the path of a link, or None.

        The result is None if the link does not exist, has expired, or does not lead to a page.
        """
        link = self._read(name) if _ID_PATTERN.fullmatch(name) else None
        if link is None or not is_page(link[0]) or self._is_expired(link[1]):
            return None
        return link[0]

    def delete_expired(self) -> int:
        """Delete expired links and return their number."""
        expired_keys = [
            entry.key
            for entry in self._store.list(ROOT)
            if KEY_PATTERN.fullmatch(entry.key) and self._is_expired(entry.modified)
        ]
        for key in expired_keys:
            self._store.delete(key)
        return len(expired_keys)

    def _is_expired(self, created_at: float) -> bool:
        return (
            self._policy.retention_days > 0
            and self._clock() - created_at > self._policy.retention_days * DAY_SECONDS
        )

    def _read(self, name: str) -> tuple[str, float] | None:
        try:
            fields = json.loads(self._store.get(f"{ROOT}{name}.json"))
            return str(fields["path"]), float(fields["made"])
        except ObjectMissing:
            return None
        except (ValueError, KeyError, TypeError):
            _log.warning("a link cannot be read", key=f"{ROOT}{name}.json")
            return None


def routes(
    links: LinkStore, policy: LinkPolicy, body_reader: BodyReader, path_prefix: str = ""
) -> list[web.RouteDef]:
    """Build the routes of links; their paths lack `path_prefix`."""

    async def create_link(request: web.Request) -> web.Response:
        if not policy.is_enabled:
            raise LinksDisabled(
                "this collector keeps no links",
                hint="Share the address itself, or start the collector with --links.",
            )
        # Any principal may create a link: the page loads its data with the permissions of its reader.
        get_principal(request)
        path = await _receive_path(request, body_reader, policy.max_bytes)
        name = await asyncio.to_thread(links.create, path)
        return web.json_response({"id": name, "path": f"/l/{name}"}, headers={"Cache-Control": "no-store"})

    async def follow_link(request: web.Request) -> web.Response:
        get_principal(request)
        path = await asyncio.to_thread(links.resolve, request.match_info["id"]) if policy.is_enabled else None
        if path is None:
            retention = f" Links are kept {policy.retention_days} days." if policy.retention_days else ""
            raise NotFound(
                "there is no such link here",
                hint=f"Ask the person who shared it for the long address.{retention}",
            )
        # Byte for byte: aiohttp's own redirect would normalize the address.
        headers = {"Location": f"{path_prefix}{path}", "Cache-Control": "no-store"}
        return web.Response(status=303, headers=headers)

    return [web.post(PATH, create_link), web.get("/l/{id}", follow_link)]


async def _receive_path(request: web.Request, body_reader: BodyReader, max_bytes: int) -> str:
    """Receive the address of a request.

    It must be JSON, because a form of another site cannot send that without a CORS preflight.
    """
    if request.content_type != "application/json":
        raise BadLink(
            "a link request is JSON",
            hint='Send {"path": "/s/shop"} with Content-Type: application/json.',
        )
    body_bytes = 6 * max_bytes + 1024  # JSON may escape a character as 6 bytes
    limits = JsonLimits(
        body_bytes, 8 * body_bytes, max_depth=2, hint=f"An address may have {max_bytes:,} characters."
    )
    path = (await body_reader.read_json_object(request, limits)).get("path")
    if not isinstance(path, str):
        raise BadLink("the request names no path", hint='Send {"path": "/s/shop"}.')
    return path


async def expire_links(links: LinkStore, stop: asyncio.Event, interval_seconds: float) -> None:
    """Delete expired links every `interval_seconds` until `stop` is set."""
    while not stop.is_set():
        try:
            if deleted := await asyncio.to_thread(links.delete_expired):
                _log.info("links are over", links=deleted)
        except StoreError as error:
            _log.warning("links not looked through", error=error.message, hint=error.hint)
        try:
            await asyncio.wait_for(stop.wait(), interval_seconds)
        except TimeoutError:
            continue
