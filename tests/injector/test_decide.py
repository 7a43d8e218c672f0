"""Which pods get a sidecar, how, and what the others are told."""

import json
from typing import Any

import pytest

from sidelight_injector.admission.decide import AdmissionContext, Decision, decide
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.skip_reasons import MAX_MESSAGE_CHARACTERS, SkipReason
from sidelight_kubernetes import label_names
from sidelight_kubernetes.profiling_request import MIRROR_POD_ANNOTATION
from sidelight_sidecar import settings
from tests.injector.json_patch import patched

Json = dict[str, Any]
ASKED = AdmissionContext("shop", {label_names.INJECT: "true"})


def pod(*, annotations: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    metadata: Json = {"generateName": "checkout-5d-", "labels": {"app": "checkout", **(labels or {})}}
    if annotations:
        metadata["annotations"] = annotations
    app = {"name": "app", "image": "registry.example/checkout:2026.11.3"}
    return {"metadata": metadata, "spec": {"containers": [app], **spec}}


@pytest.fixture
def after(recipe):
    """What a pod is once it is made, and what was decided."""

    def made(before: Json, place: AdmissionContext = ASKED) -> tuple[Json, Decision]:
        decision = decide(before, place, recipe)
        return patched(before, decision.patch), decision

    return made


def sidecar_of(made: Json) -> Json:
    everywhere = [*made["spec"].get("initContainers", ()), *made["spec"]["containers"]]
    [container] = [one for one in everywhere if one["name"] == "sidelight"]
    return container


def variables(made: Json) -> Json:
    return {one["name"]: one.get("value") for one in sidecar_of(made)["env"]}


def test_a_pod_of_a_labelled_namespace_gets_a_native_sidecar(after):
    made, decision = after(pod())
    assert decision.is_injected
    assert made["spec"]["shareProcessNamespace"] is True
    assert [one["name"] for one in made["spec"]["initContainers"]] == ["sidelight"]
    assert sidecar_of(made)["restartPolicy"] == "Always"
    assert made["metadata"]["annotations"] == {label_names.STATUS: "injected"}
    assert variables(made)["SIDELIGHT_SERVICE"] == "checkout"
    assert variables(made)["SIDELIGHT_VERSION"] == "2026.11.3"
    assert sidecar_of(made)["args"] == ["sidecar", "--all"]


def test_before_native_sidecars_it_is_an_ordinary_container_behind_the_services_own(after):
    made, _ = after(pod(), AdmissionContext("shop", ASKED.namespace_labels, has_native_sidecars=False))
    assert [one["name"] for one in made["spec"]["containers"]] == ["app", "sidelight"]
    assert "restartPolicy" not in sidecar_of(made)
    assert "initContainers" not in made["spec"]


@pytest.mark.parametrize(
    ("of_namespace", "of_pod", "injected"),
    [
        ("true", None, True),
        ("true", "false", False),
        ("false", "true", True),
        (None, "true", True),
        (None, None, False),
        ("false", None, False),
        ("yes", None, False),
    ],
)
def test_the_pods_word_wins_over_the_namespaces(of_namespace, of_pod, injected, after):
    place = AdmissionContext("shop", {label_names.INJECT: of_namespace} if of_namespace else {})
    before = pod(labels={label_names.INJECT: of_pod} if of_pod else {})
    made, decision = after(before, place)
    assert decision.is_injected is injected
    assert injected or made == before


def test_the_token_of_the_service_account_is_good_for_the_collector_alone(after):
    made, _ = after(pod(automountServiceAccountToken=False))
    [volume] = [one for one in made["spec"]["volumes"] if one["name"] == "sidelight-token"]
    [source] = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == label_names.AUDIENCE
    folder = next(one for one in sidecar_of(made)["volumeMounts"] if one["name"] == "sidelight-token")
    path = f"{folder['mountPath']}/{source['serviceAccountToken']['path']}"
    assert variables(made)["SIDELIGHT_TOKEN_FILE"] == path
    assert made["spec"]["automountServiceAccountToken"] is False


def test_annotations_are_settings_of_the_sidecar(after):
    wishes = {
        label_names.SERVICE: "till",
        label_names.VERSION: "7",
        label_names.RATE: "50",
        label_names.MODE: "nonblocking",
        label_names.INTERVAL_SECONDS: "60",
        label_names.WINDOW_SECONDS: "5",
        label_names.BUDGET_CPU_PERCENT: "0.5",
    }
    made, decision = after(pod(annotations=wishes))
    assert decision.is_injected
    assert {name: value for name, value in variables(made).items() if value is not None}.items() >= {
        "SIDELIGHT_SERVICE": "till",
        "SIDELIGHT_VERSION": "7",
        "SIDELIGHT_RATE": "50",
        "SIDELIGHT_MODE": "nonblocking",
        "SIDELIGHT_INTERVAL_SECONDS": "60",
        "SIDELIGHT_WINDOW_SECONDS": "5",
        "SIDELIGHT_BUDGET_CPU_PERCENT": "0.5",
    }.items()


def test_annotations_set_triggers_of_one_pod(after):
    wishes = {
        label_names.TRIGGER_CPU_PERCENT: "80",
        label_names.TRIGGER_THROTTLED_PERCENT: "25",
        label_names.TRIGGER_RSS_GROWTH: "50%",
        label_names.TRIGGER_READY: "true",
        label_names.TRIGGER_SIGTERM: "true",
        label_names.TRIGGER_RATE: "200",
        label_names.TRIGGER_DURATION_SECONDS: "20",
    }
    made, decision = after(pod(annotations=wishes))
    assert decision.is_injected
    assert decision.warnings == ()
    assert {name: value for name, value in variables(made).items() if "TRIGGER" in name} == {
        "SIDELIGHT_TRIGGER_CPU_PERCENT": "80",
        "SIDELIGHT_TRIGGER_THROTTLED_PERCENT": "25",
        "SIDELIGHT_TRIGGER_RSS_GROWTH": "50%",
        "SIDELIGHT_TRIGGER_READY": "true",
        "SIDELIGHT_TRIGGER_SIGTERM": "true",
        "SIDELIGHT_TRIGGER_RATE": "200",
        "SIDELIGHT_TRIGGER_DURATION_SECONDS": "20",
    }


def test_a_pod_can_be_without_a_trigger_of_the_cluster(sidecar_json):
    told = json.loads(sidecar_json)
    told["container"]["env"] += [
        {"name": "SIDELIGHT_TRIGGER_CPU_PERCENT", "value": "80"},
        {"name": "SIDELIGHT_TRIGGER_READY", "value": "true"},
    ]
    before = pod(annotations={label_names.TRIGGER_CPU_PERCENT: "", label_names.TRIGGER_READY: "false"})
    made = patched(before, decide(before, ASKED, Recipe.parse(json.dumps(told))).patch)
    container = sidecar_of(made)
    environ = {one["name"]: str(one.get("value", "field")) for one in container["env"]}
    triggers = settings.parse_sidecar_settings(container["args"][1:], environ).trigger_rules
    assert triggers.cpu_share is None
    assert not triggers.fires_on_ready


def test_a_pattern_takes_the_place_of_everything(after):
    made, _ = after(pod(annotations={label_names.MATCH: "gunicorn: worker"}))
    assert sidecar_of(made)["args"] == ["sidecar"]
    assert variables(made)["SIDELIGHT_MATCH"] == "gunicorn: worker"


def test_a_pattern_reaches_the_sidecar_as_it_was_written(after):
    """The kubelet makes $ of $$, and of $(NAME) what that variable holds."""
    made, _ = after(pod(annotations={label_names.MATCH: "^app$|^$(POD)$$"}))
    assert variables(made)["SIDELIGHT_MATCH"] == "^app$$|^$$(POD)$$$$"


def test_a_container_that_is_named_is_the_one_that_is_watched_and_the_windows_label(after):
    web = {"name": "web", "image": "web:1"}
    before = pod(annotations={label_names.CONTAINER: "web"})
    before["spec"]["containers"].append(web)
    made, _ = after(before)
    assert variables(made)["SIDELIGHT_TARGET_CONTAINER"] == "web"
    assert variables(made)["SIDELIGHT_CONTAINER"] == "web"
    assert variables(made)["SIDELIGHT_VERSION"] == "1"


def test_a_pods_schedule_wins_over_the_clusters(sidecar_json):
    told = json.loads(sidecar_json)
    told["container"]["env"].append({"name": "SIDELIGHT_INTERVAL_SECONDS", "value": "60"})
    scheduled = Recipe.parse(json.dumps(told))

    def made(annotation: str, value: str) -> Json:
        before = pod(annotations={annotation: value})
        return patched(before, decide(before, ASKED, scheduled).patch)

    assert variables(made(label_names.RATE, "50"))["SIDELIGHT_INTERVAL_SECONDS"] == "60"
    assert variables(made(label_names.ON_DEMAND, "false"))["SIDELIGHT_INTERVAL_SECONDS"] == "60"
    assert "SIDELIGHT_INTERVAL_SECONDS" not in variables(made(label_names.ON_DEMAND, "true"))
    assert variables(made(label_names.INTERVAL_SECONDS, ""))["SIDELIGHT_INTERVAL_SECONDS"] == ""


def test_a_port_that_the_pod_names_anywhere_is_left_to_it(after):
    before = pod()
    before["spec"]["containers"][0]["args"] = ["--bind", "0.0.0.0:8081"]
    before["spec"]["initContainers"] = [{"name": "proxy", "ports": [{"containerPort": 8082}]}]
    made, _ = after(before)
    assert sidecar_of(made)["ports"] == [{"name": "sidelight", "containerPort": 8083}]
    assert variables(made)["SIDELIGHT_LISTEN"] == "0.0.0.0:8083"


def test_an_image_that_happens_to_have_the_ports_number_in_it_takes_no_port(after):
    before = pod()
    before["spec"]["containers"][0]["image"] = "registry.example:8081/checkout:1.8081"
    assert sidecar_of(after(before)[0])["ports"] == [{"name": "sidelight", "containerPort": 8081}]


def test_on_the_nodes_network_the_sidecar_takes_a_free_port_of_loopback(after):
    made, decision = after(pod(hostNetwork=True))
    assert decision.is_injected
    assert variables(made)["SIDELIGHT_LISTEN"] == "127.0.0.1:0"
    assert "ports" not in sidecar_of(made)
    assert "livenessProbe" not in sidecar_of(made)


def test_in_a_pod_with_resources_as_a_whole_the_sidecar_asks_for_none_of_its_own(after):
    made, _ = after(pod(resources={"limits": {"cpu": "1", "memory": "200Mi"}}))
    assert "resources" not in sidecar_of(made)


def test_secrets_to_pull_the_image_with_stand_beside_the_pods_own(sidecar_json):
    told = {**json.loads(sidecar_json), "imagePullSecrets": [{"name": "ours"}, {"name": "shared"}]}
    recipe = Recipe.parse(json.dumps(told))
    for own in ([], [{"name": "theirs"}, {"name": "shared"}]):
        before = pod(imagePullSecrets=own)
        made = patched(before, decide(before, ASKED, recipe).patch)
        assert made["spec"]["imagePullSecrets"][: len(own)] == own
        assert sorted(one["name"] for one in made["spec"]["imagePullSecrets"]) == sorted(
            {"ours", "shared", *(one["name"] for one in own)}
        )


def test_the_services_own_security_settings_stay_and_the_sidecar_has_its_own(after, recipe):
    strict = {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001}
    made, decision = after(pod(securityContext=strict))
    assert decision.is_injected
    assert made["spec"]["securityContext"] == strict
    assert "securityContext" not in made["spec"]["containers"][0]
    assert sidecar_of(made)["securityContext"] == recipe.container["securityContext"]
    assert sidecar_of(made)["securityContext"]["runAsNonRoot"] is False


@pytest.mark.parametrize(
    ("before", "place", "why", "told"),
    [
        (pod(labels={label_names.INJECT: "yes"}), ASKED, SkipReason.BAD_LABEL, "'yes'"),
        (pod(os={"name": "windows"}), ASKED, SkipReason.OTHER_OS, "windows"),
        (pod(nodeSelector={"kubernetes.io/os": "windows"}), ASKED, SkipReason.OTHER_OS, "windows"),
        (pod(hostPID=True), ASKED, SkipReason.HOST_PID, "hostPID"),
        (pod(shareProcessNamespace=False), ASKED, SkipReason.PROCESSES_APART, "shareProcessNamespace: false"),
        (pod(volumes=[{"name": "sidelight"}]), ASKED, SkipReason.NAME_TAKEN, "volume"),
        (
            pod(annotations={label_names.CONTAINER: "web"}),
            ASKED,
            SkipReason.NO_SUCH_CONTAINER,
            "name one of app",
        ),
        (
            pod(annotations={label_names.CONTAINER: "init"}, initContainers=[{"name": "init"}]),
            ASKED,
            SkipReason.CONTAINER_ENDS_FIRST,
            "name one of app",
        ),
        (pod(annotations={label_names.RATE: "fast"}), ASKED, SkipReason.BAD_ANNOTATION, "SIDELIGHT_RATE"),
        (
            pod(annotations={label_names.RATE: "5000"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "--rate must be from 1 to 1000",
        ),
        (
            pod(annotations={label_names.TRIGGER_CPU_PERCENT: "101"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "--trigger-cpu-percent",
        ),
        (
            pod(annotations={label_names.TRIGGER_RSS_GROWTH: "much"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "RSS_GROWTH",
        ),
        (
            pod(annotations={label_names.TRIGGER_READY: "soon"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "neither true nor false",
        ),
        (
            pod(annotations={label_names.TRIGGER_RATE: "1"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "from --rate to 1000",
        ),
        (
            pod(annotations={label_names.MATCH: "("}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "not a regular expression",
        ),
        (
            pod(annotations={label_names.ON_DEMAND: "maybe"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "neither true nor false",
        ),
        (
            pod(annotations={label_names.INTERVAL_SECONDS: "5", label_names.WINDOW_SECONDS: "10"}),
            ASKED,
            SkipReason.BAD_ANNOTATION,
            "must not be shorter",
        ),
        (
            pod(),
            AdmissionContext("shop", ASKED.namespace_labels, pod_security_level="baseline"),
            SkipReason.POD_SECURITY,
            "SYS_PTRACE",
        ),
        (
            pod(),
            AdmissionContext("shop", ASKED.namespace_labels, pod_security_level="restricted"),
            SkipReason.POD_SECURITY,
            "uid 0",
        ),
        (
            pod(restartPolicy="Never"),
            AdmissionContext("shop", ASKED.namespace_labels, has_native_sidecars=False),
            SkipReason.WOULD_NOT_END,
            "restartPolicy Never",
        ),
    ],
    ids=lambda value: value.value if isinstance(value, SkipReason) else "",
)
def test_a_pod_that_cannot_have_one_is_told_why_and_what_to_do(before, place, why, told, after):
    made, decision = after(before, place)
    assert decision.skip is not None
    assert decision.skip.reason is why
    assert told in decision.skip.message
    assert decision.skip.hint
    assert made["metadata"]["annotations"][label_names.STATUS] == f"skipped: {decision.skip.message}"
    assert made["spec"] == before["spec"]
    assert decision.skip.message in decision.warnings[0]


def test_a_job_gets_a_native_sidecar_for_that_one_lets_it_end(after):
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "nightly", "uid": "1", "controller": True}
    before = pod(restartPolicy="Never")
    before["metadata"]["ownerReferences"] = [job]
    assert after(before)[1].is_injected
    skip = after(before, AdmissionContext("shop", ASKED.namespace_labels, has_native_sidecars=False))[1].skip
    assert skip is not None
    assert skip.reason is SkipReason.WOULD_NOT_END
    assert "a Job" in skip.message


def test_an_init_container_that_restarts_may_be_watched(after):
    before = pod(
        annotations={label_names.CONTAINER: "proxy"},
        initContainers=[{"name": "proxy", "restartPolicy": "Always"}],
    )
    assert after(before)[1].is_injected


@pytest.mark.parametrize(
    "before",
    [
        pod(annotations={MIRROR_POD_ANNOTATION: "1a2b"}),
        pod(initContainers=[{"name": "sidelight", "restartPolicy": "Always"}]),
        pod(containers=[{"name": "app"}, {"name": "sidelight"}]),
    ],
    ids=["a mirror of a static pod", "injected already", "from the template"],
)
def test_a_pod_that_has_one_or_must_not_change_is_left_as_it_is(before, after):
    made, decision = after(before)
    assert made == before
    assert decision.skip is None


def test_a_sentence_is_never_longer_than_an_annotation_is_good_for(after):
    _, decision = after(pod(annotations={label_names.RATE: "x" * 10_000}))
    assert len(decision.skip.message) == MAX_MESSAGE_CHARACTERS
    assert len(decision.warnings[0]) <= MAX_MESSAGE_CHARACTERS


def test_an_annotation_nobody_knows_is_said_to_be_so(after):
    _, decision = after(pod(annotations={"sidelight.dev/rates": "50", label_names.RATE: "50"}))
    assert decision.is_injected
    assert decision.warnings == ("Sidelight knows no annotation sidelight.dev/rates",)


def test_when_every_port_is_taken_the_pod_is_told(after):
    before = pod()
    before["spec"]["containers"][0]["args"] = [str(port) for port in range(8081, 8101)]
    skip = after(before)[1].skip
    assert skip is not None
    assert skip.reason is SkipReason.NO_FREE_PORT
