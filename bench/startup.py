"""The CPU time and memory that each program takes to start, compared with another checkout.

    python -m bench.startup [--against CHECKOUT] [--repeats 21] [--only sidecar,record]

Both checkouts run with the packages of this interpreter, in turns. `sidecar` is `sidelight sidecar --help`,
and `imports of sidecar` are the modules that it imports before it runs.
"""

import argparse
import atexit
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sidelight.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SERVERS = ("sidecar", "collector", "injector")
IMPORTS_OF = "imports of "


class Cost(NamedTuple):
    cpu_ms: float
    memory_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout of Sidelight")
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of programs")
    options = parser.parse_args()
    checkouts = [ROOT, *([options.against] if options.against else [])]
    print("| program | CPU, ms | before, ms | ratio | memory, MB | before, MB | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in [*COMMANDS, *(IMPORTS_OF + server for server in SERVERS)]:
        if options.only and name.removeprefix(IMPORTS_OF) not in options.only:
            continue
        runs: list[list[Cost]] = [[] for _ in checkouts]
        for _ in range(options.repeats + 1):
            for costs, checkout in zip(runs, checkouts, strict=True):
                costs += measure_start(checkout, name)
        # The first run compiles modules.
        medians = [Cost(*map(statistics.median, zip(*costs[1:], strict=True))) for costs in runs if costs]
        print(format_row(name, medians), flush=True)


def measure_start(checkout: Path, program: str) -> list[Cost]:
    """Start a program of a checkout once; no cost if the checkout lacks it."""
    server = program.removeprefix(IMPORTS_OF)
    if (checkout / "sidelight").is_dir():  # before each folder was a distribution
        console, imports = "sidelight.cli", f"import sidelight.{server}.main"
    else:  # as the console script does
        threshold = "import gc; gc.set_threshold(10_000)"
        console = "sidelight.main"
        imports = f"{threshold}; import sidelight.logs, sidelight_{server}.main"
    arguments = ["-c", imports] if server != program else ["-m", console, program, "--help"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(link_packages(checkout))
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd="/",
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, process.returncode, usage = os.wait4(process.pid, 0)
    if process.returncode:
        return []
    return [Cost((usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024)]


@cache
def link_packages(checkout: Path) -> Path:
    """Link the packages of a checkout into one folder, as an environment has them."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    for package in [*checkout.glob("sidelight"), *checkout.glob("*/sidelight*/")]:
        if (package / "__init__.py").is_file():
            (folder / package.name).symlink_to(package.resolve())
    return folder


def format_row(name: str, medians: list[Cost]) -> str:
    """Format the costs of a program: of this checkout, of the other, and their ratio."""
    cells = [name]
    for values, digits in zip(zip(*medians, strict=True), (0, 1), strict=True):
        now, *others = values
        before, ratio = (f"{others[0]:.{digits}f}", f"{now / others[0]:.2f}") if others else ("", "")
        cells += [f"{now:.{digits}f}", before, ratio]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
