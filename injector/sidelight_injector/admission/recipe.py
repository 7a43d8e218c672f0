"""The sidecar as the chart renders it, and the changes that one pod makes to it.

The chart writes its template `sidelight.sidecar` into a ConfigMap as JSON, so that a pod that is injected
gets the very container that a chart with the template gets. A pod's annotations become the variables of
the same settings, which are then read by the sidecar's own rules: what it would refuse at its start is
refused here, before there is a pod whose sidecar cannot start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight.settings import BadSetting
from sidelight_kubernetes import label_names
from sidelight_model.errors import SidelightError
from sidelight_sidecar import settings as sidecar

Json = Mapping[str, Any]

PREFIX: Final = "SIDELIGHT_"
VARIABLES: Final = {
    label_names.RATE: "SIDELIGHT_RATE",
    label_names.MODE: "SIDELIGHT_MODE",
    label_names.INTERVAL_SECONDS: "SIDELIGHT_INTERVAL_SECONDS",
    label_names.WINDOW_SECONDS: "SIDELIGHT_WINDOW_SECONDS",
    label_names.ON_DEMAND: "SIDELIGHT_ON_DEMAND",
    label_names.BUDGET_CPU_PERCENT: "SIDELIGHT_BUDGET_CPU_PERCENT",
    label_names.MATCH: "SIDELIGHT_MATCH",
    label_names.TRIGGER_CPU_PERCENT: "SIDELIGHT_TRIGGER_CPU_PERCENT",
    label_names.TRIGGER_THROTTLED_PERCENT: "SIDELIGHT_TRIGGER_THROTTLED_PERCENT",
    label_names.TRIGGER_RSS_GROWTH: "SIDELIGHT_TRIGGER_RSS_GROWTH",
    label_names.TRIGGER_READY: "SIDELIGHT_TRIGGER_READY",
    label_names.TRIGGER_SIGTERM: "SIDELIGHT_TRIGGER_SIGTERM",
    label_names.TRIGGER_RATE: "SIDELIGHT_TRIGGER_RATE",
    label_names.TRIGGER_DURATION_SECONDS: "SIDELIGHT_TRIGGER_DURATION_SECONDS",
}
"""Annotations that are settings of the sidecar as they stand."""
_HINT: Final = "The chart renders it: take it from the ConfigMap of `helm template`."


@dataclass(frozen=True, slots=True)
class Recipe:
    """The sidecar's container and the volumes that it mounts, before anything is known of a pod.

    `pull_secrets` are Secrets of the pod's namespace that its image may be pulled with.
    """

    container: Json
    volumes: Sequence[Json]
    pull_secrets: Sequence[Json] = ()

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Read `{"container": {…}, "volumes": […], "imagePullSecrets": […]}`; the last may be missing.

        Raises BadSetting for what is no such thing, and for settings the sidecar would refuse.
        """
        try:
            told = json.loads(text)
            container, volumes = told["container"], told["volumes"]
            names = [volume["name"] for volume in volumes]
            pull_secrets = [{"name": one["name"]} for one in told.get("imagePullSecrets") or ()]
            if container["name"] != label_names.SIDECAR or not container["image"]:
                raise ValueError(f"the container is not named {label_names.SIDECAR}, or has no image")
            missing = {one["name"] for one in container.get("volumeMounts", ())} - set(names)
            if missing:
                raise ValueError(f"volumes are mounted that are not there: {', '.join(sorted(missing))}")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise BadSetting(f"--sidecar-file is not a sidecar: {error!r}"[:500], hint=_HINT) from error
        recipe = cls(container, tuple(volumes), tuple(pull_secrets))
        try:
            recipe.build_container(service="service", version="version", annotations={})
        except SidelightError as error:
            raise BadSetting(f"--sidecar-file: {error.message}", hint=error.hint or _HINT) from error
        return recipe

    @property
    def port(self) -> int:
        """Where the sidecar listens, unless a pod has this port in use."""
        ports = self.container.get("ports") or [{}]
        return int(ports[0].get("containerPort", 8081))

    def build_container(
        self,
        *,
        service: str,
        version: str,
        annotations: Mapping[str, str],
        target_container: str = "",
    ) -> dict[str, Any]:
        """The container for one pod, its settings checked; `target_container` is the one it is to watch.

        Raises SidelightError, as the sidecar itself would at its start.
        """
        changes: dict[str, str | None] = {"SIDELIGHT_SERVICE": service, "SIDELIGHT_VERSION": version}
        changes |= dict.fromkeys(_list_overridden_variables(annotations))
        changes |= {name: annotations[one] for one, name in VARIABLES.items() if one in annotations}
        if target_container:
            changes |= {
                "SIDELIGHT_CONTAINER": target_container,
                "SIDELIGHT_TARGET_CONTAINER": target_container,
            }
        made = {**self.container, "env": change_variables(self.container.get("env", ()), changes)}
        words_given = [word for word in made.get("args", ()) if word != "--all"]
        matches = any(one["name"] == "SIDELIGHT_MATCH" and one.get("value") for one in made["env"])
        made["args"] = words_given if matches else [*words_given, "--all"]
        check_container(made)
        if label_names.MATCH in annotations:
            made["env"] = [_escape_dollars(one) for one in made["env"]]
        return made


def _list_overridden_variables(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The cluster's own choice of a schedule, where a pod chooses another kind of schedule."""
    if label_names.INTERVAL_SECONDS in annotations:
        return ("SIDELIGHT_ON_DEMAND",)
    if annotations.get(label_names.ON_DEMAND, "").lower() in ("1", "true", "yes"):
        return ("SIDELIGHT_INTERVAL_SECONDS", "SIDELIGHT_JITTER_SECONDS")
    return ()


def _escape_dollars(variable: dict[str, Any]) -> dict[str, Any]:
    """A pattern as it is written: the kubelet takes $(NAME) for a variable, and $$ for one $."""
    if variable["name"] != VARIABLES[label_names.MATCH]:
        return variable
    return {**variable, "value": variable["value"].replace("$", "$$")}


def change_variables(variables: Iterable[Json], changes: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Variables with other values, in their order; new ones behind them, and None for one to leave out."""
    left = dict(changes)
    made = []
    for one in variables:
        name = one["name"]
        if name not in left:
            made.append(dict(one))
        elif (value := left.pop(name)) is not None:
            made.append({"name": name, "value": value})
    return made + [{"name": name, "value": value} for name, value in left.items() if value is not None]


def check_container(container: Json) -> None:
    """Raise SidelightError for a container whose sidecar would not start with these settings."""
    environ = {one["name"]: str(one.get("value", "field")) for one in container["env"]}
    sidecar.parse_sidecar_settings(list(container["args"][1:]), environ)
