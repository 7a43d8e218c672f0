"""Looks for known vulnerabilities with osv-scanner: in the SBOMs, and in archives of built images.

`python -m deploy.sbom.audit [--sboms dist/sbom] [--database DIR] [--image FILE]…` ends with 1 if an advisory
matches, and if a scan could not be made. Without `--database`, a folder of `deploy.sbom.advisories`, the
scanner asks api.osv.dev. Without advisories its scan of an image finds nothing and succeeds, while its scan
of an SBOM fails: so the SBOMs are first, and a database that it could not load counts as a failure.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCANNER = ROOT / ".tools" / "bin" / "osv-scanner"
CONFIG = Path(__file__).with_name("osv-scanner.toml")
DATABASE_VARIABLE = "OSV_SCALIBR_LOCAL_DB_CACHE_DIRECTORY"
NOT_LOADED = "could not load db"
"""The scanner's message for an ecosystem without a database."""
TIMEOUT_SECONDS = 600
CLEAN, VULNERABLE, FAILED = "clean", "vulnerable", "failed"


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom.audit", description="find vulnerabilities")
    parser.add_argument("--sboms", type=Path, default=ROOT / "dist" / "sbom", help="the folder of the SBOMs")
    parser.add_argument("--database", type=Path, help="offline databases, from deploy.sbom.advisories")
    parser.add_argument("--image", type=Path, action="append", default=[], help="an archive of an image")
    arguments = parser.parse_args(argv)
    sboms = sorted(arguments.sboms.glob("*.cdx.json"))
    if not SCANNER.is_file() or not sboms:
        sys.exit(f"error: {SCANNER if sboms else arguments.sboms} is missing\nhint: make audit")
    environment, flags = dict(os.environ), ["--config", str(CONFIG)]
    if arguments.database:
        environment[DATABASE_VARIABLE] = str(arguments.database)
        flags.append("--offline")
    results = {path: scan(["source", *flags, "--lockfile", path], environment) for path in sboms}
    if arguments.image and FAILED in results.values() and not arguments.database:
        sys.exit("error: the images are not scanned, because no advisories are available\nhint: --database")
    for path in arguments.image:
        results[path] = scan(["image", *flags, "--archive", path], environment)
    for path, result in results.items():
        sys.stdout.write(f"{result}: {path}\n")
    sys.exit(0 if set(results.values()) == {CLEAN} else 1)


def scan(arguments: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """Run the scanner; its findings go to standard output."""
    command = [SCANNER, "scan", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    is_loaded = NOT_LOADED not in done.stdout + done.stderr
    if done.returncode == 0 and is_loaded:
        return CLEAN
    sys.stdout.write(done.stdout)
    if done.returncode == 1 and is_loaded:
        return VULNERABLE
    sys.stdout.write("".join(f"{line}\n" for line in done.stderr.splitlines()[-3:]))
    return FAILED


if __name__ == "__main__":
    main(sys.argv[1:])
