"""Play the simulation of the store, seed by seed, until a check fails or the time is over.

    python -m tests.mutation.simulate --seconds 600

Prints one line of JSON. Runs in the copy of the sources that its working directory is.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from itertools import count
from typing import Any

import structlog

from sidelight_collector.storage import segments
from sidelight_collector.storage.backends.memory import MemoryStore
from tests.collector.simulation import World, played


def play_seeds(seconds: float, first_seed: int = 0) -> dict[str, Any]:
    """Return whether a seed failed, which, after how long, and why."""
    began = time.monotonic()
    for seed in count(first_seed):
        problem = ""
        try:
            played(World(seed, MemoryStore()))
        except AssertionError as error:
            problem = str(error).splitlines()[0]
        elapsed = time.monotonic() - began
        if problem or elapsed > seconds:
            return {"problem": problem, "seed": seed, "seconds": elapsed, "source": segments.__file__}
    raise AssertionError("seeds have no end")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.simulate")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(json.dumps(play_seeds(options.seconds, options.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
