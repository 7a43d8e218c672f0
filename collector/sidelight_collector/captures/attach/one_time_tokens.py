"""One-time tokens of attached sidecars: one pod, one capture, a short time.

An ephemeral container cannot have a volume of its own, so it has no projected token. Its token is in the
pod's specification, which everybody who may read the pod can read. That is why the token permits little: to
send data of that pod for that capture, until the capture is over. It permits no reading. The capture holds
only the SHA-256 of the secret.

    slat_c_01M7YQVZYKSX6KCDH95ZVGXJS6.01M7YR0A3V4W5X6Y7Z8A9B0C1D.kW3f…

A token consists of its capture, its sidecar and the secret.
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
    """Return a new token for a sidecar, and the hash of its secret to store."""
    secret = token_urlsafe(32)
    return f"{ONE_TIME_PREFIX}{capture_id}.{agent}.{secret}", _hash_secret(secret)


class OneTimeTokenVerifier:
    """Identifies the sender of a one-time token."""

    def __init__(self, repository: CaptureRepository, clock: Callable[[], float] = time.time) -> None:
        self._repository = repository
        self._clock = clock
        self._read_slots = asyncio.Semaphore(READ_CONCURRENCY)
        self._cache: OrderedDict[str, tuple[float, Capture]] = OrderedDict()

    async def identify(self, token: str) -> WriterIdentity:
        """Return the identity of this token's sidecar.

        Raises TokenRejected and StoreError.
        """
        match = _TOKEN_PATTERN.fullmatch(token)
        if match is None:
            raise _make_rejection_error("it is not whole")
        capture_id, agent, secret = match.groups()
        now = self._clock()
        capture = await self._load_capture(capture_id, now)
        for claim in capture.claims:
            sidecar = claim.ephemeral_sidecar
            if (
                sidecar is not None
                and sidecar.agent == agent
                and hmac.compare_digest(sidecar.secret, _hash_secret(secret))
            ):
                if now > sidecar.until:
                    raise _make_rejection_error("its time is over")
                labels = claim.labels
                return OneShotWriterIdentity(
                    labels.get("namespace", ""),
                    labels.get("pod", ""),
                    sidecar.uid,
                    labels.get("node", ""),
                    labels.get("service", ""),
                    labels.get("version", ""),
                    capture=capture_id,
                    agent_name=agent,
                )
        self._cache.pop(capture_id, None)
        raise _make_rejection_error("its capture has no such sidecar")

    async def _load_capture(self, capture_id: str, now: float) -> Capture:
        cached = self._cache.get(capture_id)
        if cached is not None and now < cached[0] + CACHE_SECONDS:
            return cached[1]
        try:
            # Anybody can send a string of this form, and must not be able to overload the store.
            async with self._read_slots:
                capture = await asyncio.to_thread(self._repository.get, capture_id)
        except CaptureNotFound:
            raise _make_rejection_error("its capture is no more") from None
        self._cache[capture_id] = (now, capture)
        self._cache.move_to_end(capture_id)
        if len(self._cache) > MAX_CACHED_CAPTURES:
            self._cache.popitem(last=False)
        return capture


def build_agent_name(ephemeral_sidecar: EphemeralSidecar) -> str:
    """Return the name that an attached sidecar has in its capture."""
    return WriterIdentity("", "", ephemeral_sidecar.uid).qualify_agent_name(ephemeral_sidecar.agent)


def _hash_secret(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _make_rejection_error(cause: str) -> TokenRejected:
    return TokenRejected(
        f"the one-time token is not accepted: {cause}",
        hint="It is for one capture: start another to attach a sidecar again.",
    )
