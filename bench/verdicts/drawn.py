"""The load of the recordings, drawn for as many days as are wanted.

Thirty recorded days are some twenty pairs of days, and how often a change is seen among so few can hardly
tell luck from fault. Here the same `weather` goes on for hundreds of days over services that are made up:
each request takes CPU time that is drawn, of its own function and of one that all requests share, and beside
them a function runs that does not follow load at all.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from bench.verdicts.real import DAY, PERIOD_SECONDS, SECONDS, Grid
from bench.verdicts.weather import DAY_SECONDS, KINDS, RATES, Weather, shares

PODS: Final = 12
LOAD: Final = 0.2
"""As the recordings of thirty days have it."""
_COST: Final = {"feed": 0.005, "shop": 0.02}
"""Seconds of CPU time that a request takes on average."""
_UNLIKE: Final = 0.5
"""The standard deviation of the logarithms of what kinds of requests take."""
_SHARED: Final = 0.4
"""What part of a request's time the function has that all share."""
_STEADY: Final = 0.002
"""Seconds of CPU time a second that do not follow load."""


def drawn(service: str, days: int, seed: int) -> Grid:
    """Pods and windows of so many days; functions are one of each kind of request, the one that they share,
    and the steady one."""
    luck, kinds = np.random.default_rng(seed), KINDS[service]
    rate = LOAD * RATES[service] * PODS
    weather = Weather(rate, DAY_SECONDS, shares(PODS, seed), kinds, seed)
    asked = np.zeros((len(kinds), PODS, days * DAY))
    number = {kind: at for at, kind in enumerate(kinds)}
    for at, pod, kind in weather.requests(days * DAY_SECONDS):
        asked[number[kind], pod, int(at / SECONDS)] += 1
    cost = _COST[service] * np.exp(luck.normal(0, _UNLIKE, len(kinds)))[:, None, None]
    # a request's time is exponential, so that of several is gamma
    took = np.where(asked > 0, luck.gamma(np.maximum(asked, 1), cost), 0.0)
    steady = luck.gamma(20, _STEADY * SECONDS / 20, asked.shape[1:])
    seconds = np.concatenate([(1 - _SHARED) * took, _SHARED * took.sum(0)[None], steady[None]])
    own = luck.poisson(seconds / PERIOD_SECONDS).astype(float)
    samples = np.concatenate([own.sum(0)[None], own, own])
    watched = np.full(asked.shape[1:], SECONDS)
    return Grid(watched, asked.sum(0), 1e6 * seconds.sum(0), samples, len(own))
