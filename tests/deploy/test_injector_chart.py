"""The chart's injector: the same sidecar in every way of installing, least permissions, what is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidelight.settings import format_variable, parse_settings
from sidelight_injector.admission import pod_security
from sidelight_injector.admission.decide import AdmissionContext, decide
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.metrics import Metrics
from sidelight_injector.settings import Settings
from tests.deploy.prometheus_rules import Case, check_expressions, find_firing, read_names
from tests.injector.json_patch import patched

Json = dict[str, Any]
HELM_DIRECTORY = Path(__file__).resolve().parents[2] / "deploy" / "helm"
NAME = "sidelight-injector"
IDENTITY = (
    "--set",
    "kubernetes.identity=true,sidecar.serviceAccountToken.enabled=true,collector.auth.readTokensSecret=read",
)
ENABLED = ("--set", "injector.enabled=true")


@pytest.fixture
def rendered(helm, chart):
    """What the chart renders of the injector with these flags."""

    def documents(*flags: str) -> list[Json]:
        command = ("template", "sidelight", chart, "--namespace", "profiling", "--kube-version", "1.34.0")
        text = helm(*command, *IDENTITY, *ENABLED, *flags).stdout
        return [one for one in yaml.safe_load_all(text) if one and one["metadata"]["name"] == NAME]

    return documents


def of_kind(documents: list[Json], kind: str) -> Json:
    [found] = [one for one in documents if one["kind"] == kind]
    return found


def container_of(documents: list[Json]) -> Json:
    [container] = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def recipe_of(documents: list[Json]) -> Recipe:
    return Recipe.parse(of_kind(documents, "ConfigMap")["data"]["sidecar.json"])


def injected(recipe: Recipe, *, native: bool) -> Json:
    """The spec of a pod with one container, once it is injected."""
    app = {"name": "app", "image": "a:7"}
    bare = {"metadata": {"labels": {"app": "checkout"}}, "spec": {"containers": [app]}}
    place = AdmissionContext("shop", {"sidelight.dev/inject": "true"}, has_native_sidecars=native)
    return patched(bare, decide(bare, place, recipe).patch)["spec"]


@pytest.mark.parametrize("native", [True, False], ids=["native", "ordinary"])
def test_the_template_and_the_injector_make_the_same_container(native, rendered, helm, service_chart):
    collector = "http://sidelight-collector.profiling.svc:8080"
    values = f"tokenSecret=,collector={collector},serviceAccountToken.enabled=true"
    flags = [part for one in values.split(",") for part in ("--set", f"sidelight_sidecar.{one}")]
    flags += ["--set", f"image.tag=7,native={str(native).lower()}"]
    by_template = _pod(helm("template", "x", service_chart, "--kube-version", "1.34.0", *flags).stdout)
    settings = ("--set", "sidecar.settings.interval_seconds=60")
    by_injector = injected(recipe_of(rendered(*settings)), native=native)
    where = "initContainers" if native else "containers"
    assert by_injector[where][-1] == by_template[where][-1]
    assert by_injector["volumes"] == by_template["volumes"]
    assert by_injector["shareProcessNamespace"] is by_template["shareProcessNamespace"] is True


def test_the_yaml_to_paste_is_what_the_injector_makes(rendered):
    text = (HELM_DIRECTORY / "rendered" / "paste" / "sidecar.yaml").read_text(encoding="utf-8")
    pasted = yaml.safe_load(
        text.replace("value: SERVICE", "value: checkout").replace("value: VERSION", "value: '7'")
    )
    made = injected(recipe_of(rendered()), native=True)
    parts = ("shareProcessNamespace", "initContainers", "volumes")
    assert pasted == {"spec": {"template": {"spec": {part: made[part] for part in parts}}}}


@pytest.mark.parametrize("kind", ["self", "certManager"])
def test_the_program_takes_the_settings_that_the_chart_gives_it(kind, rendered):
    documents = rendered("--set", f"injector.certificates.kind={kind}")
    entries = container_of(documents)["env"]
    environ = {one["name"]: one.get("value", "profiling") for one in entries}
    assert len(environ) == len(entries)
    assert set(environ) <= {format_variable(field) for field in dataclasses.fields(Settings)}
    settings = parse_settings(Settings, "injector", "", [], environ)
    mounts = {one["mountPath"] for one in container_of(documents)["volumeMounts"]}
    assert str(settings.sidecar_file.parent) in mounts
    assert settings.certificate_dir is None or str(settings.certificate_dir) in mounts
    assert (settings.certificate_dir is None) is (kind == "self")
    service = of_kind(documents, "Service")
    webhook = of_kind(documents, "MutatingWebhookConfiguration")
    for entry in webhook["webhooks"]:
        called = entry["clientConfig"]["service"]
        assert (called["name"], called["namespace"]) == (service["metadata"]["name"], "profiling")
        assert f"{called['name']}.{called['namespace']}.svc" in settings.certificate_names
    assert settings.excluded_namespaces >= {"kube-system", "profiling"}


def test_with_cert_manager_it_has_no_certificates_to_keep_and_no_right_to(rendered):
    documents = rendered("--set", "injector.certificates.kind=certManager")
    kinds = {one["kind"] for one in documents}
    assert {"Certificate", "Issuer"} <= kinds
    assert not {"Secret", "Role", "RoleBinding"} & kinds
    groups = [rule["apiGroups"] for rule in of_kind(documents, "ClusterRole")["rules"]]
    assert groups == [[""], [""], [""]]
    certificate = of_kind(documents, "Certificate")
    [volume] = [
        one
        for one in of_kind(documents, "Deployment")["spec"]["template"]["spec"]["volumes"]
        if one["name"] == "certificate"
    ]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    webhook = of_kind(documents, "MutatingWebhookConfiguration")
    assert webhook["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"profiling/{NAME}"}
    own = (
        "injector.certificates.certManager.issuerRef.kind=ClusterIssuer,"
        "injector.certificates.certManager.issuerRef.name=company"
    )
    given = rendered("--set", f"injector.certificates.kind=certManager,{own}")
    assert "Issuer" not in {one["kind"] for one in given}
    assert of_kind(given, "Certificate")["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "company"}


def test_its_permissions_name_what_they_are_for(rendered):
    for rule in of_kind(rendered(), "ClusterRole")["rules"]:
        if rule["resources"] == ["mutatingwebhookconfigurations"]:
            assert rule["resourceNames"] == [NAME]
        assert not {"*", "watch", "delete", "update"} & set(rule["verbs"])
        assert "list" not in rule["verbs"] or rule["resources"] == ["limitranges", "resourcequotas"]
    [secrets] = of_kind(rendered(), "Role")["rules"]
    assert secrets["resourceNames"] == [NAME]
    without = of_kind(rendered("--set", "injector.events=false"), "ClusterRole")["rules"]
    assert ["events"] not in [rule["resources"] for rule in without]


def test_another_sidecar_rolls_the_injector(rendered):
    def checksum(*flags: str) -> str:
        template = of_kind(rendered(*flags), "Deployment")["spec"]["template"]
        return template["metadata"]["annotations"]["sidelight.dev/sidecar-checksum"]

    assert checksum() == checksum()
    assert checksum() != checksum("--set", "sidecar.settings.rate=50")


def test_one_replica_has_no_disruption_budget_that_could_hold_up_a_node(rendered):
    assert "PodDisruptionBudget" in {one["kind"] for one in rendered()}
    assert "PodDisruptionBudget" not in {one["kind"] for one in rendered("--set", "injector.replicas=1")}


def test_it_has_no_privileges_of_its_own(rendered):
    pod = of_kind(rendered(), "Deployment")["spec"]["template"]["spec"]
    context = container_of(rendered())["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    [tmp] = [one for one in pod["volumes"] if one["name"] == "tmp"]
    assert tmp["emptyDir"]["medium"] == "Memory"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("sidecar.serviceAccountToken.enabled=false", "accepts nothing without a token"),
        ("collector.enabled=false", "sidecar.collector: set a collector's URL"),
        (
            "injector.settings.native_sidecars=never",
            "injector.settings.native_sidecars: the chart sets this itself",
        ),
        ("injector.certificates.kind=mine", "must be one of"),
        ("injector.replica=1", "'replica' not allowed"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_reason(values, complaint, helm, chart):
    flags = [*IDENTITY, *ENABLED, "--set", values]
    done = helm("template", "x", chart, "--kube-version", "1.34.0", *flags, check=False)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_the_sidecars_settings_are_the_charts(rendered):
    recipe = recipe_of(rendered("--set", "sidecar.settings.interval_seconds=60,sidecar.port=9999"))
    given = {one["name"]: one.get("value") for one in recipe.container["env"]}
    assert given["SIDELIGHT_INTERVAL_SECONDS"] == "60"
    assert recipe.port == 9999
    assert json.loads(json.dumps(recipe.container))["securityContext"]["runAsUser"] == 0


def _pod(text: str) -> Json:
    [deployment] = [one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def test_secrets_to_pull_the_sidecar_with_reach_the_injector(rendered):
    assert recipe_of(rendered()).pull_secrets == ()
    given = recipe_of(rendered("--set", "injector.imagePullSecrets[0].name=registry"))
    assert given.pull_secrets == ({"name": "registry"},)


def test_where_network_is_limited_api_servers_reach_it_and_it_them(rendered):
    policy = of_kind(rendered("--set", "networkPolicy.egress.enabled=true"), "NetworkPolicy")["spec"]
    assert policy["ingress"][0] == {"ports": [{"port": "webhook"}]}
    assert [one["port"] for one in policy["egress"][-1]["ports"]] == [443, 6443]
    labels = of_kind(rendered(), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def test_prometheus_finds_its_port(rendered):
    monitor = of_kind(rendered("--set", "monitoring.serviceMonitor.enabled=true"), "ServiceMonitor")["spec"]
    service = of_kind(rendered(), "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in [one["name"] for one in service["spec"]["ports"]]


WELL = {
    'sidelight_injector_certificate_reloads_total{namespace="p"}': "1x90",
    'sidelight_injector_certificate_expiration_timestamp_seconds{namespace="p"}': "2500000x90",
    'sidelight_injector_skipped_pods_total{namespace="p",reason="host_pid"}': "1x90",
}
ALERTS = {
    "SidelightInjectorAway": ({'sidelight_sidecar_up{namespace="p"}': "1x30"}, 20),
    "SidelightInjectorNotWell": (
        {**WELL, 'sidelight_injector_problems{namespace="p",error="starting"}': "1x30"},
        20,
    ),
    "SidelightInjectorCertificateEnds": (
        {**WELL, 'sidelight_injector_certificate_expiration_timestamp_seconds{namespace="p"}': "250000x90"},
        80,
    ),
    "SidelightPodsWithoutSidecar": (
        {**WELL, 'sidelight_injector_skipped_pods_total{namespace="p",reason="host_pid"}': "0x5 1x30"},
        20,
    ),
}


def rules_of(rendered) -> Json:
    return of_kind(rendered("--set", "monitoring.rules.enabled=true"), "PrometheusRule")["spec"]


def test_an_alert_fires_when_it_should_and_not_when_all_is_well(rendered, tmp_path):
    cases = {name: Case(series, minutes) for name, (series, minutes) in ALERTS.items()}
    well = {f"well for {minutes} minutes": Case(WELL, minutes) for minutes in (20, 80)}
    firing = find_firing(tmp_path, rules_of(rendered), {**cases, **well})
    for name in ALERTS:
        assert name in [one.name for one in firing[name]]
    assert [firing[name] for name in well] == [[], []]


def test_its_alerts_point_to_a_section_that_is_there(rendered):
    page = (HELM_DIRECTORY.parents[1] / "docs" / "injector.md").read_text(encoding="utf-8")
    titles = {
        line.lstrip("# ").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("#")
    }
    for rule in rules_of(rendered)["groups"][0]["rules"]:
        file, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (file, anchor in titles) == ("docs/injector.md", True)


def test_its_alerts_read_metrics_that_there_are(rendered, tmp_path):
    known = {
        sample.name for metric in Metrics().registry.collect() for sample in [*metric.samples, metric]
    } | {f"sidelight_injector_{name}_total" for name in ("skipped_pods", "certificate_reloads")}
    expressions = [rule["expr"] for rule in rules_of(rendered)["groups"][0]["rules"]]
    assert check_expressions(tmp_path, expressions) == ""
    for expression in expressions:
        assert read_names(expression).metrics.keys() <= known


def test_a_sidecar_of_the_services_own_user_is_fit_for_any_level_of_pod_security(rendered):
    recipe = recipe_of(rendered("--set", "sidecar.sameUser=10001"))
    for level in ("baseline", "restricted"):
        assert pod_security.find_violation(recipe.container, level) == ""
