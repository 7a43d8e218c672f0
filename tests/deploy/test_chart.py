"""The Helm chart: what it renders, what it refuses, and that its programs would start."""

import dataclasses
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from sidelight import __version__
from sidelight.settings import format_variable, parse_settings
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, parse_pod
from sidelight_collector.settings.collector import Settings as Collector
from sidelight_sidecar.agent.settings import AgentSettings, parse_agent_settings
from sidelight_sidecar.settings import SidecarSettings as Sidecar

CLUSTER = ("--kube-version", "1.34.0")
RENDER = (
    "template",
    "x",
    *CLUSTER,
    "--set",
    "collector.auth.writeTokensSecret=tokens,collector.auth.readTokensSecret=read",
)
HELM_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "helm"
RENDERED = HELM_DIRECTORY / "rendered"
MODES = sorted(path.stem for path in RENDERED.glob("*.yaml"))
SIDECARS = [mode for mode in MODES if mode.startswith("sidecar")]
PARTS = [(mode, "collector") for mode in MODES if mode not in SIDECARS] + [("ha", "compactor")]
KUBERNETES = [f"1.{minor}.0" for minor in (27, 29, 31, 34, 37)]
SINCE = {"sidecar-native": "1.29.0"}
"""The first version of Kubernetes that has what a mode needs."""


def test_the_chart_passes_helms_strict_lint(helm, chart):
    helm("lint", "--strict", chart)


def test_the_rendered_files_in_git_are_what_the_chart_renders(tmp_path):
    subprocess.run([sys.executable, HELM_DIRECTORY / "render.py", tmp_path], check=True, timeout=60)
    assert _texts(tmp_path) == _texts(RENDERED), "run `make chart` and look at the difference"


def test_the_charts_own_tests_pass(helm_unittest, chart):
    done = helm_unittest(chart, check=False)
    assert done.returncode == 0, done.stdout


def test_the_readme_in_git_is_what_the_values_say(tmp_path, chart):
    written = tmp_path / "README.md"
    subprocess.run([sys.executable, HELM_DIRECTORY / "readme.py", written], check=True, timeout=60)
    assert written.read_text() == (chart / "README.md").read_text(), "run `make chart`"


def test_the_schema_in_git_knows_the_settings_of_the_programs(tmp_path, chart):
    written = tmp_path / "values.schema.json"
    shutil.copy(chart / "values.schema.json", written)
    subprocess.run([sys.executable, HELM_DIRECTORY / "schema.py", written], check=True, timeout=60)
    assert written.read_text() == (chart / "values.schema.json").read_text(), "run `make chart`"


def test_a_value_without_a_word_of_what_it_is_for_is_found(tmp_path, chart):
    shutil.copytree(chart, tmp_path / "sidelight")
    shutil.copy(HELM_DIRECTORY / "readme.py", tmp_path)
    values = tmp_path / "sidelight" / "values.yaml"
    values.write_text(values.read_text() + "surplus: 1\n")
    command = [sys.executable, tmp_path / "readme.py", tmp_path / "README.md"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "values.yaml: surplus has no comment" in done.stderr


def test_every_value_has_a_place_in_the_schema_and_no_other(chart):
    schema = json.loads((chart / "values.schema.json").read_text())
    values = yaml.safe_load((chart / "values.yaml").read_text())
    assert _keys(values, schema, schema) == []
    assert set(schema["properties"]) - {"global"} == set(values)


def _keys(value: Any, schema: dict[str, Any], root: dict[str, Any], path: str = "") -> list[str]:
    """Where the values and the schema have other keys, or the schema takes any."""
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
    if "properties" not in schema or not isinstance(value, dict):
        return []
    odd = [f"{path}.{key}" for key in value if key not in schema["properties"]]
    odd += [path] if schema.get("additionalProperties") is not False else []
    parts = [(key, part) for key, part in value.items() if key in schema["properties"]]
    return odd + [
        one for key, part in parts for one in _keys(part, schema["properties"][key], root, f"{path}.{key}")
    ]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_knows_every_field_that_is_rendered(version, kubeconform, schemas):
    location = f"{schemas(version)}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    files = [RENDERED / f"{mode}.yaml" for mode in MODES if version >= SINCE.get(mode, "")]
    done = kubeconform("-strict", "-summary", "-schema-location", location, *files, check=False)
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout, done.stdout


def test_a_field_that_kubernetes_does_not_know_is_found(kubeconform, schemas, tmp_path):
    text = (RENDERED / "ha.yaml").read_text(encoding="utf-8")
    spoilt = tmp_path / "spoilt.yaml"
    spoilt.write_text(text.replace("\nspec:\n", "\nspec:\n  unheard: of\n"), encoding="utf-8")
    location = f"{schemas('1.34.0')}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = kubeconform("-strict", "-summary", "-schema-location", location, spoilt, check=False)
    specs = text.count("\nspec:\n")
    assert f"Invalid: {specs}, Errors: 0, Skipped: 0" in done.stdout


@pytest.mark.parametrize(
    "key",
    [
        "replica",
        "collector.replica",
        "collector.store.s3.bucket",
        "collector.settings.retention_days",
        "compactor.settings.compact_seconds",
        "sidecar.cpu",
        "sidecar.settings.interval",
        "injector.settings.port",
    ],
)
def test_a_value_nobody_knows_is_refused(key, helm, chart):
    done = helm(*RENDER, chart, "--set", f"{key}=1", check=False)
    assert done.returncode != 0
    assert f"'{key.rpartition('.')[2]}' not allowed" in done.stderr


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (["collector.replicas=2"], "a directory store has one collector"),
        (
            ["collector.auth.writeTokensSecret=", "kubernetes.identity=false"],
            "name a Secret with write tokens",
        ),
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


def test_a_native_sidecar_starts_before_the_service_and_never_keeps_it_waiting():
    [sidecar] = _pod("sidecar-native")["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert "startupProbe" not in sidecar
    assert [container["name"] for container in _pod("sidecar-native")["containers"]] == ["app"]


def test_a_sidecar_that_is_the_services_user_needs_no_capability():
    context = _container("sidecar-native", "sidelight")["securityContext"]
    assert context == {
        "runAsUser": 10001,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.parametrize(("value", "capability"), [("goFirst", "SYS_NICE"), ("gilWaits", "DAC_READ_SEARCH")])
def test_a_value_of_the_chart_gives_a_sidecar_another_capability(helm, service_chart, value, capability):
    flags = ("--set", f"sidelight.sidecar.{value}=true")
    text = helm("template", "x", service_chart, *CLUSTER, *flags).stdout
    [container] = [one for one in _pod_of(text)["containers"] if one["name"] == "sidelight"]
    assert container["securityContext"]["capabilities"] == {
        "drop": ["ALL"],
        "add": ["SYS_PTRACE", capability],
    }
    without = ("--set", "sidelight.sidecar.sameUser=10001")
    done = helm("template", "x", service_chart, *CLUSTER, *flags, *without, check=False)
    assert done.returncode != 0
    assert f"{value}: sameUser runs without capabilities such as {capability}" in done.stderr


def test_a_sidecar_of_a_services_chart_trusts_the_authorities_that_it_is_given(helm, service_chart):
    values = "sidelight.sidecar.collector=https://c,sidelight.sidecar.caBundle.configMap=authorities"
    pod = _pod_of(helm("template", "x", service_chart, *CLUSTER, "--set", values).stdout)
    [container] = [one for one in pod["containers"] if one["name"] == "sidelight"]
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "sidelight-ca"]
    assert {"name": "SIDELIGHT_CA_FILE", "value": f"{mount['mountPath']}/ca.crt"} in container["env"]
    assert {"name": "sidelight-ca", "configMap": {"name": "authorities"}} in pod["volumes"]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("collector=http://c,{}.pem=PEM", "the sidecar uses no TLS unless sidecar.collector is an https://"),
        ("collector=https://c,{}.pem=PEM,{}.secret=a", "set one of configMap, secret and pem"),
    ],
)
def test_authorities_that_a_sidecar_would_not_use_are_refused(values, complaint, helm, service_chart):
    bundle = "sidelight.sidecar.caBundle"
    flags = ("--set", f"sidelight.sidecar.{values.format(bundle, bundle)}")
    done = helm("template", "x", service_chart, *CLUSTER, *flags, check=False)
    assert done.returncode != 0
    assert complaint in done.stderr


@pytest.mark.parametrize(("user", "mode"), [("null", 0o440), ("10001", 0o444)])
def test_the_token_can_be_read_by_the_sidecars_user(user, mode, helm, service_chart):
    text = helm(
        *("template", "x", service_chart, *CLUSTER),
        *("--set", f"sidelight.sidecar.sameUser={user},sidelight.sidecar.tokenSecret=sidelight-token"),
    ).stdout
    [volume] = [one for one in _pod_of(text)["volumes"] if one["name"] == "sidelight-token"]
    assert volume["secret"]["defaultMode"] == mode


def test_without_a_secret_the_pods_account_answers_for_the_sidecar(helm, service_chart):
    pod = _pod_of(helm("template", "x", service_chart, *CLUSTER).stdout)
    [volume] = [one for one in pod["volumes"] if one["name"] == "sidelight-token"]
    [source] = volume["projected"]["sources"]
    assert source["serviceAccountToken"] == {
        "path": "token",
        "audience": "sidelight",
        "expirationSeconds": 3600,
    }
    [container] = [one for one in pod["containers"] if one["name"] == "sidelight"]
    assert {"name": "SIDELIGHT_TOKEN_FILE", "value": "/etc/sidelight/token"} in container["env"]


def test_a_sidecar_has_no_token_where_everybody_may_write(helm, service_chart):
    flags = (
        "--set",
        "sidelight.sidecar.tokenSecret=",
        "--set",
        "sidelight.sidecar.serviceAccountToken.enabled=false",
    )
    pod = _pod_of(helm("template", "x", service_chart, *CLUSTER, *flags).stdout)
    assert [volume["name"] for volume in pod["volumes"]] == ["sidelight"]
    assert "SIDELIGHT_TOKEN_FILE" not in str(pod)


def test_the_sidecar_has_a_memory_limit_and_no_cpu_limit():
    assert set(_container("sidecar", "sidelight")["resources"]["limits"]) == {"memory"}


@pytest.mark.parametrize(("mode", "part"), PARTS)
def test_the_collector_runs_without_root_and_capabilities(mode, part):
    pod = _pod(mode, part)
    context = _container(mode, part)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(("mode", "part"), PARTS)
def test_a_token_of_the_cluster_is_there_only_where_the_cluster_is_asked(mode, part):
    asks = any(entry["name"] == "SIDELIGHT_KUBERNETES" for entry in _container(mode, part)["env"])
    assert _pod(mode, part)["automountServiceAccountToken"] is asks


@pytest.mark.parametrize(("mode", "part"), [*PARTS, *((mode, "sidelight") for mode in SIDECARS)])
def test_every_variable_the_chart_sets_is_a_setting_of_the_program(mode, part):
    known = {
        format_variable(field) for field in dataclasses.fields(Sidecar if part == "sidelight" else Collector)
    }
    given = [entry["name"] for entry in _container(mode, part)["env"]]
    assert {name for name in given if name.startswith("SIDELIGHT_")} <= known
    assert len(given) == len(set(given))


def test_the_node_agent_takes_the_settings_that_the_chart_gives_it():
    [container] = _agent_template()["spec"]["containers"]
    environment = {entry["name"]: entry.get("value", "node-1") for entry in container["env"]}
    known = {format_variable(field) for field in dataclasses.fields(AgentSettings)}
    assert environment.keys() <= known
    settings = parse_agent_settings([], environment)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(settings.spool_dir) in mounts
    assert str(settings.token_file.parent) in mounts


def test_the_collector_tells_node_agents_from_other_pods():
    def parse(template: dict[str, Any], kind: str) -> Pod:
        owner = {"controller": True, "kind": kind, "name": "owner"}
        return parse_pod({**template, "metadata": {**template["metadata"], "ownerReferences": [owner]}})

    assert parse(_agent_template(), "DaemonSet").is_node_agent
    assert not parse({"metadata": {}, "spec": _pod("agent", "collector")}, "ReplicaSet").is_node_agent


@pytest.mark.parametrize(("mode", "part"), PARTS)
def test_the_program_takes_the_settings_that_the_chart_gives_it(mode, part):
    environment = {entry["name"]: entry["value"] for entry in _container(mode, part)["env"]}
    settings = parse_settings(Collector, "collector", "", [], environment)
    compacts_elsewhere = any(name == "compactor" for other, name in PARTS if other == mode)
    assert settings.role == ("compactor" if part == "compactor" else "serve" if compacts_elsewhere else "all")


def test_the_region_reaches_the_client_of_s3(monkeypatch):
    for entry in _container("s3", "collector")["env"]:
        monkeypatch.setenv(entry["name"], entry["value"])
    assert boto3.session.Session().region_name == "eu-west-1"


def test_a_collector_may_end_in_its_own_time():
    assert (
        _pod("s3")["terminationGracePeriodSeconds"]
        > Collector(store="s3://profiles").shutdown_timeout_seconds
    )


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
    """The rendered files, the one to paste among them, by path."""
    return {
        str(path.relative_to(directory)): path.read_text(encoding="utf-8")
        for path in directory.rglob("*.yaml")
    }


def _agent_template() -> dict[str, Any]:
    documents = yaml.safe_load_all((RENDERED / "agent.yaml").read_text(encoding="utf-8"))
    [daemon_set] = [one for one in documents if one["kind"] == "DaemonSet"]
    return daemon_set["spec"]["template"]


@cache
def _pod(mode: str, part: str = "") -> dict[str, Any]:
    return _pod_of((RENDERED / f"{mode}.yaml").read_text(encoding="utf-8"), part)


def _pod_of(text: str, part: str = "") -> dict[str, Any]:
    deployments = [document for document in yaml.safe_load_all(text) if document["kind"] == "Deployment"]
    [deployment] = [one for one in deployments if one["metadata"]["name"].endswith(part)]
    return deployment["spec"]["template"]["spec"]


def _container(mode: str, name: str) -> dict[str, Any]:
    pod = _pod(mode, "" if name == "sidelight" else name)
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    [container] = [container for container in containers if container["name"] == name]
    return container
