"""Prove the promises of comparisons, on simulated services and on real recordings.

    python -m bench.verdicts [--quick] [--only equal|planted|power|detectable|load|looks|cost ...]
        [--page bench/results/verdicts.md]

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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.verdicts import cost, page, tables
from bench.verdicts.page import Table

PARTS: dict[str, Callable[[int], Table]] = {
    "equal": tables.tabulate_equal,
    "planted": tables.tabulate_planted,
    "power": tables.tabulate_power,
    "detectable": lambda trials: tables.tabulate_detectable(2 * trials),
    "load": tables.tabulate_load,
    "looks": tables.tabulate_looks,
    "cost": lambda _: cost.tabulate_cost(9),
}
TRIALS = 300
QUICK_TRIALS = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_TRIALS} trials of each kind instead of {TRIALS}"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--page", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    results: list[Table] = []
    for name in options.only or PARTS:
        start = time.process_time()
        results.append(PARTS[name](QUICK_TRIALS if options.quick else TRIALS))
        print(results[-1].text(), flush=True)
        print(f"{name}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    if options.page:
        chosen = "".join(f" --only {name}" for name in options.only or ())
        command = f"python -m bench.verdicts{' --quick' * options.quick}{chosen}"
        page.write(options.page, command, page.describe_run(datetime.now(UTC).date()), results)


if __name__ == "__main__":
    main()
