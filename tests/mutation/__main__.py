"""Mutation testing of the store: what `make test-mutation` runs.

    python -m tests.mutation [--only NAME …] [--seconds 600] [--jobs 2]

Runs the simulation on a copy of the sources for each defect of `mutants`, and prints a table of those that it
found. Ends with status 1 if it found fewer than REQUIRED of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.mutation.mutants import MUTANTS, Mutant

ROOT: Final = Path(__file__).parents[2]
REQUIRED: Final = 18
"""How many of the defects the simulation must find."""
_SOURCES: Final = ("core", "model", "collector", "sidecar", "cli", "kubernetes", "injector", "tests")
_HEADER: Final = "| defect | found | seed | seconds | what it does |\n|---|---|---|---|---|"


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    mutants = [one for one in MUTANTS if not options.only or one.name in options.only]
    with TemporaryDirectory(prefix="sidelight-mutation-") as folder:
        pristine = run_simulation(copy_sources(Path(folder) / "unchanged"), min(options.seconds, 60))
        if pristine["problem"]:
            print(f"the simulation fails without a defect: {pristine['problem']}")
            return 1
        print(_HEADER, flush=True)
        test = partial(test_mutant, folder=Path(folder), seconds=options.seconds)
        with ThreadPoolExecutor(options.jobs) as threads:
            results = list(threads.map(test, mutants))
    found = sum(bool(result["problem"]) for result in results)
    print(f"{found} of {len(mutants)} found")
    return 0 if found >= min(REQUIRED, len(mutants)) else 1


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", action="append", choices=names, help="this defect alone; may be repeated")
    parser.add_argument("--seconds", type=float, default=600, help="longest run for each defect (600)")
    parser.add_argument("--jobs", type=int, default=2, help="simulations at the same time (2)")
    return parser.parse_args(arguments)


def test_mutant(mutant: Mutant, folder: Path, seconds: float) -> Mapping[str, Any]:
    """Run the simulation with one defect, and print its row of the table."""
    root = copy_sources(folder / mutant.name)
    apply_mutant(mutant, root)
    result = run_simulation(root, seconds)
    shutil.rmtree(root)
    is_found = "yes" if result["problem"] else "no"
    row = f"| {mutant.name} | {is_found} | {result['seed']} | {result['seconds']:.1f} | {mutant.defect} |"
    print(row, flush=True)
    if result["problem"]:
        print(f"    {result['problem'][:200]}", file=sys.stderr, flush=True)
    return result


def copy_sources(target: Path) -> Path:
    """Copy the Python sources of this checkout; return the copy."""
    ignore = shutil.ignore_patterns("__pycache__", "ui", "*.zst", "*.npz", "node_modules", ".*")
    for name in _SOURCES:
        shutil.copytree(ROOT / name, target / name, ignore=ignore)
    return target


def apply_mutant(mutant: Mutant, root: Path) -> None:
    """Change the line of a defect. Raises ValueError unless the file has it exactly once."""
    file = root / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has {text.count(mutant.old)} times {mutant.old!r}")
    file.write_text(text.replace(mutant.old, mutant.new))


def run_simulation(root: Path, seconds: float) -> Mapping[str, Any]:
    """Run the simulation on a copy of the sources, in a process of its own."""
    folders = [str(root / name) for name in _SOURCES if name != "tests"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.mutation.simulate", "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"the simulation in {root} ended with {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not result["source"].startswith(str(root)):
        raise RuntimeError(f"the simulation ran {result['source']}, which is not the copy in {root}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
