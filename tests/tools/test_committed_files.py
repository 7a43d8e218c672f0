"""Committed files work with any mirror and pin exactly the tested packages."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements/*.txt"))
# Written in parts: this file is in git as well.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("deb", "debian", "org"),
        ("registry-1", "docker", "io"),
    )
]
# Cargo writes the name of its default registry into every lock file, even if it uses a mirror.
CARGO_DEFAULT = "registry+https://github.com/rust-lang/" + "crates" + "." + "io-index"


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_committed_text_names_the_host_of_a_package_registry():
    found = []
    for path in committed():
        if not path.is_file() or b"\0" in (content := path.read_bytes()):
            continue
        text = content.decode("utf-8", errors="replace").replace(CARGO_DEFAULT, "")
        found += [f"{path.relative_to(ROOT)}: {host}" for host in REGISTRY_HOSTS if host in text]
    assert found == []


def test_no_committed_link_leads_out_of_the_checkout():
    links = [path for path in committed() if path.is_symlink()]
    assert [path.name for path in links if not path.resolve().is_relative_to(ROOT)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_every_package_by_hash_and_names_no_address(lock):
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    entries = text.replace("\\\n", " ").splitlines()
    assert entries
    assert [entry for entry in entries if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_lock_agrees_with_the_lock_that_is_tested(lock):
    tested = pins(ROOT / "requirements" / "dev.txt")
    shared = pins(lock)
    shared.pop("atheris", None)  # `make fuzz` alone installs it
    assert shared.items() <= tested.items()


@pytest.mark.parametrize("extra", ["sidecar", "collector", "demo", "build", "dev"])
def test_the_lock_satisfies_what_the_package_asks_for(extra):
    locked = pins(ROOT / "requirements" / f"{extra}.txt")
    missing = [
        str(requirement)
        for requirement in required("sidelight-workspace", extra)
        if requirement.name not in locked or not requirement.specifier.contains(locked[requirement.name])
    ]
    assert missing == [], "run `make lock`"


def test_the_node_lock_has_a_hash_for_every_package_and_no_address():
    text = (ROOT / "web" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text


def required(name: str, *extras: str) -> list[Requirement]:
    """List the external requirements of one of our distributions with these extras.

    They include the requirements of our other distributions on which it depends.
    """
    own, found = projects(), []
    texts = list(own[name].get("dependencies", []))
    for extra in extras:
        texts += own[name]["optional-dependencies"][extra]
    for requirement in map(Requirement, texts):
        if requirement.name in own:
            found += required(requirement.name, *requirement.extras)
        else:
            found.append(requirement)
    return found


def projects() -> dict[str, dict[str, Any]]:
    files = [ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml")]
    found = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    return {project["name"]: project for project in found if project["name"] != "sidelight-native"}


def pins(lock: Path) -> dict[str, Version]:
    lines = lock.read_text(encoding="utf-8").splitlines()
    matches = [re.match(r"([a-z0-9-]+)==([^ ;]+)", line) for line in lines]
    return {match[1]: Version(match[2]) for match in matches if match}
