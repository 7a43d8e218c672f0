"""The documentation names existing files and metrics, and the right tool versions."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sidelight_collector.metrics import Metrics as CollectorMetrics
from sidelight_sidecar.metrics import SidecarMetrics

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("native/*.md")])
FOLDERS = (
    *("bench", "cli", "collector", "core", "deploy", "docs", "examples", "injector", "kubernetes", "model"),
    *("requirements", "sidecar", "tests"),
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    linked = [page.parent / target for target in re.findall(r"\]\((?!https?:)([^)#]+)", text)]
    named = [ROOT / path for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text)]
    assert [str(path) for path in linked + named if not path.exists()] == []


def test_every_metric_of_an_alert_is_published():
    named = set(
        re.findall(
            r"sidelight_(?!native)[a-z_]+", (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
        )
    )
    declared = {
        metric.name + {"counter": "_total", "histogram": "_bucket"}.get(metric.type, "")
        for metrics in (CollectorMetrics(), SidecarMetrics())
        for metric in metrics.registry.collect()
    }
    assert named
    assert named <= declared


def test_the_rust_that_is_asked_for_compiles_every_locked_crate():
    flags = [
        "--format-version",
        "1",
        "--locked",
        "--offline",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]
    command = ["cargo", "metadata", *flags, "--manifest-path", ROOT / "native" / "Cargo.toml"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    crates = json.loads(listed)["packages"]
    needed = max(_version(crate["rust_version"]) for crate in crates if crate["rust_version"])
    assert _asked_for("Rust") >= needed


def test_the_node_that_is_asked_for_is_the_one_that_the_pages_need():
    needed = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))["engines"]["node"]
    assert _asked_for("Node") >= _version(needed.removeprefix(">="))


def _asked_for(tool: str) -> tuple[int, ...]:
    """Read a tool's version from CONTRIBUTING.md, which the Makefile must repeat."""
    [version] = re.findall(
        rf"{tool} ([0-9.]+) or later", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"install {tool} {version} or later" in makefile
    return _version(version)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def test_the_documentation_site_is_built_without_a_warning(tmp_path):
    mkdocs = Path(sys.executable).with_name("mkdocs")
    command = [mkdocs, "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (tmp_path / "site" / page).exists()} == set()
