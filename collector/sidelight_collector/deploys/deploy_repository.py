"""Deploys in the object store, shared by any number of collectors.

    v1/deploys/2026-11-21/20261121-3q5f2c7m2w7r6d4k.json    a deploy, by the day on which it was first seen
    v1/deploys/seen.json.zst                                the known versions of each service

A deploy is created only if absent, and replaced only if it has not changed since it was read; otherwise the
collector reads it again. All calls block.
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
from sidelight_collector.deploys.version_registry import VersionRegistry, decode_registry, encode_registry
from sidelight_collector.storage.documents import DocumentCollection, DocumentStore, Stored
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/deploys/"
VERSIONS_KEY: Final = f"{ROOT}seen.json.zst"
CACHE_BYTES: Final = 32 << 20
DEPLOY_MEMORY_BYTES: Final = 4 << 10
ANALYSIS_MEMORY_BYTES: Final = 8 << 10
"""Memory that a deploy without its verdict takes, and each of its analyses."""
_DAY_SECONDS: Final = 86_400
_KEY_PATTERN: Final = re.compile(
    rf"{ROOT}(?P<day>\d{{4}}-\d\d-\d\d)/(?P<id>{DEPLOY_ID_PATTERN.pattern})\.json"
)

DeployChange = Callable[[Deploy], Deploy | None]
"""Returns the changed deploy, or None to leave it as it is."""


class DeployNotFound(SidelightError):
    """There is no deploy with this id, or it has expired."""

    reason = Reason.NOT_FOUND

    def __init__(self, deploy_id: str) -> None:
        super().__init__(
            f"there is no deploy {deploy_id[:64]!r}",
            hint="It is no longer kept, or the id is not whole; GET /api/v1/deploys lists them.",
        )


class DeployRepository:
    """The deploys in a store. Safe to use from many threads."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._deploys = DocumentCollection(
            store,
            encode_deploy,
            decode_deploy,
            name="deploys",
            cache_bytes=CACHE_BYTES,
            measure=lambda deploy, _: DEPLOY_MEMORY_BYTES + ANALYSIS_MEMORY_BYTES * len(deploy.analyses),
            summarize=lambda deploy: replace(deploy, verdict=None),
        )
        self._versions = DocumentStore(store, encode_registry, decode_registry)

    def close(self) -> None:
        """Stop the reading threads."""
        self._deploys.close()

    def create(self, deploy: Deploy) -> bool:
        """Write a new deploy; return False if there is one with its id already."""
        return self._deploys.commit(build_deploy_key(deploy.id), deploy, None) is not None

    def get(self, deploy_id: str) -> Deploy:
        """Return a deploy.

        Raises DeployNotFound.
        """
        try:
            return self._deploys.load(_checked_key(deploy_id)).document
        except ObjectMissing:
            raise DeployNotFound(deploy_id) from None

    def update(self, deploy_id: str, change: DeployChange) -> Deploy:
        """Change a deploy and return it.

        `change` is called again after a faster collector. Raises DeployNotFound, and StoreUnavailable when
        others are faster again and again.
        """
        try:
            return self._deploys.update(_checked_key(deploy_id), change)
        except ObjectMissing:
            raise DeployNotFound(deploy_id) from None

    def list_days(self) -> list[date]:
        """List the days that have deploys, latest first."""
        days: list[date] = []
        after = ROOT
        while entry := next(iter(self._store.list(ROOT, start_after=after)), None):
            match = _KEY_PATTERN.fullmatch(entry.key)
            with suppress(ValueError):
                if match:
                    days.append(date.fromisoformat(match["day"]))
            folder = entry.key[len(ROOT) :].partition("/")[0]
            after = f"{ROOT}{folder}0" if match else entry.key  # "0" follows "/"
        return days[::-1]

    def list_day(self, day: date, service: str = "") -> list[Deploy]:
        """List the deploys of a day without their verdicts, newest first.

        Unreadable ones are left out.
        """
        prefix = f"{ROOT}{day.isoformat()}/{day:%Y%m%d}-" + (build_service_prefix(service) if service else "")
        entries = [item for item in self._store.list(prefix) if _KEY_PATTERN.fullmatch(item.key)]
        return sorted(self._deploys.load_listed(entries), key=lambda item: (-item.first_seen, item.id))

    def list_etags(self, day: date) -> dict[str, str | None]:
        """Return the etags of a day's deploys by id; None if a listing has no etags."""
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
        """List at most `limit` deploys that satisfy `predicate`, newest first.

        Only deploys first seen in [start, until), and of `service` unless it is empty; those of other
        services are then not read. The results have no verdicts.
        """
        newest: list[Deploy] = []
        for deploy in self._iter_range(start, until, service):
            if predicate(deploy):
                newest.append(deploy)
                if len(newest) >= limit:
                    break
        return newest

    def delete_expired(self, now: float, days: float, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Delete deploys older than `days`; return how many."""
        oldest = datetime.fromtimestamp(max(0.0, now - days * _DAY_SECONDS), UTC).date()
        keys = []
        for entry in self._store.list(ROOT):
            match = _KEY_PATTERN.fullmatch(entry.key)
            if match and match["day"] >= oldest.isoformat():
                break
            keys += [entry.key] if match else []
        for deleted, key in enumerate(keys):
            if should_stop():
                return deleted
            self._store.delete(key)
        return len(keys)

    def find_versions(self) -> Stored[VersionRegistry | None]:
        """Return the registry of versions; no document if it is missing or damaged."""
        return self._versions.find(VERSIONS_KEY)

    def commit_versions(self, registry: VersionRegistry, etag: str | None) -> Stored[VersionRegistry] | None:
        """Replace the registry of versions; None if another process was faster."""
        return self._versions.commit(VERSIONS_KEY, registry, etag)

    def _iter_range(self, start: float, until: float, service: str) -> Iterator[Deploy]:
        for day in self.list_days():
            day_start = datetime.combine(day, datetime.min.time(), UTC).timestamp()
            if day_start >= until:
                continue
            if day_start + _DAY_SECONDS <= start:
                return
            yield from (
                deploy for deploy in self.list_day(day, service) if start <= deploy.first_seen < until
            )


def is_deploy_key(key: str) -> bool:
    """Whether an object is of deploys, and goes with them."""
    return key == VERSIONS_KEY or bool(_KEY_PATTERN.fullmatch(key))


def build_deploy_key(deploy_id: str) -> str:
    """Build the key of a deploy's object."""
    return f"{ROOT}{deploy_id[:4]}-{deploy_id[4:6]}-{deploy_id[6:8]}/{deploy_id}.json"


def _checked_key(deploy_id: str) -> str:
    if not DEPLOY_ID_PATTERN.fullmatch(deploy_id):
        raise DeployNotFound(deploy_id)
    return build_deploy_key(deploy_id)
