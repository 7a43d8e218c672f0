"""Real helm and kubeconform over the chart."""

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.processes import made, tool

ROOT = Path(__file__).resolve().parents[2]

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
    """Helm; the same command is run once, so that tests of one rendering share it."""
    return functools.cache(_program("helm"))


@pytest.fixture(scope="session")
def kubeconform() -> Run:
    return _program("kubeconform")


@pytest.fixture(scope="session")
def helm_unittest() -> Run:
    return _program("helm-unittest")


@pytest.fixture(scope="session")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Strict JSON schemas of what the chart renders, for a version of Kubernetes, a file each."""
    package = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    definitions = _definitions_of_others()

    @functools.cache
    def of(version: str) -> Path:
        source = package / f"v{version}-local-strict"
        target = tmp_path_factory.mktemp("schemas")
        shared = _local(source / "_definitions.json")["$defs"]
        for name in _rendered_kinds():
            schema = definitions.get(name) or _with_definitions(_local(source / f"{name}.json"), shared)
            (target / f"{name}.json").write_text(json.dumps(schema), encoding="utf-8")
        return target

    return of


def _with_definitions(schema: dict[str, Any], shared: Mapping[str, object]) -> dict[str, Any]:
    """A schema and those definitions that it needs."""
    needed: dict[str, object] = {}
    waiting: list[object] = [schema]
    while waiting:
        node = waiting.pop()
        waiting += node if isinstance(node, list) else node.values() if isinstance(node, dict) else ()
        name = str(node["$ref"]).rpartition("/")[2] if isinstance(node, dict) and "$ref" in node else ""
        if name in shared and name not in needed:
            needed[name] = shared[name]
            waiting.append(shared[name])
    return {**schema, "$defs": needed}


def _rendered_kinds() -> set[str]:
    """What is rendered, each kind by the name that kubeconform looks for: kind-group-version."""
    found = set()
    for path in (ROOT / "deploy" / "helm" / "rendered").glob("*.yaml"):
        for resource in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            group, _, version = resource["apiVersion"].rpartition("/")
            name = (resource["kind"], group.partition(".")[0], version)
            found.add("-".join(part for part in name if part).lower())
    return found


def _definitions_of_others() -> dict[str, object]:
    """The schemas of kinds that are not Kubernetes' own, from their definitions, without unknown fields."""
    made("crds-*")
    folder = ROOT / ".tools" / "crds"
    found: dict[str, object] = {}
    for path in folder.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in definition["versions"]:
            group = definition["group"].partition(".")[0]
            name = f"{definition['names']['kind']}-{group}-{version['name']}".lower()
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object"}
            found[name] = _strict(schema)
    return found


def _strict(node: object) -> object:
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(value) for key, value in node.items() if key != "description"}
    if "properties" in node and isinstance(node["properties"], dict):
        strict["additionalProperties"] = False
    if node.get("x-kubernetes-int-or-string"):
        strict.pop("type", None)
    return strict


def _local(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8").replace("/api/_definitions.json#/", "#/"))


def _program(name: str) -> Run:
    path = tool(name)

    def run(
        *arguments: object,
        check: bool = True,
        input: str | None = None,  # noqa: A002
    ) -> subprocess.CompletedProcess[str]:
        command = [path, *map(str, arguments)]
        done = subprocess.run(command, input=input, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run
