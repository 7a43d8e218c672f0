"""What becomes of a pod: a patch that adds the sidecar, a reason why not, or nothing at all. Pure.

A pod is read as the API server hands it to admission: valid in shape, with nothing taken for granted
beyond. Nothing that it has is changed or removed; a patch only adds. A pod that has the container already
is left as it is, so that being asked again (reinvocation, a copied pod) changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidelight_injector.admission import limits, pod_security
from sidelight_injector.admission.ports import TRIED, free_port
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.skip_reasons import MAX_SENTENCE, Skip, Why
from sidelight_kubernetes import label_names, naming
from sidelight_model.errors import SidelightError

Pod = Mapping[str, Any]
Patch = list[dict[str, Any]]
"""A JSON patch (RFC 6902) of nothing but `add`."""

MIRROR: Final = "kubernetes.io/config.mirror"
INJECTED: Final = "injected"
SKIPPED: Final = "skipped: "
_STATUS_PATH: Final = "/metadata/annotations/" + label_names.STATUS.replace("~", "~0").replace("/", "~1")
_OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
_LOCAL: Final = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod is to be: its namespace with the labels that it has, and what holds for the cluster.

    `native`: init containers may have restartPolicy Always. `enforced`: the level of Pod Security in force.
    `ranges` and `quotas` are the namespace's LimitRanges and ResourceQuotas.
    """

    namespace: str
    labels: Mapping[str, str]
    native: bool = True
    enforced: str = "privileged"
    ranges: Sequence[Mapping[str, Any]] = ()
    quotas: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A patch to apply, `skip` where a sidecar is asked for and cannot be, warnings for who makes the pod."""

    patch: Patch = field(default_factory=list)
    skip: Skip | None = None
    injected: bool = False
    warnings: Sequence[str] = ()


LEFT: Final = Decision()
"""Nothing was asked for, or it is done already."""


def decide(pod: Pod, place: Place, recipe: Recipe) -> Decision:
    """What becomes of this pod in this place."""
    annotations = texts(pod, "annotations")
    if MIRROR in annotations or not _asked(pod, place) or _has_sidecar(pod):
        return LEFT
    skip = _unfit(pod, place)
    made: dict[str, Any] = {}
    if skip is None:
        try:
            made = _made(pod, recipe)
        except _Skipped as stop:
            skip = stop.skip
        except SidelightError as error:
            skip = Skip(Why.BAD_ANNOTATION, error.message, error.hint or "see docs/injector.md")
    if skip is None:
        skip = _refused(pod, made, place, recipe)
    if skip is not None:
        return skipped(pod, skip)
    patch = _patch(pod, made, recipe, native=place.native) + _status(pod, INJECTED)
    return Decision(patch, injected=True, warnings=_warnings(annotations))


def skipped(pod: Pod, skip: Skip) -> Decision:
    """The pod without a sidecar, and told why."""
    warning = f"Sidelight did not inject its sidecar. {skip.sentence}"[:MAX_SENTENCE]
    return Decision(_status(pod, SKIPPED + skip.sentence), skip, warnings=(warning,))


def texts(pod: Pod, kind: str) -> Mapping[str, str]:
    """The pod's `labels` or `annotations`."""
    found: Mapping[str, str] = (pod.get("metadata") or {}).get(kind) or {}
    return found


class _Skipped(Exception):
    def __init__(self, why: Why, problem: str, next_step: str) -> None:
        self.skip = Skip(why, problem, next_step)


def _spec(pod: Pod) -> Mapping[str, Any]:
    found: Mapping[str, Any] = pod.get("spec") or {}
    return found


def _containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    yield from _spec(pod).get("initContainers") or ()
    yield from _spec(pod).get("containers") or ()


def _has_sidecar(pod: Pod) -> bool:
    return any(one.get("name") == label_names.SIDECAR for one in _containers(pod))


def _asked(pod: Pod, place: Place) -> bool:
    """Whether anybody wants a sidecar here; a word that nobody knows is an answer, and is told."""
    own = texts(pod, "labels").get(label_names.INJECT)
    return own != "false" if own is not None else place.labels.get(label_names.INJECT) == "true"


def _unfit(pod: Pod, place: Place) -> Skip | None:
    """What about the pod as a whole keeps a sidecar out of it."""
    spec, own = _spec(pod), texts(pod, "labels").get(label_names.INJECT, "true")
    if own != "true":
        return Skip(
            Why.BAD_LABEL,
            f"the label {label_names.INJECT} is {own!r}",
            'give it the value "true" or "false", in quotes',
        )
    system = (spec.get("os") or {}).get("name") or next(
        (value for label in _OS_LABELS if (value := (spec.get("nodeSelector") or {}).get(label))), "linux"
    )
    if system != "linux":
        return Skip(Why.OTHER_OS, f"the pod is for {system}", f'label it {label_names.INJECT}: "false"')
    if spec.get("hostPID"):
        return Skip(
            Why.HOST_PID,
            "hostPID: true shows every process of the node, and goes with no shared PID namespace",
            "take hostPID out, or run `sidelight sidecar` with --match in a container of your own",
        )
    if spec.get("shareProcessNamespace") is False:
        return Skip(
            Why.PROCESSES_APART,
            "the pod sets shareProcessNamespace: false, and the sidecar has to see the other processes",
            "take the line out, or set it to true",
        )
    if not place.native and (ends := _ends(pod)):
        return Skip(
            Why.WOULD_NOT_END,
            f"{ends}, and an ordinary container beside it would keep it from ending",
            "native sidecars come with Kubernetes 1.29 (--native-sidecars)",
        )
    return None


def _ends(pod: Pod) -> str:
    owner = naming.owner_of(pod)
    if owner is not None and owner.kind in ("Job", "CronJob"):
        return f"the pod belongs to a {owner.kind}"
    policy = _spec(pod).get("restartPolicy", "Always")
    return f"the pod has restartPolicy {policy}" if policy != "Always" else ""


def _made(pod: Pod, recipe: Recipe) -> dict[str, Any]:
    """The container for this pod; raises _Skipped, and SidelightError for settings nobody can use."""
    annotations, spec = texts(pod, "annotations"), _spec(pod)
    made = recipe.made(
        service=naming.service_of(pod),
        version=naming.version_of(pod),
        annotations=annotations,
        container=_watched(pod, annotations.get(label_names.CONTAINER, "")),
    )
    if spec.get("resources"):
        # Where a pod has resources as a whole, what its containers ask for must fit into them.
        made.pop("resources", None)
    if spec.get("hostNetwork"):
        # All pods of a node would share the port: none is asked for, and nobody asks whether it lives.
        made.pop("ports", None)
        made.pop("livenessProbe", None)
        return _listening(made, _LOCAL)
    port = free_port(_containers(pod), recipe.port)
    if port is None:
        raise _Skipped(
            Why.NO_FREE_PORT,
            f"the ports {recipe.port} to {recipe.port + TRIED - 1} are all named by the pod's containers",
            "choose another sidecar.port in the chart's values",
        )
    if port != recipe.port:
        made["ports"] = [{**one, "containerPort": port} for one in made.get("ports", ())]
        return _listening(made, f"0.0.0.0:{port}")
    return made


def _listening(container: dict[str, Any], address: str) -> dict[str, Any]:
    env = [
        {**one, "value": address} if one["name"] == "SIDELIGHT_LISTEN" else one for one in container["env"]
    ]
    return {**container, "env": env}


def _watched(pod: Pod, wish: str) -> str:
    """The container that the pod's annotation names, empty without one; raises _Skipped."""
    if not wish:
        return ""
    spec = _spec(pod)
    lasting = [one["name"] for one in spec.get("containers") or ()]
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            lasting.append(one["name"])
        elif one["name"] == wish:
            raise _Skipped(
                Why.CONTAINER_ENDS_FIRST,
                f"{wish!r} is an init container, which ends before the sidecar starts",
                f"name one of {', '.join(lasting)} in {label_names.CONTAINER}",
            )
    if wish not in lasting:
        raise _Skipped(
            Why.NO_SUCH_CONTAINER,
            f"the pod has no container {wish!r}",
            f"name one of {', '.join(lasting)} in {label_names.CONTAINER}",
        )
    return wish


def _refused(pod: Pod, made: Mapping[str, Any], place: Place, recipe: Recipe) -> Skip | None:
    """What would make the API server refuse the pod, if the sidecar were in it."""
    taken = {one.get("name") for one in _spec(pod).get("volumes") or ()}
    clashing = sorted(taken & {one["name"] for one in recipe.volumes})
    if clashing:
        return Skip(
            Why.NAME_TAKEN, f"the pod has a volume named {clashing[0]!r}", "give that volume another name"
        )
    if what := pod_security.refusal(made, place.enforced):
        return Skip(
            Why.POD_SECURITY,
            f"Pod Security {place.enforced!r} of namespace {place.namespace!r} refuses {what}",
            f"label the namespace {pod_security.ENFORCE}=privileged, or exempt it (docs/injector.md)",
        )
    # In a pod with resources as a whole the sidecar asks for none of its own.
    if "resources" in made and (what := limits.refusal(made, place.ranges, place.quotas)):
        return Skip(Why.NAMESPACE_LIMITS, what, "give the sidecar other resources in the chart's values")
    return None


def _patch(pod: Pod, made: Mapping[str, Any], recipe: Recipe, *, native: bool) -> Patch:
    spec, patch = _spec(pod), []
    if not spec.get("shareProcessNamespace"):
        patch.append(_add("/spec/shareProcessNamespace", True))
    if native:
        # Behind the others: nothing that prepares the pod waits for the sidecar.
        patch += _appended(spec, "initContainers", [{**made, "restartPolicy": "Always"}])
    else:
        patch += _appended(spec, "containers", [made])
    patch += _appended(spec, "volumes", recipe.volumes)
    there = [one.get("name") for one in spec.get("imagePullSecrets") or ()]
    secrets = [one for one in recipe.pull_secrets if one["name"] not in there]
    return patch + _appended(spec, "imagePullSecrets", secrets)


def _appended(spec: Mapping[str, Any], name: str, added: Sequence[Mapping[str, Any]]) -> Patch:
    if added and not spec.get(name):
        return [_add(f"/spec/{name}", list(added))]
    return [_add(f"/spec/{name}/-", one) for one in added]


def _status(pod: Pod, status: str) -> Patch:
    annotations = texts(pod, "annotations")
    if annotations.get(label_names.STATUS) == status:
        return []
    if not annotations:
        return [_add("/metadata/annotations", {label_names.STATUS: status})]
    return [_add(_STATUS_PATH, status)]


def _add(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _warnings(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Annotations of ours that mean nothing: mostly a slip of the pen."""
    known = {*label_names.ANNOTATIONS, label_names.STATUS}
    strange = sorted(
        one for one in annotations if one.startswith(f"{label_names.DOMAIN}/") and one not in known
    )
    return tuple(f"Sidelight knows no annotation {one}"[:MAX_SENTENCE] for one in strange[:5])
