"""The Helm chart: what it renders, what it refuses, and that its programs would start."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from sidelight import __version__
from sidelight.collector.settings import Settings as Collector
from sidelight.settings import variable
from sidelight.sidecar.settings import Settings as Sidecar

CLUSTER = ("--kube-version", "1.34.0")
RENDER = ("template", "x", *CLUSTER, "--set", "collector.auth.writeTokensSecret=tokens")
HELM_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "helm"
RENDERED = HELM_DIRECTORY / "rendered"
MODES = sorted(path.stem for path in RENDERED.glob("*.yaml"))


def test_the_chart_passes_helms_strict_lint(helm, chart):
    helm("lint", "--strict", chart)


def test_the_rendered_files_in_git_are_what_the_chart_renders(tmp_path):
    subprocess.run([sys.executable, HELM_DIRECTORY / "render.py", tmp_path], check=True, timeout=60)
    assert _texts(tmp_path) == _texts(RENDERED), "run `make chart` and look at the difference"


@pytest.mark.parametrize("mode", MODES)
def test_kubernetes_knows_every_field_that_is_rendered(mode, kubeconform, kubernetes_schemas):
    location = f"{kubernetes_schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = kubeconform("-strict", "-summary", "-schema-location", location, RENDERED / f"{mode}.yaml")
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.parametrize("key", ["replica", "collector.replica", "collector.store.s3.bucket", "sidecar.cpu"])
def test_a_value_nobody_knows_is_refused(key, helm, chart):
    done = helm(*RENDER, chart, "--set", f"{key}=1", check=False)
    assert done.returncode != 0
    assert f"'{key.rpartition('.')[2]}' not allowed" in done.stderr


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (["collector.replicas=2"], "a directory store has one collector"),
        (["collector.auth.writeTokensSecret="], "name a Secret with the tokens that may write"),
        (["collector.store.kind=s3"], "an S3 store needs its url"),
        (["collector.store.kind=s3", "collector.store.s3.url=profiles"], "does not match pattern"),
        (["collector.settings.listen=:80"], "collector.settings.listen: the chart sets this itself"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_reason(values, complaint, helm, chart):
    flags = [part for value in values for part in ("--set", value)]
    done = helm(*RENDER, chart, *flags, check=False)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_the_sidecar_may_read_other_processes_and_nothing_else():
    context = _container("sidecar", "sidelight")["securityContext"]
    assert context == {
        "runAsUser": 0,
        "runAsNonRoot": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_kubernetes_asks_the_sidecar_whether_it_lives_and_not_whether_it_is_ready():
    sidecar = _container("sidecar", "sidelight")
    [port] = sidecar["ports"]
    assert sidecar["livenessProbe"]["httpGet"] == {"path": "/livez", "port": port["name"]}
    assert "readinessProbe" not in sidecar
    assert {"name": "SIDELIGHT_LISTEN", "value": f"0.0.0.0:{port['containerPort']}"} in sidecar["env"]


def test_a_sidecar_with_a_pattern_does_not_watch_everything(helm, service_chart):
    text = helm(
        "template", "x", service_chart, *CLUSTER, "--set", "sidelight.sidecar.settings.match=gunicorn"
    ).stdout
    [container] = [one for one in _pod_of(text)["containers"] if one["name"] == "sidelight"]
    assert container["args"] == ["sidecar"]
    assert {"name": "SIDELIGHT_MATCH", "value": "gunicorn"} in container["env"]


def test_a_setting_that_the_sidecars_template_makes_is_refused(helm, service_chart):
    flags = ("--set", "sidelight.sidecar.settings.spool_dir=/spool")
    done = helm("template", "x", service_chart, *CLUSTER, *flags, check=False)
    assert done.returncode != 0
    assert "sidelight.sidecar.settings.spool_dir: the chart sets this itself" in done.stderr


def test_the_sidecar_has_a_memory_limit_and_no_cpu_limit():
    assert set(_container("sidecar", "sidelight")["resources"]["limits"]) == {"memory"}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "sidecar"])
def test_the_collector_runs_without_root_capabilities_or_a_token_of_the_cluster(mode):
    pod = _pod(mode)
    context = _container(mode, "collector")["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("mode", MODES)
def test_every_variable_the_chart_sets_is_a_setting_of_the_program(mode):
    program, settings = ("sidelight", Sidecar) if mode == "sidecar" else ("collector", Collector)
    known = {variable(field) for field in dataclasses.fields(settings)}
    given = {entry["name"] for entry in _container(mode, program)["env"]}
    assert {name for name in given if name.startswith("SIDELIGHT_")} <= known


def test_the_region_reaches_the_client_of_s3(monkeypatch):
    for entry in _container("s3", "collector")["env"]:
        monkeypatch.setenv(entry["name"], entry["value"])
    assert boto3.session.Session().region_name == "eu-west-1"


def test_a_collector_may_end_in_its_own_time():
    assert _pod("s3")["terminationGracePeriodSeconds"] > Collector(store="s3://profiles").shutdown_seconds


def test_the_charts_application_is_this_version():
    chart = yaml.safe_load((HELM_DIRECTORY / "sidelight" / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_a_large_number_in_the_settings_arrives_as_it_was_written(helm, chart, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text("collector: {settings: {max_body_bytes: 33554432, log_json: false}}")
    text = helm(*RENDER, chart, "--values", values).stdout
    assert 'name: SIDELIGHT_MAX_BODY_BYTES\n              value: "33554432"' in text
    assert 'name: SIDELIGHT_LOG_JSON\n              value: "false"' in text


def _texts(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in directory.glob("*.yaml")}


def _pod(mode: str) -> dict[str, Any]:
    return _pod_of((RENDERED / f"{mode}.yaml").read_text(encoding="utf-8"))


def _pod_of(text: str) -> dict[str, Any]:
    [deployment] = [document for document in yaml.safe_load_all(text) if document["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def _container(mode: str, name: str) -> dict[str, Any]:
    [container] = [container for container in _pod(mode)["containers"] if container["name"] == name]
    return container
