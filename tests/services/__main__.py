"""The services matrix: `python -m tests.services [--python 3.11] [--service TEXT] [--page FILE]`.

Runs one service at a time. What each run found is kept under the cache folder, so that a part of the
matrix can be run again, or one interpreter after another; the page has everything that was found.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.processes import ROOT
from tests.services.expectations import problems
from tests.services.page import Result, by_version, page
from tests.services.sampled_service import REQUESTS_PER_SECOND, watch
from tests.services.stacks import SERVICES, Service
from tests.services.venvs import CACHE, NotInstalled, environment

RESULTS = CACHE / "results"
PYTHONS = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
_OLDEST = (3, 6)


def main(argv: Sequence[str]) -> int:
    """0 when everything that could be installed was seen as it is."""
    parser = argparse.ArgumentParser(prog="python -m tests.services")
    parser.add_argument("--python", action="append", default=[], help="only interpreters that begin so")
    parser.add_argument(
        "--service", action="append", default=[], help="only services with this in their name"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each is watched")
    parser.add_argument("--missing", action="store_true", help="only what has not been found right yet")
    parser.add_argument("--page", type=Path, help="write the page here")
    options = parser.parse_args(argv)
    pythons = [
        python
        for python in interpreters()
        if not options.python or _version(python).startswith(tuple(options.python))
    ]
    if not pythons:
        sys.stderr.write(f"there is no such interpreter in {PYTHONS}\n")
        return 2
    wrong = 0
    for python in pythons:
        for service in SERVICES.values():
            asked = not options.service or any(text in service.name for text in options.service)
            if not asked or not service.runs_on(_version(python)):
                continue
            before = kept(_version(python), service)
            if options.missing and before is not None and before.state != "wrong":
                continue
            result = run(service, python, options.seconds)
            keep(result)
            wrong += result.state == "wrong"
            idle = f"idle {result.idle_seen:.3f} / {result.idle_true:.3f}" if result.mode else ""
            sys.stdout.write(f"{result.python:8} {service.name:36} {result.state:8} {idle} {result.why}\n")
            sys.stdout.flush()
    if options.page:
        text = page(all_kept(), seconds=options.seconds, rate=REQUESTS_PER_SECOND, machine=machine())
        options.page.write_text(text)
    return 1 if wrong else 0


def run(service: Service, python: Path, seconds: float) -> Result:
    """Install, run and judge one service."""
    version = _version(python)
    if version.endswith("t"):  # py-spy takes native captures, and cannot read it
        service = replace(service, native="")
    try:
        installed = environment(python, service.requirements)
    except NotInstalled as error:
        return Result(service.name, version, "missing", f"not installed: {error}")
    versions = {name: installed.versions[name] for name in service.packages if name in installed.versions}
    with tempfile.TemporaryDirectory(prefix="sidelight-services-") as folder:
        try:
            seen = watch(service, installed, Path(folder), seconds)
        except AssertionError as error:
            lines = str(error).strip().splitlines() or ["it failed"]
            return Result(service.name, version, "wrong", lines[0][:200], versions=versions)
    found = problems(service, seen)
    busy_seen, busy_true = seen.cores()
    return Result(
        service.name,
        version,
        "wrong" if found else "ok",
        "; ".join(found),
        1 - busy_seen / len(seen.processes),
        1 - busy_true / len(seen.processes),
        sum(one.waited for one in seen.processes) / len(seen.processes),
        seen.leaf_share(service.leaf),
        seen.mode,
        seen.sampler,
        versions,
    )


def interpreters() -> list[Path]:
    """Those of pyenv's folder from 3.6 on, oldest first."""
    found = [path for path in PYTHONS.glob("3.*[0-9t]/bin/python3") if by_version(_version(path)) >= _OLDEST]
    return sorted(found, key=lambda path: by_version(_version(path)))


def keep(result: Result) -> None:
    """Remember a result until the next of the same service and interpreter."""
    path = _place(result.python, result.service)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"of": commit(), **result.told()}))


def kept(python: str, service: Service) -> Result | None:
    path = _place(python, service.name)
    if not path.exists():
        return None
    told = json.loads(path.read_text())
    told.pop("of")
    return Result(**told)


def all_kept() -> Iterator[Result]:
    """What is known, of interpreters and services that there are."""
    for python in interpreters():
        for service in SERVICES.values():
            if (result := kept(_version(python), service)) is not None:
                yield result


def commit() -> str:
    """What was run."""
    told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip()


def machine() -> str:
    """The machine in a few words."""
    return f"{os.cpu_count()} cores of {platform.machine()}, Linux {platform.release().split('-')[0]}"


def _place(python: str, service: str) -> Path:
    return RESULTS / python / f"{service.replace(' ', '_').replace('/', '_')}.json"


def _version(python: Path) -> str:
    return python.parts[-3]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
