"""Virtual environments for the services, one for each interpreter and file of pins, kept between runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.services.stacks import COMPILED

REQUIREMENTS = Path(__file__).parent / "requirements"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sidelight-services"
_INSTALL_SECONDS = 1200
_LAST_PIP_OF_36 = "pip==21.3.1"
_PIP = "pip==26.3"


class NotInstalled(Exception):
    """A stack cannot be installed on an interpreter; the message says why, in a line."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter with packages: its `bin` folder, where its libpython is, versions by package."""

    bin: Path
    lib: Path
    versions: Mapping[str, str]
    modules: Path | None = None

    @property
    def python(self) -> Path:
        return self.bin / "python3"


def own() -> Environment:
    """The interpreter that runs the tests, with what is installed beside it."""
    from importlib.metadata import distributions

    versions = {found.name.lower(): found.version for found in distributions()}
    return Environment(Path(sys.executable).parent, Path(sys.base_prefix) / "lib", versions)


def environment(python: Path, requirements: str) -> Environment:
    """An environment with what `requirements` pins; raises NotInstalled, also when it failed before."""
    version = _said(
        python, "import platform, sys; print(platform.python_version() + 't' * ('t' in sys.abiflags))"
    )
    lib = Path(_said(python, "import sys; print(sys.base_prefix)")) / "lib"
    if not requirements:
        return Environment(python.parent, lib, {})
    pins = (REQUIREMENTS / f"{requirements}.txt").read_text()
    folder = CACHE / version / requirements
    stamp = hashlib.sha256(f"{_PIP}\n{pins}".encode() + _sources(requirements)).hexdigest()
    outcome = folder / "outcome.json"
    if not outcome.exists() or json.loads(outcome.read_text())["stamp"] != stamp:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        told = {"stamp": stamp, **_install(python, version, REQUIREMENTS / f"{requirements}.txt", folder)}
        outcome.write_text(json.dumps(told))
    told = json.loads(outcome.read_text())
    if told["problem"]:
        raise NotInstalled(told["problem"])
    modules = folder / "compiled" if requirements == "compiled" else None
    return Environment(folder / "venv" / "bin", lib, told["versions"], modules)


def _install(python: Path, version: str, pins: Path, folder: Path) -> dict[str, object]:
    venv, log = folder / "venv", folder / "log"
    pip = [str(venv / "bin" / "python"), "-m", "pip"]
    made = subprocess.run([python, "-m", "venv", venv], capture_output=True, check=False)
    if made.returncode:
        # Debian keeps ensurepip in a package of its own.
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
        packages = _said(venv / "bin" / "python", "import sysconfig; print(sysconfig.get_path('purelib'))")
        copy = ["install", "--quiet", "--no-deps", "--target", packages, _PIP]
        subprocess.run([sys.executable, "-m", "pip", *copy], check=True)
    with log.open("wb") as output:
        if version.startswith("3.6."):
            # The one that Python 3.6 brings knows no wheels of its last years.
            subprocess.run([*pip, "install", "--quiet", _LAST_PIP_OF_36], stdout=output, check=False)
        command = [*pip, "--disable-pip-version-check", "install", "--quiet", "--requirement", str(pins)]
        try:
            done = subprocess.run(
                command, stdout=output, stderr=output, timeout=_INSTALL_SECONDS, check=False
            )
            if done.returncode == 0 and pins.stem == "compiled":
                shutil.copytree(COMPILED, folder / "compiled", dirs_exist_ok=True)
                build = [str(venv / "bin" / "python"), "setup.py", "--quiet", "build_ext", "--inplace"]
                done = subprocess.run(
                    build, cwd=folder / "compiled", stdout=output, stderr=output, timeout=_INSTALL_SECONDS,
                    check=False,
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"problem": f"not installed within {_INSTALL_SECONDS} s", "versions": {}}
    if done.returncode < 0:
        raise RuntimeError(f"installing {pins.stem} was ended by signal {-done.returncode}")
    if done.returncode:
        return {"problem": _reason(log.read_text(errors="replace")), "versions": {}}
    listed = subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True, text=True)
    found = json.loads(listed.stdout)
    return {"problem": "", "versions": {one["name"].lower(): one["version"] for one in found}}


def _reason(log: str) -> str:
    """The line of a failed installation that says most: the compiler's first error, else pip's."""
    lines = [line.strip() for line in log.splitlines()]
    compiler = r"error: .*(no member|undeclared|implicit|too (few|many))"
    for pattern in (compiler, r"\berror: ", r"^\w+Error: ", r"(?i)error"):
        for line in lines:
            if re.search(pattern, line) and "subprocess-exited" not in line:
                return re.sub(r"^\S*/", "", re.sub(r"\x1b\[[0-9;]*m", "", line))[:160]
    return (lines or ["no reason given"])[-1][:160]


def _sources(requirements: str) -> bytes:
    if requirements != "compiled":
        return b""
    return b"".join(path.read_bytes() for path in sorted(COMPILED.iterdir()) if path.is_file())


def _said(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
