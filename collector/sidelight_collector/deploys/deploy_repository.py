"""Where deploys lie in the store, and how any number of collectors change them there.

    v1/deploys/2026-11-21/20261121-3q5f2c7m2w7r6d4k.json    a deploy, below the day on which it was seen first
    v1/deploys/seen.json.zst                                the versions that are known of each service

A deploy is created if absent and replaced only while it is what was read; whoever finds it changed reads it
again. All calls block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

from sidelight_collector.deploys.deploy import DEPLOY_ID_PATTERN, Deploy, build_service_prefix
from sidelight_collector.deploys.deploy_codec import decode_deploy, encode_deploy
from sidelight_collector.storage.documents import DocumentStore
from sidelight_collector.storage.objects import (
    ObjectExists,
    ObjectMissing,
    ObjectStore,
)
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/deploys/"
VERSIONS_KEY: Final = f"{ROOT}seen.json.zst"
CACHE_BYTES: Final = 32 << 20
DEPLOY_MEMORY_BYTES: Final = 4 << 10
ANALYSIS_MEMORY_BYTES: Final = 8 << 10
"""What a deploy without its verdict, and a look, take in memory."""
_DAY_SECONDS: Final = 86_400
_KEY_PATTERN: Final = re.compile(
    rf"{ROOT}(?P<day>\d{{4}}-\d\d-\d\d)/(?P<id>{DEPLOY_ID_PATTERN.pattern})\.json"
)

DeployChange = Callable[[Deploy], Deploy | None]
"""What becomes of a deploy; None if it stays as it is."""


class DeployNotFound(SidelightError):
    """There is no deploy with this id, or it is no longer kept."""

    reason = Reason.NOT_FOUND

    def __init__(self, deploy_id: str) -> None:
        super().__init__(
            f"there is no deploy {deploy_id[:64]!r}",
            hint="It is no longer kept, or the id is not whole; GET /api/v1/deploys lists them.",
        )


class DeployRepository:
    """The deploys in a store; safe to use from many threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._deploys = DocumentStore(
            store,
            encode_deploy,
            decode_deploy,
            name="deploys",
            cache_bytes=CACHE_BYTES,
            measure=lambda deploy, _: DEPLOY_MEMORY_BYTES + ANALYSIS_MEMORY_BYTES * len(deploy.analyses),
            summarize=lambda deploy: replace(deploy, verdict=None),
        )

    def close(self) -> None:
        """Stop the reading threads."""
        self._deploys.close()

    def create(self, deploy: Deploy) -> bool:
        """Write a new deploy; False if there is one with its id already."""
        try:
            self._deploys.create(build_deploy_key(deploy.id), deploy)
        except ObjectExists:
            return False
        return True

    def get(self, deploy_id: str) -> Deploy:
        """One deploy. Raises DeployNotFound."""
        try:
            return self._deploys.load(_checked_key(deploy_id)).document
        except ObjectMissing:
            raise DeployNotFound(deploy_id) from None

    def update(self, deploy_id: str, change: DeployChange) -> Deploy:
        """Change a deploy and return it; `change` is called again after a faster collector.

        Raises DeployNotFound, and StoreUnavailable when others are faster again and again.
        """
        try:
            return self._deploys.update(_checked_key(deploy_id), change)
        except ObjectMissing:
            raise DeployNotFound(deploy_id) from None

    def list_days(self) -> list[date]:
        """The days of which there are deploys, the latest first."""
        found: list[date] = []
        after = ROOT
        while entry := next(iter(self._store.list(ROOT, start_after=after)), None):
            match = _KEY_PATTERN.fullmatch(entry.key)
            with suppress(ValueError):
                if match:
                    found.append(date.fromisoformat(match["day"]))
            folder = entry.key[len(ROOT) :].partition("/")[0]
            after = f"{ROOT}{folder}0" if match else entry.key  # "0" follows "/"
        return found[::-1]

    def list_day(self, day: date, service: str = "") -> list[Deploy]:
        """Those of one day without their verdicts, the newest first; what cannot be read is left out."""
        begins = f"{ROOT}{day.isoformat()}/{day:%Y%m%d}-" + (build_service_prefix(service) if service else "")
        entries = [one for one in self._store.list(begins) if _KEY_PATTERN.fullmatch(one.key)]
        return sorted(self._deploys.load_listed(entries), key=lambda one: (-one.first_seen, one.id))

    def list_etags(self, day: date) -> dict[str, str | None]:
        """The ids of those of one day, with their etags where a listing has them."""
        entries = self._store.list(f"{ROOT}{day.isoformat()}/")
        return {match["id"]: entry.etag for entry in entries if (match := _KEY_PATTERN.fullmatch(entry.key))}

    def list_newest(
        self,
        limit: int,
        predicate: Callable[[Deploy], bool],
        start: float = 0.0,
        until: float = float("inf"),
        service: str = "",
    ) -> list[Deploy]:
        """The newest that are wanted and were first seen in a range, of any or one service.

        They come without their verdicts. Of other services nothing is read.
        """
        found: list[Deploy] = []
        for one in self._iter_range(start, until, service):
            if predicate(one):
                found.append(one)
                if len(found) >= limit:
                    break
        return found

    def delete_expired(self, now: float, days: float, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Remove deploys that are too old; how many."""
        oldest = datetime.fromtimestamp(max(0.0, now - days * _DAY_SECONDS), UTC).date()
        keys = []
        for entry in self._store.list(ROOT):
            match = _KEY_PATTERN.fullmatch(entry.key)
            if match and match["day"] >= oldest.isoformat():
                break
            keys += [entry.key] if match else []
        for gone, key in enumerate(keys):
            if should_stop():
                return gone
            self._store.delete(key)
        return len(keys)

    def get_versions(self) -> tuple[bytes, str] | None:
        """What is known of versions, with its etag; None if nothing is."""
        try:
            return self._store.get_with_etag(VERSIONS_KEY)
        except ObjectMissing:
            return None

    def put_versions(self, content: bytes, etag: str | None) -> str:
        """Write that anew, while it is what was read. Raises ObjectChanged or ObjectExists."""
        return self._store.put(VERSIONS_KEY, content, if_absent=etag is None, if_match=etag)

    def _iter_range(self, start: float, until: float, service: str) -> Iterator[Deploy]:
        for day in self.list_days():
            begins = datetime.combine(day, datetime.min.time(), UTC).timestamp()
            if begins >= until:
                continue
            if begins + _DAY_SECONDS <= start:
                return
            yield from (one for one in self.list_day(day, service) if start <= one.first_seen < until)


def is_deploy_key(key: str) -> bool:
    """Whether an object is of deploys, and goes with them."""
    return key == VERSIONS_KEY or bool(_KEY_PATTERN.fullmatch(key))


def build_deploy_key(deploy_id: str) -> str:
    """Where a deploy lies."""
    return f"{ROOT}{deploy_id[:4]}-{deploy_id[4:6]}-{deploy_id[6:8]}/{deploy_id}.json"


def _checked_key(deploy_id: str) -> str:
    if not DEPLOY_ID_PATTERN.fullmatch(deploy_id):
        raise DeployNotFound(deploy_id)
    return build_deploy_key(deploy_id)
