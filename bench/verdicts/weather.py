"""A model of varying load, so that recordings resemble production.

The request rate of a service is the product of a compressed day (a sine with a lunch break), a slow random
drift (its logarithm is a first-order autoregression with `WANDER_SECONDS`), and bursts. Each pod has its
own share of the load, which drifts too. Each kind of request has its own share, which differs between pods.
The requests depend only on the seed; response times do not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

STEP_SECONDS: Final = 0.1
DAY_SECONDS: Final = 225.0
"""The length of a compressed day of the recordings."""
WANDER_SECONDS: Final = 20.0
_WANDER: Final = 0.25
_POD_WANDER_SECONDS: Final = 30.0
_POD_WANDER: Final = 0.15
_KIND_WANDER_SECONDS: Final = 40.0
_KIND_WANDER: Final = 0.3
_BURSTS_EVERY_SECONDS: Final = 45.0
KINDS: Final[Mapping[str, Sequence[str]]] = {
    "feed": (
        "GET /items.json", "GET /items.xml", "GET /items.csv", "GET /items.mail", "GET /words",
        "GET /stream", "GET /many", "POST /items", "GET /items.nothing",
    ),
    "shop": (
        "GET /?page=3", "GET /?page=7", "GET /search/?q=red+warm", "GET /search/?q=old", "GET /p/7/",
        "GET /p/60/", "GET /p/101/", "GET /report/", "GET /nowhere/",
    ),
}  # fmt: skip
RATES: Final = {"feed": 16.0, "shop": 3.5}
"""Requests per second and pod."""
UNLIKE: Final = 0.1
"""The standard deviation of the logarithms of the pods' shares of the load."""


@dataclass(frozen=True, slots=True)
class Weather:
    """A load model of one service.

    `rate` is the mean number of requests per second over all pods, and `shares` has the share of each pod.
    """

    rate: float
    day_seconds: float
    shares: Sequence[float]
    kinds: Sequence[str]
    seed: int

    def requests(self, seconds: float) -> Iterator[tuple[float, int, str]]:
        """Yield (seconds from the start, pod, kind) of each request, in time order."""
        luck = random.Random(self.seed)
        whole = sum(self.shares)
        shared = Wander(luck, _WANDER, WANDER_SECONDS)
        pods = [Wander(luck, _POD_WANDER, _POD_WANDER_SECONDS) for _ in self.shares]
        kinds = [Wander(luck, _KIND_WANDER, _KIND_WANDER_SECONDS) for _ in self.kinds]
        tastes = [[math.exp(luck.gauss(0, 0.2)) for _ in self.kinds] for _ in self.shares]
        burst, burst_until = 1.0, 0.0
        for step in range(round(seconds / STEP_SECONDS)):
            at = step * STEP_SECONDS
            if at >= burst_until:
                burst = 1.0
                if luck.random() < STEP_SECONDS / _BURSTS_EVERY_SECONDS:
                    burst, burst_until = luck.uniform(1.5, 3.0), at + luck.uniform(2, 6)
            now = self.rate * self.curve(at) * shared.factor() * burst * STEP_SECONDS
            weights = [kind.factor() for kind in kinds]
            due: list[tuple[float, int, str]] = []
            for pod, share in enumerate(self.shares):
                mixed = [weight * taste for weight, taste in zip(weights, tastes[pod], strict=True)]
                for _ in range(poisson(luck, now * share / whole * pods[pod].factor())):
                    (kind,) = luck.choices(self.kinds, mixed)
                    due.append((at + luck.random() * STEP_SECONDS, pod, kind))
            yield from sorted(due)

    def curve(self, at: float) -> float:
        """Return the daily factor at a time.

        It is 1 on average, about 0.4 at night and 1.6 in the evening, with a dip at lunch.
        """
        phase = 2 * math.pi * at / self.day_seconds
        return 1 - 0.5 * math.cos(phase) - 0.15 * math.cos(2 * phase)


class Wander:
    """A random factor around 1, autocorrelated over `seconds`."""

    def __init__(self, luck: random.Random, size: float, seconds: float) -> None:
        self._luck = luck
        self._size = size
        self._keep = math.exp(-STEP_SECONDS / seconds)
        self._at = luck.gauss(0, size)

    def factor(self) -> float:
        """Draw the factor of the next step."""
        kick = self._luck.gauss(0, self._size * math.sqrt(1 - self._keep**2))
        self._at = self._keep * self._at + kick
        return math.exp(self._at - self._size**2 / 2)


def poisson(luck: random.Random, mean: float) -> int:
    """Draw a Poisson number by arrival times."""
    count, spent = 0, luck.expovariate(1)
    while spent < mean:
        count += 1
        spent += luck.expovariate(1)
    return count


def shares(pods: int, seed: int) -> list[float]:
    """Draw the permanent share of the load of each pod, relative to the others."""
    luck = random.Random(seed)
    return [luck.lognormvariate(0, UNLIKE) for _ in range(pods)]
