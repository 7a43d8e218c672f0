"""Tokens of sidecars that the collector attached to a pod: each for one pod, one capture and a short time.

An ephemeral container can have no volume of its own, so no projected token; what it is told stands in the
pod's spec, where whoever may read the pod reads it too. Such a token is therefore worth little: with it one
can say what that one pod does in that one capture, until the capture is over, and nothing can be read. Of
the secret only the SHA-256 is kept, in the capture.

    slat_c_01M7YQVZYKSX6KCDH95ZVGXJS6.01M7YR0A3V4W5X6Y7Z8A9B0C1D.kW3f…

A token names its capture, the sidecar, and ends with the secret.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

from sidelight_collector.auth.write_identity import ONE_TIME, AttachedWriter, NotKnown, Writer
from sidelight_collector.captures.capture import Attached, Capture
from sidelight_collector.captures.capture_repository import NoCapture, Shelf

KEPT_SECONDS: Final = 5.0
KEPT: Final = 1000
READS: Final = 4
_TOKEN: Final = re.compile(r"slat_(c_[0-9A-HJKMNP-TV-Z]{26})\.([0-9A-HJKMNP-TV-Z]{26})\.([A-Za-z0-9_-]{43})")


def issue(capture_id: str, agent: str) -> tuple[str, str]:
    """A new token for a sidecar of this name, and what is kept of its secret."""
    secret = token_urlsafe(32)
    return f"{ONE_TIME}{capture_id}.{agent}.{secret}", _hashed(secret)


class OneTime:
    """Tells whose a one-time token is."""

    def __init__(self, shelf: Shelf, clock: Callable[[], float] = time.time) -> None:
        self._shelf = shelf
        self._clock = clock
        self._reads = asyncio.Semaphore(READS)
        self._kept: OrderedDict[str, tuple[float, Capture]] = OrderedDict()

    async def writer(self, token: str) -> Writer:
        """Who sends with this token. Raises NotKnown and StoreError."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise _refused("it is not whole")
        capture_id, agent, secret = found.groups()
        now = self._clock()
        capture = await self._capture(capture_id, now)
        for claim in capture.claims:
            own = claim.attached
            if own is not None and own.agent == agent and hmac.compare_digest(own.secret, _hashed(secret)):
                if now > own.until:
                    raise _refused("its time is over")
                labels = claim.labels
                return AttachedWriter(
                    labels.get("namespace", ""),
                    labels.get("pod", ""),
                    own.uid,
                    labels.get("node", ""),
                    labels.get("service", ""),
                    labels.get("version", ""),
                    capture=capture_id,
                    name=agent,
                )
        self._kept.pop(capture_id, None)
        raise _refused("its capture has no such sidecar")

    async def _capture(self, capture_id: str, now: float) -> Capture:
        kept = self._kept.get(capture_id)
        if kept is not None and now < kept[0] + KEPT_SECONDS:
            return kept[1]
        try:
            # Anybody may send what looks like a token: such a one must not keep the store busy.
            async with self._reads:
                capture = await asyncio.to_thread(self._shelf.capture, capture_id)
        except NoCapture:
            raise _refused("its capture is no more") from None
        self._kept[capture_id] = (now, capture)
        self._kept.move_to_end(capture_id)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return capture


def attached_name(attached: Attached) -> str:
    """What a sidecar that was attached is called in its capture."""
    return Writer("", "", attached.uid).agent(attached.agent)


def _hashed(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _refused(why: str) -> NotKnown:
    return NotKnown(
        f"the one-time token is not accepted: {why}",
        hint="It is for one capture: start another to attach a sidecar again.",
    )
