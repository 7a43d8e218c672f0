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

from sidelight_collector.auth.write_identity import (
    ONE_TIME_PREFIX,
    OneShotWriterIdentity,
    TokenRejected,
    WriterIdentity,
)
from sidelight_collector.captures.capture import Capture, EphemeralSidecar
from sidelight_collector.captures.capture_repository import CaptureNotFound, CaptureRepository

CACHE_SECONDS: Final = 5.0
MAX_CACHED_CAPTURES: Final = 1000
READ_CONCURRENCY: Final = 4
_TOKEN_PATTERN: Final = re.compile(
    r"slat_(c_[0-9A-HJKMNP-TV-Z]{26})\.([0-9A-HJKMNP-TV-Z]{26})\.([A-Za-z0-9_-]{43})"
)


def issue_token(capture_id: str, agent: str) -> tuple[str, str]:
    """A new token for a sidecar of this name, and what is kept of its secret."""
    secret = token_urlsafe(32)
    return f"{ONE_TIME_PREFIX}{capture_id}.{agent}.{secret}", _hash_secret(secret)


class OneTimeTokenVerifier:
    """Tells whose a one-time token is."""

    def __init__(self, repository: CaptureRepository, clock: Callable[[], float] = time.time) -> None:
        self._repository = repository
        self._clock = clock
        self._read_slots = asyncio.Semaphore(READ_CONCURRENCY)
        self._cache: OrderedDict[str, tuple[float, Capture]] = OrderedDict()

    async def identify(self, token: str) -> WriterIdentity:
        """Who sends with this token. Raises NotKnown and StoreError."""
        found = _TOKEN_PATTERN.fullmatch(token)
        if found is None:
            raise _make_rejection_error("it is not whole")
        capture_id, agent, secret = found.groups()
        now = self._clock()
        capture = await self._load_capture(capture_id, now)
        for claim in capture.claims:
            own = claim.ephemeral_sidecar
            if (
                own is not None
                and own.agent == agent
                and hmac.compare_digest(own.secret, _hash_secret(secret))
            ):
                if now > own.until:
                    raise _make_rejection_error("its time is over")
                labels = claim.labels
                return OneShotWriterIdentity(
                    labels.get("namespace", ""),
                    labels.get("pod", ""),
                    own.uid,
                    labels.get("node", ""),
                    labels.get("service", ""),
                    labels.get("version", ""),
                    capture=capture_id,
                    agent_name=agent,
                )
        self._cache.pop(capture_id, None)
        raise _make_rejection_error("its capture has no such sidecar")

    async def _load_capture(self, capture_id: str, now: float) -> Capture:
        kept = self._cache.get(capture_id)
        if kept is not None and now < kept[0] + CACHE_SECONDS:
            return kept[1]
        try:
            # Anybody may send what looks like a token: such a one must not keep the store busy.
            async with self._read_slots:
                capture = await asyncio.to_thread(self._repository.get, capture_id)
        except CaptureNotFound:
            raise _make_rejection_error("its capture is no more") from None
        self._cache[capture_id] = (now, capture)
        self._cache.move_to_end(capture_id)
        if len(self._cache) > MAX_CACHED_CAPTURES:
            self._cache.popitem(last=False)
        return capture


def build_agent_name(attached: EphemeralSidecar) -> str:
    """What a sidecar that was attached is called in its capture."""
    return WriterIdentity("", "", attached.uid).qualify_agent_name(attached.agent)


def _hash_secret(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _make_rejection_error(cause: str) -> TokenRejected:
    return TokenRejected(
        f"the one-time token is not accepted: {cause}",
        hint="It is for one capture: start another to attach a sidecar again.",
    )
