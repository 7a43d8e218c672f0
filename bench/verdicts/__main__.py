"""Prove the promises of comparisons, on simulated services and on real recordings.

    python -m bench.verdicts [--quick] [--only equal|planted|power|detectable|load|looks|cost ...]
        [--processes 2] [--page bench/results/verdicts.md]

The trials are seeded, so all tables except the CPU time are the same each time. `--quick` runs fewer
trials: a share of 5 % is accurate to ±2.5 points with 300 trials, and to ±4.4 points with 100.
"""

from __future__ import annotations

import os

# One thread, as in the collector's image: on small matrices more threads only wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.verdicts import cost, page, tables
from bench.verdicts.page import Table

PARTS: dict[str, Callable[[int, tables.Run], Table]] = {
    "equal": tables.tabulate_equal,
    "planted": tables.tabulate_planted,
    "power": tables.tabulate_power,
    "detectable": lambda trials, run: tables.tabulate_detectable(2 * trials, run),
    "load": tables.tabulate_load,
    "looks": tables.tabulate_looks,
}
COST = "cost"
"""The part that measures CPU time: it runs last, and alone."""
TRIALS = 300
QUICK_TRIALS = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_TRIALS} trials of each kind instead of {TRIALS}"
    )
    parser.add_argument(
        "--only", action="append", choices=(*PARTS, COST), help="only this part; may be given again"
    )
    parser.add_argument("--page", type=Path, help="write the tables to this file")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="processes at once, default one for each CPU"
    )
    options = parser.parse_args()
    start = time.perf_counter()
    chosen, trials = options.only or [*PARTS, COST], QUICK_TRIALS if options.quick else TRIALS
    results: list[Table] = []
    # Spawned, because threads start them.
    with (
        ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool,
        ThreadPoolExecutor(len(PARTS)) as threads,
    ):

        def run(jobs: Sequence[Callable[[], Any]]) -> Sequence[Any]:
            return [future.result() for future in [pool.submit(job) for job in jobs]]

        running = [threads.submit(PARTS[name], trials, run) for name in chosen if name in PARTS]
        for future in running:
            results.append(future.result())
            print(results[-1].text(), flush=True)
    if COST in chosen:
        results.append(cost.tabulate_cost(9))
        print(results[-1].text(), flush=True)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.page:
        only = "".join(f" --only {name}" for name in options.only or ())
        command = f"python -m bench.verdicts{' --quick' * options.quick}{only}"
        page.write(options.page, command, page.describe_run(datetime.now(UTC).date()), results)


if __name__ == "__main__":
    main()
