"""The labels of namespaces, read from the API server and kept for a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final

from sidelight.cluster.client import Cluster, ClusterAway

KEPT: Final = 1000
AT_ONCE: Final = 4


class Namespaces:
    """Labels by namespace, at most `KEPT` of them, each for `keep_seconds`."""

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
        self._known: OrderedDict[str, tuple[float, Mapping[str, str]]] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def labels(self, name: str) -> Mapping[str, str]:
        """The namespace's labels; raises ClusterError when they cannot be read in time."""
        try:
            async with asyncio.timeout(self._timeout_seconds), self._turns:
                known = self._known.get(name)
                if known is not None and self._clock() < known[0]:
                    return known[1]
                labels = await asyncio.get_running_loop().run_in_executor(self._executor, self._read, name)
        except TimeoutError:
            raise ClusterAway(
                f"the labels of namespace {name!r} were not told in {self._timeout_seconds:g} s",
                hint="Make the pod again; if it stays so, look at the API server.",
            ) from None
        self._known[name] = (self._clock() + self._keep_seconds, labels)
        self._known.move_to_end(name)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return labels

    def _read(self, name: str) -> Mapping[str, str]:
        metadata = self._cluster.get(f"/api/v1/namespaces/{name}").get("metadata") or {}
        return {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
