"""A process that sends requests to a service's pods, following a `weather` model.

    python -m bench.verdicts.load '{"ports": […], "seconds": 60, "weather": {…}}' OUTPUT

The requests go over loopback, in an open loop: each has a fixed due time. If a pod has `MOST` pending
requests, the request is counted as dropped. At its end the process writes the number of responses by pod
and second, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

import aiohttp

from bench.verdicts.weather import Weather

MOST: Final = 16
_TIMEOUT_SECONDS: Final = 20


class Load:
    """Sends requests and counts responses, failures and dropped requests."""

    def __init__(self, ports: list[int], session: aiohttp.ClientSession) -> None:
        self._ports = ports
        self._session = session
        self._open = [0] * len(ports)
        self._titles = count()
        self.answered = [Counter[int]() for _ in ports]
        self.failed = self.dropped = 0
        self.start = 0.0

    async def run(self, weather: Weather, seconds: float) -> None:
        self.start = start = time.time()
        async with asyncio.TaskGroup() as group:
            for at, pod, kind in weather.requests(seconds):
                if (early := start + at - time.time()) > 0:
                    await asyncio.sleep(early)
                if self._open[pod] >= MOST:
                    self.dropped += 1
                    continue
                self._open[pod] += 1
                group.create_task(self._ask(pod, kind), name="request")

    async def _ask(self, pod: int, kind: str) -> None:
        method, _, path = kind.partition(" ")
        try:
            url = f"http://127.0.0.1:{self._ports[pod]}{path}"
            title = f"title {next(self._titles)}"  # equal titles would fill lists with equal words
            form = {"title": title, "more": "x" * 400} if method == "POST" else None
            async with self._session.request(method, url, data=form, allow_redirects=False) as answer:
                await answer.read()
            self.answered[pod][int(time.time())] += 1
        except (aiohttp.ClientError, TimeoutError):
            self.failed += 1
        finally:
            self._open[pod] -= 1


async def loaded(plan: dict[str, object]) -> str:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    ports, seconds = plan["ports"], plan["seconds"]
    assert isinstance(ports, list)
    assert isinstance(seconds, int | float)
    assert isinstance(plan["weather"], dict)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        load = Load(ports, session)
        await load.run(Weather(**plan["weather"]), seconds)
    answered = [sorted(pod.items()) for pod in load.answered]
    told = {"start": load.start, "until": load.start + seconds, "answered": answered}
    return json.dumps({**told, "failed": load.failed, "dropped": load.dropped})


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(asyncio.run(loaded(json.loads(sys.argv[1]))))
