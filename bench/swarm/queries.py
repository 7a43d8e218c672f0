"""Clients that ask queries of random services while the swarm ships."""

from __future__ import annotations

import random
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from itertools import pairwise
from typing import Final
from urllib.parse import urlencode

CLIENTS: Final = 4
SIDES: Final = ("baseline_", "comparison_")
# By path, whether it is about one service, and whether it compares two ranges.
KINDS: Final = (
    ("overview", False, False),
    ("timeline", True, False),
    ("flamegraph", True, False),
    ("depth", True, False),
    ("compare", True, True),
)


class Queries:
    """Queries of all collectors in turn: `seconds` has the time of each answer, by kind.

    `failures` has those that had no answer, with the reason. Nothing is asked in the first `quiet` seconds,
    in which not every service has windows.
    """

    def __init__(self, urls: Sequence[str], services: int, quiet: float, seed: int) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.failures: list[str] = []
        self._urls, self._services, self._quiet = urls, services, quiet
        self._begin = time.time()
        self._luck = random.Random(f"queries {seed}")
        self._ended = threading.Event()

    @contextmanager
    def asking(self, rate: float) -> Iterator[None]:
        """Ask `rate` queries a second until the block ends; at most CLIENTS at once."""
        thread = threading.Thread(target=self._run, args=(rate,))
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def report(self) -> None:
        """Print the time of each kind of query."""
        for kind, took in self.seconds.items():
            ordered = sorted(took)
            p50, p99 = (ordered[int(part * (len(ordered) - 1))] for part in (0.5, 0.99))
            print(
                f"{kind:11} {len(took)} queries: p50 {p50:.2f} s, p99 {p99:.2f} s, most {ordered[-1]:.2f} s"
            )
        if self.seconds or self.failures:
            print(f"queries without an answer: {len(self.failures)} {self.failures[:5]}")

    def _run(self, rate: float) -> None:
        asked = 0
        self._ended.wait(self._quiet)
        with ThreadPoolExecutor(CLIENTS) as clients:
            while not self._ended.wait(1 / rate):
                kind, of_service, of_two = KINDS[asked % len(KINDS)]
                url = self._urls[asked % len(self._urls)]
                clients.submit(self._ask, kind, f"{url}/api/v1/{kind}?{self._words(of_service, of_two)}")
                asked += 1

    def _words(self, of_service: bool, of_two: bool) -> str:
        """Build the parameters: all of the time so far, or one half of it against the other."""
        now = time.time()
        words = {"query": f'service="service-{self._luck.randrange(self._services)}"'} if of_service else {}
        times = [self._begin, (self._begin + now) / 2, now] if of_two else [self._begin, now]
        for side, ends in zip(SIDES if of_two else ("",), pairwise(times), strict=True):
            words |= {f"{side}{name}": f"{at:.0f}" for name, at in zip(("from", "until"), ends, strict=True)}
        return urlencode(words)

    def _ask(self, kind: str, url: str) -> None:
        begin = time.monotonic()
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                answer.read()
        except (OSError, HTTPException) as error:
            told = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
            self.failures.append(f"{kind}: {error} {told}"[:300])
            return
        self.seconds[kind].append(time.monotonic() - begin)
