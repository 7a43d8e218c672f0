"""Real helm and kubeconform over the chart, and the package as somebody would install it."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import kubernetes_validate
import pytest

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = "1.34.0"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def chart() -> Path:
    return ROOT / "deploy" / "helm" / "sidelight"


@pytest.fixture(scope="session")
def service_chart(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example service's chart, with this one as its dependency."""
    service = tmp_path_factory.mktemp("service") / "checkout"
    shutil.copytree(chart.parent / "example", service)
    shutil.copytree(chart, service / "charts" / "sidelight")
    return service


@pytest.fixture(scope="session")
def helm() -> Run:
    return _program("helm")


@pytest.fixture(scope="session")
def kubeconform() -> Run:
    return _program("kubeconform")


@pytest.fixture(scope="session")
def kubernetes_schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Strict JSON schemas of the kinds the chart renders, each in a file that refers to no other."""
    package = Path(kubernetes_validate.__file__).parent
    source = package / "kubernetes-json-schema" / f"v{KUBERNETES}-local-strict"
    target = tmp_path_factory.mktemp("schemas")
    definitions = _local(source / "_definitions.json")["$defs"]
    for kind in ("deployment-apps-v1", "service-v1", "serviceaccount-v1", "persistentvolumeclaim-v1"):
        schema = {**_local(source / f"{kind}.json"), "$defs": definitions}
        (target / f"{kind}.json").write_text(json.dumps(schema), encoding="utf-8")
    return target


def _local(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8").replace("/api/_definitions.json#/", "#/"))


def _program(name: str) -> Run:
    path = ROOT / ".tools" / "bin" / name
    if not path.is_file():
        pytest.fail(f"{path} is missing: run `make tools`", pytrace=False)

    def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [path, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run
