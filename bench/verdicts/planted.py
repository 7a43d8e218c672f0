"""Verdicts about real processes with a planted change.

    python -m bench.verdicts.planted [--seconds 60] [--pods 5] [--only more,equal]
        [--page bench/results/planted.md]

Each version of tests/e2e/planted_changes.py runs beside `base`, with `--pods` pods of each and a sidecar
per pod, under equal load. Then the script runs `sidelight compare` with `--fail-on 'cpu>+3%'`. The table
shows the planted change, the version's additional CPU per request by the kernel's clock, and the output of
the command. It takes about a minute and a half per version. All numbers except the planted change depend on
this machine and on its other load: `waited` is the share of the samples in state running that waited for a
CPU, which blurs the results for functions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.planted_changes import compare, document, planted, ran
from tests.processes import collector

PLANTED: Final = {
    "more": "`tax` takes more: +8 %",
    "less": "`search` takes less: -8 %",
    "new": "`check` is new: +4 %",
    "equal": "nothing: +0 %",
    "deeper": "ten more frames, the same work",
    "renamed": "`price` is called `quote`, four lines further down",
}
HEAD: Final = (
    "planted", "by the kernel's clock", "said", "interval", "own functions, depth", "exit", "waited",
)  # fmt: skip
TITLE: Final = "# Tests of comparisons on real processes: results\n"
CONDITION: Final = "cpu>+3%"
ENDS: Final = {0: "0 (pass)", 1: "1 (regressed)", 2: "2 (inconclusive)", 3: "3 (not comparable)"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--pods", type=int, default=5)
    parser.add_argument("--only", default=",".join(PLANTED))
    parser.add_argument("--page", type=Path, help="write the table to this file")
    given = parser.parse_args()
    lines = [line(HEAD), line(["---"] * len(HEAD))]
    print("\n".join(lines), flush=True)
    for version in given.only.split(","):
        lines.append(line(measured(version, given.seconds, given.pods)))
        print(lines[-1], flush=True)
    if given.page:
        given.page.write_text("\n".join((TITLE, *lines, "")))


def line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def measured(version: str, seconds: float, pods: int) -> Sequence[str]:
    """Measure a version; return its row of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with (
            collector(folder, str(folder / "store")) as served,
            planted(folder / "pods", served, {"base": pods, version: pods}, seconds=seconds + 240) as running,
        ):
            run = ran(served, running, lambda start: time.sleep(seconds))
            told = document(compare(served, version, run.start, f"{run.until}", "--fail-on", CONDITION))
    rate = told["verdict"]["rate"]
    sampled = told["verdict"]["sampling_only"]["baseline"]
    waited = 1 - run.clocks["base"] / pods / (run.until - run.start) / sampled
    return (
        PLANTED[version],
        f"{100 * run.truth(version):+.1f} %",
        f"{rate['direction']}: {100 * rate['relative']:+.1f} %",
        f"{percent(rate['relative_low'])} to {percent(rate['relative_high'])}",
        "; ".join(found(told)),
        ENDS[told["exit_code"]],
        f"{100 * max(0, waited):.0f} %",
    )


def found(told: Mapping[str, Any]) -> list[str]:
    """List the service's own functions that changed, and a change of the depth.

    A function changes in its self time or in its name.
    """
    own = [one for one in told["rows"] if one["file"] == "shop.py"]
    said = [
        f"`{one['function']}` {one['self']['direction']}"
        for one in own
        if one["self"]["direction"] in ("increased", "decreased", "new", "removed")
    ]
    said += [f"`{one['function']}` was `{one['renamed_from']}`" for one in own if one["renamed_from"]]
    depth = told["verdict"]["depth"]["p50"]
    if depth["direction"] in ("increased", "decreased"):
        said.append(f"median depth {depth['delta']:+.0f} ({depth['low']:+.0f} to {depth['high']:+.0f})")
    return said or ["nothing"]


def percent(value: float | None) -> str:
    return "any" if value is None else f"{100 * value:+.1f} %"


if __name__ == "__main__":
    main()
