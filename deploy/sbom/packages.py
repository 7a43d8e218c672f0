"""Packages that Sidelight ships, read from the lock files.

A lock says which version is shipped. The licence of a Python package is in its installed metadata, that of a
crate in its manifest, and that of an npm package in the lock itself. Where a lock has a version for each
Python, the metadata are those of the running Python's version.
"""

import base64
import importlib.metadata
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from deploy.sbom.licenses import read_metadata_license, to_spdx

TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
"""The platforms of the native wheels."""


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """A package at the version of its lock.

    `registry` is a type of package URLs: pypi, cargo or npm; generic for Sidelight's own distributions, which
    no registry has. `license` is an SPDX expression, or the text of the metadata if it is none. `checksum`
    is the hash of the one archive that the lock names, as (algorithm, hexadecimal digits).
    """

    registry: str
    name: str
    version: str
    license: str
    checksum: tuple[str, str] | None = None


def read_python_lock(lock: Path, python_version: str) -> Iterator[Package]:
    """Read the packages that pip installs from a lock on this version of Python, such as "3.12"."""
    environment = {"python_version": python_version, "python_full_version": f"{python_version}.0"}
    for entry in lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        requirement = Requirement(entry.partition("--hash=")[0])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            [version] = (specifier.version for specifier in requirement.specifier)
            metadata = importlib.metadata.metadata(requirement.name)
            license_text = read_metadata_license(requirement.name, metadata)
            yield Package("pypi", requirement.name, version, license_text)


def read_crates(folder: Path, feature: str) -> Iterator[Package]:
    """Read the crates that are compiled into the extension: no build scripts' and no tests' crates."""
    platforms = [flag for target in TARGETS for flag in ("--filter-platform", target)]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--features", feature, *platforms]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    metadata = json.loads(done.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    locked = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {(crate["name"], crate["version"]): crate.get("checksum") for crate in locked}
    for identity in _find_normal_dependencies(metadata["resolve"]):
        name, version = packages[identity]["name"], packages[identity]["version"]
        license_text = to_spdx(packages[identity]["license"] or "")
        yield Package("cargo", name, version, license_text, ("SHA-256", checksums[name, version]))


def _find_normal_dependencies(resolve: Mapping[str, Any]) -> set[str]:
    """Find the ids of all crates that the root needs at run time, without the root."""
    nodes = {node["id"]: node for node in resolve["nodes"]}
    waiting, reached = [resolve["root"]], set()
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in reached:
                reached.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return reached


def read_npm_lock(lock: Path) -> Iterator[Package]:
    """Read the packages that the pages consist of.

    These are the direct dependencies: `web/build/finish.ts` copies the built release of speedscope, and none
    of the packages that speedscope needs as a program.
    """
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    for name in packages[""]["dependencies"]:
        entry = packages[f"node_modules/{name}"]
        algorithm, _, digest = entry["integrity"].partition("-")
        checksum = (algorithm.upper().replace("SHA", "SHA-"), base64.b64decode(digest).hex())
        yield Package("npm", name, entry["version"], to_spdx(entry.get("license", "")), checksum)


_BLOCK = re.MULTILINE | re.DOTALL


@dataclass(frozen=True, slots=True)
class ImageContent:
    """What a stage of the Dockerfile installs into an image."""

    lock: str
    distributions: tuple[str, ...]
    """The folders of Sidelight's own distributions."""


def read_python_version(dockerfile: str) -> str:
    """Read the version of Python in the images, such as "3.12"."""
    [version] = re.findall(r"^ARG PYTHON_IMAGE=\S*python:(\d+\.\d+)", dockerfile, re.MULTILINE)
    return str(version)


def read_image_content(dockerfile: str, image: str) -> ImageContent:
    """Read what the stage `IMAGE-environment` installs."""
    stage = re.findall(rf"^FROM python AS {image}-environment$(.*?)^FROM ", dockerfile, _BLOCK)[0]
    [lock] = re.findall(r"--requirement (\S+)", stage)
    [copied] = re.findall(r"^COPY --from=package (.*) /wheels/$", stage, re.MULTILINE)
    return ImageContent(lock, tuple(path.removeprefix("/wheels/") for path in copied.split()))


def read_own_distribution(folder: Path, version: str) -> Package:
    """Read one of Sidelight's own distributions."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Package("generic", project["name"], version, project["license"])
