"""`make sbom`: every package that is shipped is in it with version and licence, and no tool is."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.component import ComponentType
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.sbom.__main__ import Shipment, find_refused
from deploy.sbom.licenses import is_allowed, is_spdx
from deploy.sbom.packages import Package

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("sidecar", "collector")


@pytest.fixture(scope="module")
def sbom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sbom"))


def write(target: Path) -> Path:
    command = [sys.executable, "-m", "deploy.sbom", "--into", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


def read_components(path: Path) -> dict[str, dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return {component["bom-ref"]: component for component in document["components"]}


def pinned(lock: str) -> Iterator[str]:
    """The packages that a lock pins for Python 3.12, the images' Python."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    for name, version, marker in re.findall(r"^([\w.-]+)==(\S+)(?: ;(.*?))? \\$", text, re.MULTILINE):
        if "python_full_version < '3.12'" not in marker:
            yield f"pkg:pypi/{name}@{version}"


def compiled_crates() -> set[str]:
    """The crates that cargo links into the extension."""
    flags = ["--edges=normal", "--prefix=none", "--format={p}", "--features=extension-module", "--locked"]
    command = ["cargo", "tree", *flags, "--target=x86_64-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=ROOT / "native", capture_output=True, text=True, check=True)
    lines = {
        line.split(" ")[0] + "@" + line.split(" ")[1].removeprefix("v")
        for line in done.stdout.split("\n")
        if line
    }
    return {f"pkg:cargo/{line}" for line in lines if not line.startswith("sidelight-native@")}


@pytest.mark.parametrize("image", IMAGES)
def test_an_images_sbom_has_every_package_of_its_locks_and_no_tool(sbom, image):
    found = read_components(sbom / f"sidelight-{image}-image.cdx.json")
    python = {name for name in found if name.startswith("pkg:pypi/")}
    assert python == set(pinned(image))
    assert compiled_crates() <= found.keys()
    tools = {name.partition("@")[0] for name in {*pinned("dev")} - {*pinned("sidecar"), *pinned("collector")}}
    assert {"pkg:pypi/pytest", "pkg:pypi/ruff", "pkg:pypi/maturin"} <= tools
    assert tools.isdisjoint(name.partition("@")[0] for name in found)


def test_the_pages_are_in_the_collectors_image_alone(sbom):
    pages = read_components(sbom / "sidelight-web.cdx.json").keys()
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert pages == {
        f"pkg:npm/{name}@{lock[f'node_modules/{name}']['version']}" for name in ("preact", "speedscope")
    }
    sidecar, collector = (read_components(sbom / f"sidelight-{image}-image.cdx.json") for image in IMAGES)
    assert pages <= collector.keys()
    assert pages.isdisjoint(sidecar)


def test_an_images_sbom_has_the_distributions_that_the_dockerfile_installs(sbom):
    sidecar, collector = (read_components(sbom / f"sidelight-{image}-image.cdx.json") for image in IMAGES)
    own = [
        {component["name"] for name, component in found.items() if name.startswith("pkg:generic/")}
        for found in (sidecar, collector)
    ]
    shared = {"sidelight", "sidelight-model", "sidelight-native", "sidelight-sidecar"}
    assert own[0] == shared | {"sidelight-cli"}
    others = {"collector", "injector", "kubernetes", "mcp"}
    assert own[1] == shared | {f"sidelight-{name}" for name in others}


def test_every_package_has_an_spdx_licence_and_is_in_the_list_of_licences(sbom):
    listed = (sbom / "licenses.md").read_text(encoding="utf-8")
    for path in sbom.glob("*.cdx.json"):
        for name, component in read_components(path).items():
            [license_entry] = component["licenses"]
            expression = license_entry.get("expression") or license_entry["license"]["id"]
            assert is_spdx(expression), name
            assert f"| {component['name']} | {component['version']} |" in listed


def test_the_sboms_are_valid_and_equal_for_equal_locks(sbom, tmp_path):
    again = write(tmp_path)
    names = sorted(path.name for path in sbom.iterdir())
    assert len(names) == 5
    assert [(sbom / name).read_bytes() for name in names] == [(again / name).read_bytes() for name in names]
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for path in sbom.glob("*.cdx.json"):
        error = validator.validate_str(path.read_text(encoding="utf-8"))
        assert error is None, f"{path.name}: {str(error)[:300]}"


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 OR GPL-2.0-only", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("MIT AND GPL-3.0-or-later", False),
        ("AGPL-3.0-only", False),
        ("Dual License", False),
        ("", False),
    ],
)
def test_a_licence_outside_the_policy_or_unknown_is_refused(expression, allowed):
    package = Package("cargo", "example", "1.0", expression)
    refused = list(find_refused([Shipment("image", ComponentType.CONTAINER, (package,))]))
    assert is_allowed(expression) is allowed
    assert bool(refused) is not allowed
