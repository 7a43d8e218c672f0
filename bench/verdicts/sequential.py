"""Verdicts about real versions that run one after the other.

    python -m bench.verdicts.sequential [--page bench/results/sequential.md]

A service answers 50 requests a second. Then a version of it with a planted change answers 100, and then one
without. Each has three pods with a sidecar per pod, and runs for three minutes and 12,000 samples at least.
`sidelight compare` chooses times and basis. The table shows the requests that were answered, what the
command said, and the load of the machine. It takes about ten minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.verdicts.page import Table, describe_run, format_share
from tests.e2e.sequential_versions import PLANTED_FUNCTION, REQUESTS, changed, compared, run_version
from tests.processes import collector

BASELINE, *VERSIONS = REQUESTS
PLANTED: Final = {
    "half_more": f"`{PLANTED_FUNCTION}` takes half more: its share about +44 %",
    "equal": "nothing",
}
TITLE: Final = "# Tests of comparisons on sequential versions: results"
HEAD: Final = (
    "planted", "requests/s answered before", "after", "basis", "functions called changed",
    f"share of `{PLANTED_FUNCTION}`", "interval", "first culprit", "total CPU time", "load of the machine",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, help="write the table to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with collector(folder, str(folder / "store")) as served:
            before = run_version(folder, served, BASELINE)
            rows = []
            for version in VERSIONS:
                after = run_version(folder, served, version)
                rows.append(describe(version, before, after, compared(served, version)))
    table = Table("Three pods a side", HEAD, rows).text()
    print(table)
    if given.page:
        command = "`python -m bench.verdicts.sequential` wrote this file."
        given.page.write_text("\n\n".join((TITLE, command, describe_run(datetime.now(UTC).date()), table)))


def describe(version: str, before: float, after: float, told: Mapping[str, Any]) -> Sequence[str]:
    verdict = told["verdict"]
    (price,) = (one["self"] for one in told["rows"] if one["function"] == PLANTED_FUNCTION)
    culprits = verdict["culprits"]["rows"]
    return (
        PLANTED[version],
        f"{before:.0f} of {REQUESTS[BASELINE]:.0f}",
        f"{after:.0f} of {REQUESTS[version]:.0f}",
        verdict["basis"],
        ", ".join(f"`{name}`" for name in changed(told)) or "none",
        f"{price['direction']}: {format_change(price['relative'])}",
        f"{format_change(price['relative_low'])} to {format_change(price['relative_high'])}",
        f"`{culprits[0]['function']}`" if culprits else "none",
        f"{verdict['direction']}: {format_change(verdict['rate']['relative'])}",
        f"{os.getloadavg()[1]:.0f}",
    )


def format_change(part: float) -> str:
    return f"{'+' if part >= 0 else ''}{format_share(part)}"


if __name__ == "__main__":
    main()
