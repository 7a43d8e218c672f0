"""Wheels hold their own code and what it runs with, and install where there is no Node."""

import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = "native"
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml") if path.parent.name != NATIVE)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution, by its folder."""
    target = tmp_path_factory.mktemp("dist")
    for folder in FOLDERS:
        _build("--wheel", "--outdir", target / folder, ROOT / folder)
    return {folder: next((target / folder).glob("*.whl")) for folder in FOLDERS}


def test_every_wheel_has_its_own_package_alone(wheels):
    packages = {}
    for folder, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        assert len(names) == len(set(names))
        packages[folder] = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {
        folder: {"sidelight" if folder == "core" else f"sidelight_{folder}"} for folder in FOLDERS
    }


def test_every_wheel_has_the_one_version_and_its_licence(wheels):
    [version] = {wheel.name.split("-")[1] for wheel in wheels.values()}
    assert f'__version__ = "{version}"' in (ROOT / "core" / "sidelight" / "__init__.py").read_text()
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            assert any(name.endswith("/LICENSE") for name in archive.namelist())


@pytest.mark.parametrize(("folder", "extra"), [*((folder, "") for folder in FOLDERS), ("sidecar", "agent")])
def test_a_wheel_installs_and_imports_with_what_it_depends_on_alone(wheels, folder, extra, tmp_path):
    installed = _with_dependencies(folder, extra)
    venv.create(tmp_path / "venv", symlinks=True, system_site_packages=False)
    python = tmp_path / "venv" / "bin" / "python"
    flags = ["--quiet", "--no-deps", "--no-index", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "--python", python, "install", *flags]
    subprocess.run([*command, *(wheels[each] for each in installed)], check=True, timeout=120)
    package = "sidelight" if folder == "core" else f"sidelight_{folder}"
    code = (
        "import importlib, pkgutil, sys; sys.path.append(sys.argv[1]); "
        f"import {package} as top; "
        "modules = pkgutil.walk_packages(top.__path__, top.__name__ + '.'); "
        "names = [module.name for module in modules if not module.name.startswith(sys.argv[2])]; "
        "[importlib.import_module(name) for name in names]"
    )
    # third-party packages come from the environment of the tests, in which ours are editable and not copied
    packages = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
    # this package needs its extra
    without = "sidelight_sidecar.agent." if not extra else "-"
    subprocess.run([python, "-c", code, packages, without], check=True, timeout=120, cwd=tmp_path)
    if "core" in installed:
        help_ = subprocess.run(
            [tmp_path / "venv" / "bin" / "sidelight", "--help"], capture_output=True, text=True, check=True
        ).stdout
        commands = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"].get(
            "entry-points", {}
        )
        assert all(f"  {name} " in help_ for name in commands.get("sidelight.commands", {}))


def test_no_source_map_and_no_web_source_is_shipped(wheels):
    with zipfile.ZipFile(wheels["collector"]) as wheel:
        names = wheel.namelist()
    assert "sidelight_collector/ui/index.html" in names
    assert not [name for name in names if name.endswith((".map", ".ts", ".tsx", "package.json"))]


def test_the_wheel_carries_the_services_of_the_demo(wheels):
    services = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    with zipfile.ZipFile(wheels["cli"]) as wheel:
        names = wheel.namelist()
    assert services
    assert [f"sidelight_cli/demo/services/{name}" for name in services] == sorted(
        name for name in names if name.startswith("sidelight_cli/demo/services/") and name.endswith(".py")
    )


def test_the_pages_carry_the_licences_of_what_they_are_made_of(wheels):
    with zipfile.ZipFile(wheels["collector"]) as wheel:
        text = wheel.read("sidelight_collector/ui/assets/licences.txt").decode()
    made_of = json.loads((ROOT / "web" / "package.json").read_text()).get("dependencies", {})
    assert all(f"{name} " in text for name in [*made_of, "preact", "speedscope"])
    assert text.count("Permission is hereby granted") >= len(made_of)


def test_a_checkout_without_ui_and_without_npm_says_what_is_missing(tmp_path):
    for name in (
        "collector/pyproject.toml",
        "collector/hatch_build.py",
        "core/sidelight/__init__.py",
        "LICENSE",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("collector/sidelight_collector", "web"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", tmp_path / "collector"]
    done = subprocess.run(
        command, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "npm is not on PATH: install Node 20.19 or later" in done.stdout + done.stderr


def _with_dependencies(folder: str, extra: str = "") -> set[str]:
    """A distribution and those of ours that it depends on, also by an extra."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    found = {folder}
    for text in [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else ())]:
        name = text.partition("[")[0]
        if name == "sidelight" or name.startswith("sidelight-"):
            found |= _with_dependencies("core" if name == "sidelight" else name.removeprefix("sidelight-"))
    return found


def _build(*arguments: object) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", *map(str, arguments)]
    done = subprocess.run(
        command, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
