"""The sidecar as the chart renders it for the injector."""

import subprocess
from pathlib import Path

import pytest
import yaml

from sidelight_injector.admission.recipe import Recipe
from tests.processes import tool

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sidecar_json() -> str:
    """The ConfigMap's `sidecar.json`, of a release whose other values are the chart's own."""
    flags = ["--kube-version", "1.34.0", "--namespace", "profiling", "--set", "injector.enabled=true"]
    flags += ["--set", "kubernetes.identity=true", "--set", "sidecar.serviceAccountToken.enabled=true"]
    flags += ["--set", "collector.auth.readTokensSecret=readers"]
    flags += ["--show-only", "templates/injector-configmap.yaml"]
    command = [tool("helm"), "template", "sidelight", ROOT / "deploy" / "helm" / "sidelight", *flags]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    return yaml.safe_load(text)["data"]["sidecar.json"]


@pytest.fixture(scope="session")
def recipe(sidecar_json: str) -> Recipe:
    return Recipe.parse(sidecar_json)
