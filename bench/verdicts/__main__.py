"""Check the promises of verdicts, on simulated services and on real recordings.

    python -m bench.verdicts [--quick] [--only rates|equal-load|power|looks|families|real|cost ...]
        [--page docs/verdicts.md]

The trials are seeded, so all tables except the CPU time are the same each time. `--quick` runs fewer
trials: a share of 5 % is accurate to ±1.4 points with 1,000 trials, and to ±4.4 points with 100.
"""

from __future__ import annotations

import os

# One thread, as in the collector's image: on small matrices more threads only wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.verdicts import cost, page, rates, real, trees
from bench.verdicts.page import Table

PARTS: dict[str, Callable[[int], Sequence[Table]]] = {
    "rates": lambda trials: [rates.equal(4 * trials)],
    "equal-load": lambda trials: [rates.equal_load(2 * trials)],
    "power": lambda trials: [rates.planted(trials)],
    "looks": lambda trials: [rates.looks(trials // 2)],
    "families": lambda trials: [trees.discoveries(trials // 5)],
    "real": lambda trials: real.recorded(trials),
    "cost": lambda trials: [cost.cost(9)],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 trials of each kind instead of 1,000")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    options = parser.parse_args()
    tables: list[Table] = []
    for name in options.only or PARTS:
        start = time.process_time()
        made = PARTS[name](100 if options.quick else 1000)
        tables += made
        print("\n".join(table.text() for table in made), flush=True)
        print(f"{name}: {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    if options.page:
        chosen = "".join(f" --only {name}" for name in options.only or ())
        page.write(options.page, f"python -m bench.verdicts{' --quick' * options.quick}{chosen}", tables)


if __name__ == "__main__":
    main()
