"""The injector on a real API server: it injects, says why not, and keeps no pod from being made."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sidelight.server_tls import TlsContext
from sidelight_injector.certificates import certificates
from sidelight_injector.certificates.certificates import (
    CertificatePolicy,
    decode_keyring,
    encode_keyring,
    make_authority,
    make_leaf,
)
from sidelight_kubernetes import label_names
from tests.cluster.injector_world import (
    ASKED,
    NAME,
    Injector,
    await_injection,
    installed,
    made,
    of_kind,
    pod,
    rendered,
    sidecars,
    told,
)
from tests.cluster.other_webhooks import serving, somebody_else
from tests.cluster.programs import Programs, eventually, guarded

DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def injector(api, tmp_path_factory) -> Iterator[Injector]:
    """One that runs and is trusted."""
    folder = tmp_path_factory.mktemp("injector") / "programs"
    with guarded(folder), installed(api, Programs(folder)) as injector:
        injector.start()
        injector.ready()
        yield injector


@pytest.fixture
def shop(api, injector) -> Iterator[str]:
    """A namespace that asks for sidecars, with an injector that is there."""
    if injector.programs.pid("injector") is None:
        injector.start()
    injector.ready()
    with api.namespace(ASKED) as namespace:
        await_injection(api, namespace)
        yield namespace


def test_a_pod_of_a_labelled_namespace_gets_its_sidecar(api, shop):
    found = made(api, shop, pod("one", labels={"app": "checkout"}))
    [sidecar] = sidecars(found)
    assert found["spec"]["shareProcessNamespace"] is True
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert told(found) == "injected"
    given = {one["name"]: one.get("value") for one in sidecar["env"]}
    assert (given["SIDELIGHT_SERVICE"], given["SIDELIGHT_VERSION"]) == ("checkout", "2026.11.3")
    [token] = [one for one in found["spec"]["volumes"] if one["name"] == "sidelight-token"]
    assert token["projected"]["sources"][0]["serviceAccountToken"]["audience"] == label_names.AUDIENCE


def test_a_deployments_pods_are_named_after_it(api, shop):
    template = {"metadata": {"labels": {"tier": "web"}}, "spec": pod("x")["spec"]}
    template["spec"].pop("terminationGracePeriodSeconds")
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "till"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"tier": "web"}}, "template": template},
    }
    api.apply(deployment, shop)

    def pods() -> list[dict[str, Any]]:
        found = api.get(f"/api/v1/namespaces/{shop}/pods?labelSelector=tier=web")["items"]
        return found if len(found) == 2 else []

    for one in eventually("two pods are there", pods):
        [sidecar] = sidecars(one)
        assert {"name": "SIDELIGHT_SERVICE", "value": "till"} in sidecar["env"]


@pytest.mark.parametrize(("label", "count"), [("false", 0), ("true", 1)])
def test_the_pods_own_label_wins(api, shop, label, count):
    assert len(sidecars(made(api, shop, pod("one", labels={label_names.INJECT: label})))) == count


def test_a_pod_of_its_own_accord_gets_one_in_a_namespace_that_says_nothing(api, shop):
    with api.namespace() as plain:
        assert sidecars(made(api, plain, pod("asks", labels=ASKED)))
        assert not sidecars(made(api, plain, pod("does-not")))


def test_pods_of_the_system_and_of_the_injector_are_left_alone(api, shop, injector):
    for namespace in ("kube-system", injector.namespace):
        found = made(api, namespace, pod("left-alone", labels=ASKED), dry_run=True)
        assert sidecars(found) == []
        assert told(found) == ""


def test_a_pod_that_cannot_have_one_is_made_and_says_why(api, shop):
    body = pod("one", annotations={label_names.RATE: "5000"})
    done = api.try_kubectl("-n", shop, "create", "-f", "-", input=json.dumps(body))
    assert done.returncode == 0
    assert "Warning: Sidelight did not inject its sidecar. --rate must be from 1 to 1000" in done.stderr
    found = api.get(f"/api/v1/namespaces/{shop}/pods/one")
    assert sidecars(found) == []
    assert told(found).startswith("skipped: --rate must be from 1 to 1000: ")

    def events() -> list[dict[str, Any]]:
        every = api.get(f"/api/v1/namespaces/{shop}/events")["items"]
        return [one for one in every if one["reason"] == "SidelightNotInjected"]

    [event] = eventually("the event is there", events)
    assert event["involvedObject"]["name"] == "one"
    assert "--rate must be from 1 to 1000" in event["message"]
    assert event["type"] == "Warning"


def test_what_is_only_tried_out_leaves_no_event(api, shop, injector):
    written = injector.number('events_total{outcome="written"}')
    repeated = injector.number('events_total{outcome="repeated"}')
    skipped = injector.number('skipped_pods_total{reason="bad_annotation"}')
    made(api, shop, pod("tried", annotations={label_names.RATE: "0"}), dry_run=True)
    assert injector.number('skipped_pods_total{reason="bad_annotation"}') == skipped + 1
    assert injector.number('events_total{outcome="written"}') == written
    assert injector.number('events_total{outcome="repeated"}') == repeated


def test_where_pod_security_would_refuse_the_pod_it_is_made_without(api, shop):
    """The trap: the API server judges the pod after it was changed, and refuses all of it."""
    injected = made(api, shop, pod("one"), dry_run=True)
    strict = {**ASKED, "pod-security.kubernetes.io/enforce": "baseline"}
    with api.namespace(strict) as namespace:
        refused = pod("by-hand", labels={label_names.INJECT: "false"})
        refused["spec"] |= {part: injected["spec"][part] for part in ("initContainers", "volumes")}
        status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", refused)
        assert status == 403
        assert "SYS_PTRACE" in answer["message"]

        found = made(api, namespace, pod("one"))
        assert sidecars(found) == []
        assert "Pod Security 'baseline'" in told(found)
        assert "pod-security.kubernetes.io/enforce=privileged" in told(found)

        api.kubectl(
            "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"
        )
        eventually("the new label counts", lambda: sidecars(made(api, namespace, pod("probe"), dry_run=True)))


@pytest.mark.parametrize(
    ("limit", "refused", "says"),
    [
        (
            {"kind": "LimitRange", "spec": {"limits": [{"type": "Container", "min": {"cpu": "100m"}}]}},
            "minimum cpu usage per Container is 100m",
            "the LimitRange 'it' refuses less than 100m of cpu",
        ),
        (
            {"kind": "ResourceQuota", "spec": {"hard": {"limits.cpu": "4"}}},
            "must specify limits.cpu",
            "the ResourceQuota 'it' refuses a container without limits.cpu",
        ),
    ],
    ids=["LimitRange", "ResourceQuota"],
)
def test_where_the_namespaces_limits_would_refuse_the_pod_it_is_made_without(api, shop, limit, refused, says):
    injected = made(api, shop, pod("one"), dry_run=True)
    bounded = {"resources": {"limits": {"cpu": "200m", "memory": "64Mi"}}}

    def sized(name: str, **more: Any) -> dict[str, Any]:
        body = pod(name, **more)
        body["spec"]["containers"][0] |= bounded
        return body

    with api.namespace(ASKED) as namespace:
        api.apply({"apiVersion": "v1", "metadata": {"name": "it"}, **limit}, namespace)
        parts = {part: injected["spec"][part] for part in ("initContainers", "volumes")}
        by_hand = {**sized("by-hand"), "spec": {**sized("by-hand")["spec"], **parts}}
        by_hand["metadata"]["labels"] = {label_names.INJECT: "false"}
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"

        def answer() -> str:
            return json.dumps(api.call("POST", path, by_hand))

        eventually("the API server refuses it", lambda: refused in answer())

        def without() -> dict[str, Any] | None:
            status, found = api.call("POST", path, sized("one"))
            return found if status == 201 else None

        found = eventually("the quota is counted, and the pod made", without)
        assert sidecars(found) == []
        assert says in told(found)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"shareProcessNamespace": False}, "shareProcessNamespace: false"),
        ({"hostPID": True}, "hostPID: true"),
        ({"os": {"name": "windows"}}, "the pod is for windows"),
        ({"hostNetwork": True}, "injected"),
        ({"restartPolicy": "Never"}, "injected"),
        ({"resources": {"limits": {"cpu": "1", "memory": "200Mi"}}}, "injected"),
        ({"securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001}}, "injected"),
        ({"automountServiceAccountToken": False}, "injected"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_api_server_takes_what_becomes_of_pods_that_are_not_like_others(api, shop, spec, says):
    found = made(api, shop, pod("one", **spec))
    assert says in told(found)
    assert len(sidecars(found)) == (says == "injected")
    assert {name: found["spec"].get(name, False) for name in spec}.keys() == spec.keys()
    for name, value in spec.items():
        kept = found["spec"].get(name, False)
        assert value.items() <= kept.items() if isinstance(value, dict) else kept == value


def test_a_secret_that_is_gone_is_said_to_be_and_what_is_in_use_serves_on(api, shop, injector):
    document = of_kind(injector.documents, "Secret")
    api.kubectl("-n", injector.namespace, "delete", "secret", NAME)

    def problems() -> list[dict[str, Any]]:
        return injector.status()[1].get("problems", [])

    [problem] = eventually("it says so", problems)
    assert injector.status()[0] == 200
    assert (problem["about"], problem["error"]) == ("certificate", "not_found")
    assert "run helm upgrade" in problem["hint"]
    assert sidecars(made(api, shop, pod("one")))
    api.apply(document)
    eventually("it is filled", lambda: injector.secret() and not problems())
    eventually("it injects", lambda: sidecars(made(api, shop, pod("probe"), dry_run=True)))


def test_a_pod_made_from_an_injected_one_has_one_sidecar(api, shop):
    first = made(api, shop, pod("one"))
    copy = {**first, "metadata": {"name": "copy", "annotations": first["metadata"]["annotations"]}}
    copy.pop("status")
    copy["spec"].pop("nodeName", None)
    again = made(api, shop, copy)
    assert len(sidecars(again)) == 1
    assert again["spec"]["initContainers"] == first["spec"]["initContainers"]


def test_who_changes_the_pod_afterwards_has_the_injector_asked_again_to_no_effect(api, shop, injector):
    with somebody_else(api):

        def both() -> dict[str, Any] | None:
            found = made(api, shop, pod("one"), dry_run=True)
            return found if "theirs" in [one["name"] for one in found["spec"]["containers"]] else None

        eventually("the other webhook is known", both)
        before = injector.number('admission_reviews_total{outcome="ignored"}')
        found = made(api, shop, pod("two"))
        assert injector.number('admission_reviews_total{outcome="ignored"}') == before + 1
        assert [one["name"] for one in found["spec"]["containers"]] == ["app", "theirs"]
        assert len(sidecars(found)) == 1


def test_when_the_injector_is_away_pods_are_made_without_a_sidecar(api, shop, injector):
    injector.programs.end("injector")
    found = made(api, shop, pod("without"))
    assert sidecars(found) == []
    assert told(found) == ""
    injector.start()
    injector.ready()
    assert sidecars(made(api, shop, pod("with")))


def test_a_certificate_that_is_not_trusted_costs_nobody_a_pod_and_mends_itself(api, shop, injector):
    ours = injector.trusted()
    injector.programs.end("injector")
    injector.trust(make_authority(datetime.datetime.now(datetime.UTC), DAY).certificate)
    impostor = TlsContext()
    keyring = decode_keyring(injector.secret())
    assert keyring is not None
    impostor.set_certificate(keyring.leaf.certificate, keyring.leaf.key)
    with serving(impostor.context, injector.port) as (_, asked):
        eventually(
            "the API server no longer trusts it",
            lambda: not sidecars(made(api, shop, pod("probe"), dry_run=True)),
        )
        assert sidecars(made(api, shop, pod("without"))) == []
        assert asked == [], "a question was asked of somebody who is not trusted"
    injector.start()
    injector.ready()
    assert injector.trusted() == ours
    eventually("it injects again", lambda: sidecars(made(api, shop, pod("probe"), dry_run=True)))


def test_an_old_authority_is_replaced_and_no_pod_goes_without_meanwhile(api, shop, injector):
    """A keyring of months ago: a new authority is announced, waits, signs, and the old one is forgotten."""
    injector.programs.end("injector")
    now = datetime.datetime.now(datetime.UTC)
    plan = CertificatePolicy(("127.0.0.1", f"{NAME}.{injector.namespace}.svc"), 30 * DAY, 365 * DAY, DAY)
    authority = make_authority(now - 250 * DAY, plan.authority_lifetime)
    old = certificates.Keyring(authority, make_leaf(authority, now - 5 * DAY, plan))
    injector.keep(encode_keyring(old))
    injector.trust(old.ca_bundle)
    injector.start("injector", "--ca-overlap-seconds", "3")
    injector.ready()
    seen: list[str] = []

    def changed() -> bool:
        # Whatever is going on: each pod that is made has its sidecar.
        assert sidecars(made(api, shop, pod("meanwhile"), dry_run=True)), seen
        keyring = decode_keyring(injector.secret())
        assert keyring is not None
        state = f"next: {keyring.next is not None}, former: {bool(keyring.former)}"
        if state not in seen:
            seen.append(state)
        return keyring.authority != authority and not keyring.former

    eventually("the old authority is forgotten", changed)
    steps = ["next: True, former: False", "next: False, former: True", "next: False, former: False"]
    assert seen == [step for step in steps if step in seen]
    assert seen[-1] == steps[-1]
    trusted = eventually(
        "it is trusted no more",
        lambda: injector.trusted() if authority.certificate not in injector.trusted() else None,
    )
    assert trusted.count("BEGIN CERTIFICATE") == 1
    assert sidecars(made(api, shop, pod("afterwards")))
    assert injector.number("certificate_reloads_total") >= 2
    injector.programs.end("injector")


def test_replicas_that_begin_at_once_agree_on_one_certificate(api, shop, injector):
    injector.programs.end("injector")
    injector.keep({})
    names = ["injector", "second", "third"]
    for name in names:
        injector.start(name)
    for name in names:
        injector.ready(name)
    made_here = sum(injector.number('certificates_issued_total{kind="ca"}', name) for name in names)
    ends = {injector.number("certificate_expiration_timestamp_seconds", name) for name in names}
    assert made_here == 1
    assert len(ends) == 1
    eventually("it injects", lambda: sidecars(made(api, shop, pod("probe"), dry_run=True)))
    for name in names[1:]:
        injector.programs.end(name)


def test_a_certificate_that_somebody_else_mounts_is_taken_as_it_changes(api, shop, injector, tmp_path):
    """As cert-manager's: a Secret that is mounted, with another certificate in it from time to time."""
    injector.programs.end("injector")
    now = datetime.datetime.now(datetime.UTC)
    plan = CertificatePolicy(("127.0.0.1",), DAY, 3 * DAY, DAY)
    authority = make_authority(now, plan.authority_lifetime)
    injector.trust(authority.certificate)
    injector.start("injector", "--certificate-dir", str(tmp_path))

    def missing() -> bool:
        return "cannot read" in json.dumps(injector.status()[1])

    eventually("it says what is missing", missing)
    assert injector.status()[0] == 503
    for times in (1, 2):
        leaf = make_leaf(authority, now, plan)
        (tmp_path / "tls.key").write_text(leaf.key)
        (tmp_path / "tls.crt").write_text(leaf.certificate)
        injector.ready()
        eventually("it is taken", lambda times=times: injector.number("certificate_reloads_total") == times)
        eventually("it injects", lambda: sidecars(made(api, shop, pod("probe"), dry_run=True)))
    assert injector.trusted() == authority.certificate
    injector.programs.end("injector")


def test_its_account_may_do_what_it_needs_and_no_more(api, injector):
    config = api.kubeconfig_of(injector.namespace, NAME)
    own = ["-n", injector.namespace]

    def may(*label_names: str) -> bool:
        return api.try_kubectl("auth", "can-i", *label_names, config=config).returncode == 0

    assert may("get", "namespaces")
    assert may("create", "events", "-n", "default")
    assert may("list", "limitranges", "-n", "default")
    assert may("list", "resourcequotas", "-n", "default")
    assert may("get", f"secrets/{NAME}", *own)
    assert may("update", f"secrets/{NAME}", *own)
    assert may("patch", f"mutatingwebhookconfigurations/{NAME}")
    for denied in (
        ("get", "pods", "-n", "default"),
        ("list", "namespaces"),
        ("get", "secrets/other", *own),
        ("list", "secrets", *own),
        ("create", "secrets", *own),
        ("patch", "mutatingwebhookconfigurations/other"),
        ("create", "mutatingwebhookconfigurations"),
        ("create", "pods", "-n", "default"),
    ):
        assert not may(*denied), denied


def test_without_its_permissions_it_says_which_are_missing(api, injector):
    api.service_account(injector.namespace, "nobody")
    injector.start("poor", config=api.kubeconfig_of(injector.namespace, "nobody"))

    def problems() -> dict[str, Any] | None:
        found = {one["about"]: one for one in injector.status("poor")[1].get("problems", ())}
        return found if found.get("certificate", {}).get("error") == "cluster_denied" else None

    found = eventually("it says so", problems)
    assert injector.status("poor")[0] == 503
    assert "get secrets" in found["certificate"]["hint"]
    assert found["trust"]["error"] == "cluster_denied"
    assert "get mutatingwebhookconfigurations" in found["trust"]["hint"]
    injector.programs.end("poor")


def test_before_native_sidecars_a_pod_that_ends_is_left_without(api, shop, injector):
    injector.programs.end("injector")
    injector.start("injector", "--native-sidecars", "never")
    injector.ready()
    lasting = made(api, shop, pod("lasting"))
    assert [one["name"] for one in lasting["spec"]["containers"]] == ["app", label_names.SIDECAR]
    ending = made(api, shop, pod("ending", restartPolicy="Never"))
    assert sidecars(ending) == []
    assert "would keep it from ending" in told(ending)
    injector.programs.end("injector")


def test_the_webhook_is_scoped_and_never_in_the_way(injector):
    entries = of_kind(rendered(injector.namespace), "MutatingWebhookConfiguration")["webhooks"]
    assert {entry["timeoutSeconds"] for entry in entries} == {5}
    for entry in injector.webhook["webhooks"]:
        assert entry["failurePolicy"] == "Ignore"
        assert entry["reinvocationPolicy"] == "IfNeeded"
        assert entry["sideEffects"] == "NoneOnDryRun"
        [names] = [
            one
            for one in entry["namespaceSelector"]["matchExpressions"]
            if one["key"] == "kubernetes.io/metadata.name"
        ]
        assert names["operator"] == "NotIn"
        assert set(names["values"]) >= {"kube-system", injector.namespace}
    deployment = of_kind(injector.documents, "Deployment")
    assert deployment["spec"]["replicas"] == 2
