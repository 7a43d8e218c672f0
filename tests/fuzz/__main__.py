"""Fuzz all parsers and the HTTP API: what `make fuzz` runs.

    python -m tests.fuzz [--only TARGET …] [--seconds 60] [--inputs 100000] [--seed 1] [--engine auto]
    python -m tests.fuzz --only TARGET --reproduce FILE

Ends with status 1 if an input failed, and names the file that has it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import requests

from tests.fuzz import api_fuzzer
from tests.fuzz.all_targets import TARGETS, find_target
from tests.fuzz.api_fuzzer import BadAnswer, fuzz_api, replay
from tests.fuzz.collector import running_collector
from tests.fuzz.fuzzer import find_problem, fuzz
from tests.fuzz.report import FAILURES, HEADER, ROOT, Failure, Summary
from tests.fuzz.targets import Target

ENGINES = ("auto", "atheris", "outcomes")


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    names = options.only or [*(target.name for target in TARGETS), api_fuzzer.TARGET]
    if options.reproduce:
        return reproduce(names[0], options.reproduce)
    is_guided = options.engine == "atheris" or (options.engine == "auto" and find_spec("atheris") is not None)
    print(f"seed {options.seed}; files of failing inputs: {FAILURES}\n{HEADER}", flush=True)
    summaries = []
    for name in names:
        limits = options.seed, options.inputs, options.seconds
        if name == api_fuzzer.TARGET:
            with running_collector() as api:
                found = [fuzz_api(api, *limits)]
        else:
            found = [fuzz(find_target(name), *limits)]
            if is_guided:
                found.append(fuzz_by_coverage(find_target(name), *limits))
        for summary in found:
            print(summary, flush=True)
            for failure in summary.failures:
                print(f"FAILED {failure}", flush=True)
        summaries += found
    failures = sum(len(one.failures) for one in summaries)
    print(f"{sum(one.inputs for one in summaries):,} inputs, {failures} failures, seed {options.seed}")
    return 1 if failures else 0


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    add = parser.add_argument
    names = [*(target.name for target in TARGETS), api_fuzzer.TARGET]
    add("--only", action="append", default=[], choices=names, help="this target alone; may be repeated")
    add("--seconds", type=float, default=60, help="for each target and engine (60)")
    add("--inputs", type=int, default=10**9, help="most inputs for each target and engine")
    add("--seed", type=int, default=int(time.time()), help="the same seed tries the same inputs (the time)")
    add("--engine", choices=ENGINES, default="auto", help="auto: both if atheris is installed")
    add("--reproduce", type=Path, help="a file with a failing input of the target in --only")
    options = parser.parse_args(arguments)
    if options.reproduce and len(options.only) != 1:
        parser.error("--reproduce needs one --only")
    return options


def reproduce(name: str, file: Path) -> int:
    """Run the input of a file again; return 1 if it still fails."""
    if name == api_fuzzer.TARGET:
        with running_collector() as api, requests.Session() as session:
            try:
                print(f"status {replay(api.url, json.loads(file.read_bytes()), session)}")
            except (BadAnswer, requests.RequestException) as error:
                print(error)
                return 1
        return 0
    outcome, problem = find_problem(find_target(name), file.read_bytes())
    print(problem or outcome)
    return 1 if problem else 0


def fuzz_by_coverage(target: Target, seed: int, inputs: int, seconds: float) -> Summary:
    """Fuzz a target under atheris, in a process that libFuzzer ends."""
    command = [sys.executable, "-m", "tests.fuzz.coverage_guided", target.name]
    command += [str(seed % 2**31), str(min(inputs, 2**31 - 1)), str(max(1, round(seconds))), str(FAILURES)]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    text = (done.stderr + done.stdout).decode(errors="replace")
    summary = Summary(target.name, "atheris", seconds=time.monotonic() - began)
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", text))
    summary.inputs, summary.new_outcomes = (
        int(stats.get(name, 0)) for name in ("number_of_executed_units", "new_units_added")
    )
    if done.returncode:
        files = re.findall(r"Test unit written to (\S+)", text)
        problem = "\n".join(text.splitlines()[-40:])
        summary.failures.append(Failure(target.name, problem, Path(files[-1]) if files else FAILURES))
    return summary


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
