"""The sdist and the wheel carry the built UI and the demo's services, and install where there is no Node."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it by a build that finds no npm."""
    target = tmp_path_factory.mktemp("dist")
    _build("--sdist", "--outdir", target, ROOT, path=os.environ["PATH"])
    [sdist] = target.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    _build("--wheel", "--outdir", target, target / sdist.name.removesuffix(".tar.gz"), path="/nowhere")
    [wheel] = target.glob("*.whl")
    return sdist, wheel


def test_an_sdist_and_its_wheel_hold_the_same_user_interface(distributions):
    sdist, wheel = distributions
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        wheeled = archive.namelist()
    ui = {name for name in wheeled if name.startswith("collector/sidelight_collector/ui/")}
    assert "collector/sidelight_collector/ui/index.html" in ui
    assert ui <= packed
    assert len(wheeled) == len(set(wheeled))


def test_no_source_map_and_no_web_source_is_shipped(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        assert not [
            name for name in wheel.namelist() if name.endswith((".map", ".ts", ".tsx", "package.json"))
        ]


def test_the_wheel_carries_the_services_of_the_demo(distributions):
    services = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = wheel.namelist()
    assert services
    assert [f"cli/sidelight_cli/demo/services/{name}" for name in services] == sorted(
        name for name in names if name.startswith("cli/sidelight_cli/demo/services/") and name.endswith(".py")
    )


def test_the_pages_carry_the_licences_of_what_they_are_made_of(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        text = wheel.read("collector/sidelight_collector/ui/assets/licences.txt").decode()
    made_of = json.loads((ROOT / "web" / "package.json").read_text()).get("dependencies", {})
    assert all(f"{name} " in text for name in [*made_of, "speedscope"])
    assert text.count("Permission is hereby granted") >= len(made_of)


def test_an_sdist_installs_where_there_is_no_node(distributions, tmp_path):
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    flags = ["--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "--python", python, "install", *flags, distributions[1]]
    subprocess.run(command, env={"PATH": "/nowhere"}, check=True, timeout=120)
    [page] = tmp_path.glob("venv/lib/python*/site-packages/sidelight/collector/ui/index.html")
    assert "<html" in page.read_text(encoding="utf-8")


def test_a_checkout_without_ui_and_without_npm_says_what_is_missing(tmp_path):
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("sidelight", "web", "examples"):
        (tmp_path / name).mkdir()
    (tmp_path / "sidelight" / "__init__.py").write_text('__version__ = "0"\n')
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", tmp_path]
    done = subprocess.run(
        command, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "npm is not on PATH: install Node 20.19 or later" in done.stdout + done.stderr


def _build(*arguments: object, path: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
