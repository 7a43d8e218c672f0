"""Policies of a pod's namespace, read from the API server and cached briefly."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import structlog

from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import AccessDenied, ClusterUnavailable, KubernetesClient

MAX_CACHED_NAMESPACES: Final = 1000
READ_CONCURRENCY: Final = 4
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """A namespace's labels, LimitRanges and ResourceQuotas."""

    labels: Mapping[str, str]
    limit_ranges: Sequence[Mapping[str, Any]] = ()
    resource_quotas: Sequence[Mapping[str, Any]] = ()


class NamespaceCache:
    """A cache of at most `MAX_CACHED_NAMESPACES` namespaces, each for `ttl_seconds`."""

    def __init__(
        self,
        cluster: KubernetesClient,
        executor: Executor,
        clock: Callable[[], float],
        *,
        ttl_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._executor = executor
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._timeout_seconds = timeout_seconds
        self._entries: OrderedDict[str, tuple[float, NamespacePolicies]] = OrderedDict()
        self._read_slots = asyncio.Semaphore(READ_CONCURRENCY)

    async def get(self, name: str) -> NamespacePolicies:
        """Return the policies of a namespace.

        Raises ClusterError if the API server does not return them within `timeout_seconds`.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds), self._read_slots:
                entry = self._entries.get(name)
                if entry is not None and self._clock() < entry[0]:
                    return entry[1]
                policies = await asyncio.get_running_loop().run_in_executor(self._executor, self._read, name)
        except TimeoutError:
            raise ClusterUnavailable(
                f"namespace {name!r} was not told of in {self._timeout_seconds:g} s",
                hint="Make the pod again; if it stays so, look at the API server.",
            ) from None
        self._entries[name] = (self._clock() + self._ttl_seconds, policies)
        self._entries.move_to_end(name)
        if len(self._entries) > MAX_CACHED_NAMESPACES:
            self._entries.popitem(last=False)
        return policies

    def _read(self, name: str) -> NamespacePolicies:
        path = build_path("namespaces", name=name)
        metadata = self._cluster.get(path).get("metadata") or {}
        labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
        return NamespacePolicies(
            labels, self._list_items(f"{path}/limitranges"), self._list_items(f"{path}/resourcequotas")
        )

    def _list_items(self, path: str) -> Sequence[Mapping[str, Any]]:
        """Return the objects at a path, or nothing without permission to list them.

        Without them the API server may refuse a pod because of its sidecar.
        """
        try:
            return tuple(self._cluster.get(path).get("items") or ())
        except AccessDenied as error:
            _log.debug("limits of a namespace are not checked", problem=error.message)
            return ()
