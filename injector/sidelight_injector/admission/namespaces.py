"""What counts for a pod in its namespace, read from the API server and kept for a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import structlog

from sidelight_kubernetes.kubernetes_client import Cluster, ClusterAway, Denied

KEPT: Final = 1000
AT_ONCE: Final = 4
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's labels, LimitRanges and ResourceQuotas."""

    labels: Mapping[str, str]
    ranges: Sequence[Mapping[str, Any]] = ()
    quotas: Sequence[Mapping[str, Any]] = ()


class Namespaces:
    """Namespaces by name, at most `KEPT` of them, each for `keep_seconds`."""

    def __init__(
        self,
        cluster: Cluster,
        executor: Executor,
        clock: Callable[[], float],
        *,
        keep_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._executor = executor
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._timeout_seconds = timeout_seconds
        self._known: OrderedDict[str, tuple[float, Namespace]] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def get(self, name: str) -> Namespace:
        """The namespace of this name; raises ClusterError when it cannot be read in time."""
        try:
            async with asyncio.timeout(self._timeout_seconds), self._turns:
                known = self._known.get(name)
                if known is not None and self._clock() < known[0]:
                    return known[1]
                found = await asyncio.get_running_loop().run_in_executor(self._executor, self._read, name)
        except TimeoutError:
            raise ClusterAway(
                f"namespace {name!r} was not told of in {self._timeout_seconds:g} s",
                hint="Make the pod again; if it stays so, look at the API server.",
            ) from None
        self._known[name] = (self._clock() + self._keep_seconds, found)
        self._known.move_to_end(name)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return found

    def _read(self, name: str) -> Namespace:
        path = f"/api/v1/namespaces/{name}"
        metadata = self._cluster.get(path).get("metadata") or {}
        labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
        return Namespace(labels, self._list(f"{path}/limitranges"), self._list(f"{path}/resourcequotas"))

    def _list(self, path: str) -> Sequence[Mapping[str, Any]]:
        """What stands there; nothing where one may not look, and the API server may refuse a pod for it."""
        try:
            return tuple(self._cluster.get(path).get("items") or ())
        except Denied as error:
            _log.debug("limits of a namespace are not looked at", problem=error.message)
            return ()
