"""The cost of a pprof profile: CPU milliseconds from the bytes of a push to hashed windows.

    python bench/pyroscope.py [--stacks 2000] [--depth 40] [--repeats 200]

The profile has `--stacks` distinct stacks of `--depth` frames, as a client of Pyroscope pushes it. The rows
are the least and the median CPU time of one thread: of the samples alone, of a whole push, and of a
compressed one.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sidelight_collector.ingest.pyroscope.profile_sums import ProfileLimits, SampleValues, sum_pprof
from sidelight_collector.ingest.pyroscope.push_parsing import parse_push
from sidelight_collector.ingest.pyroscope.series_labels import PyroscopeClient
from sidelight_collector.ingest.validation import IngestLimits, ReceivedRequest
from sidelight_model.counts import STATES
from sidelight_model.window import WindowLimits
from tests.collector.pyroscope_bodies import MS, Sample, pprof, push

LIMIT_MS = 2.5
BODY_BYTES = 32 << 20
FUNCTIONS = 1500


def build_profile(stacks: int, depth: int) -> bytes:
    """A profile whose stacks share their first half in groups, as handlers of a server do."""
    chance = random.Random(1)
    frames = [(f"handle_{at}", f"shop/views_{at % 97}.py", at % 300 + 1) for at in range(FUNCTIONS)]
    shared = depth // 2
    samples = []
    for _ in range(stacks):
        root = chance.randrange(50)
        own = chance.choices(frames, k=depth - shared)
        stack = [*frames[root * 7 : root * 7 + shared], *own]
        samples.append(Sample(stack, [chance.randrange(1, 9) * 10 * MS], {"endpoint": "/cart"}))
    return pprof(samples, start_ns=time.time_ns() - 20 * 10**9)


def measure(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The least and the median CPU milliseconds of this thread."""
    costs = []
    for _ in range(repeats):
        began = time.thread_time_ns()
        run()
        costs.append((time.thread_time_ns() - began) / 1e6)
    return min(costs), statistics.median(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stacks", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    profile = build_profile(options.stacks, options.depth)
    limits = IngestLimits(WindowLimits(), BODY_BYTES, 300 * 10**9, 7 * 86_400 * 10**9)
    bounds = ProfileLimits(BODY_BYTES // 64, BODY_BYTES, 100_000, 4096, 64, 32)
    values = SampleValues(((0, STATES.index("running")),), None, None, 1, 10 * MS)
    now_ns, body = time.time_ns(), push(profile)
    packed = gzip.compress(body, 6)

    def parse(content: bytes, encoding: str) -> object:
        received = ReceivedRequest(content, encoding, {}, now_ns)
        return parse_push(received, limits, PyroscopeClient(), is_json=False)

    text = sum_pprof(profile, values, (), bounds).text_bytes
    print(f"{options.stacks} stacks of {options.depth} frames: {len(profile):,} bytes, {text:,} as text")
    rows = (
        ("samples of the profile", lambda: sum_pprof(profile, values, (), bounds)),
        ("a push, until its windows are hashed", lambda: parse(body, "")),
        ("the same, compressed with gzip", lambda: parse(packed, "gzip")),
    )
    for name, run in rows:
        least, median = measure(run, options.repeats)
        print(f"{name}: {least:.2f} ms at least, median {median:.2f} ms")
        if run is rows[1][1]:
            print(f"asked: {LIMIT_MS} ms, so {least / LIMIT_MS:.2f} of it")


if __name__ == "__main__":
    main()
