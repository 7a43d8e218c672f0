"""The sidecar's container as the chart renders it, adapted to each pod.

The chart writes its template `sidelight.sidecar` as JSON into a ConfigMap, so that an injected pod gets the
same container as a chart that uses the template. A pod's annotations become environment variables of the
same settings. The sidecar's own parser then checks them: settings that would stop the sidecar at its start
are refused here, before the pod exists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sidelight.settings import BadSetting
from sidelight_kubernetes import label_names
from sidelight_kubernetes.setting_annotations import list_changes
from sidelight_model.errors import SidelightError
from sidelight_sidecar import settings as sidecar

Json = Mapping[str, Any]

CA_VARIABLE: Final = "SIDELIGHT_CA_CERTIFICATES"
_HINT: Final = "The chart renders it: take it from the ConfigMap of `helm template`."


@dataclass(frozen=True, slots=True)
class Recipe:
    """The sidecar's container and the volumes that it mounts, the same for all pods.

    `pull_secrets` are Secrets of the pod's namespace that its image may be pulled with.
    """

    container: Json
    volumes: Sequence[Json]
    pull_secrets: Sequence[Json] = ()

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Parse `{"container": {…}, "volumes": […], "imagePullSecrets": […]}`.

        `imagePullSecrets` may be missing. Raises BadSetting if the text has another shape, or if the
        sidecar would refuse the settings.
        """
        try:
            document = json.loads(text)
            container, volumes = document["container"], document["volumes"]
            names = [volume["name"] for volume in volumes]
            pull_secrets = [{"name": secret["name"]} for secret in document.get("imagePullSecrets") or ()]
            if container["name"] != label_names.SIDECAR or not container["image"]:
                raise ValueError(f"the container is not named {label_names.SIDECAR}, or has no image")
            missing = {mount["name"] for mount in container.get("volumeMounts", ())} - set(names)
            if missing:
                raise ValueError(f"volumes are mounted that are not there: {', '.join(sorted(missing))}")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise BadSetting(f"--sidecar-file is not a sidecar: {error!r}"[:500], hint=_HINT) from error
        recipe = cls(container, tuple(volumes), tuple(pull_secrets))
        recipe.check()
        return recipe

    def check(self) -> None:
        """Raise BadSetting if the sidecar would refuse the settings."""
        try:
            self.build_container(service="service", version="version", annotations={})
        except SidelightError as error:
            raise BadSetting(f"--sidecar-file: {error.message}", hint=error.hint or _HINT) from error

    def add_ca_certificates(self, certificates: str) -> Recipe:
        """Return a recipe whose sidecar trusts these authorities (PEM) for its collector."""
        env = [*self.container.get("env", ()), {"name": CA_VARIABLE, "value": certificates}]
        return replace(self, container={**self.container, "env": env})

    @property
    def port(self) -> int:
        """The port on which the sidecar listens, unless the pod already uses it."""
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
        """Build the container for one pod and check its settings.

        `target_container` is the container to sample, "" for every container of the pod. Raises
        SidelightError, as the sidecar itself would at its start.
        """
        changes: dict[str, str | None] = {"SIDELIGHT_SERVICE": service, "SIDELIGHT_VERSION": version}
        changes |= {_to_variable(name): value for name, value in list_changes(annotations).items()}
        if target_container:
            changes |= {
                "SIDELIGHT_CONTAINER": target_container,
                "SIDELIGHT_TARGET_CONTAINER": target_container,
            }
        container = {**self.container, "env": change_variables(self.container.get("env", ()), changes)}
        args = [argument for argument in container.get("args", ()) if argument != "--all"]
        has_pattern = any(
            variable["name"] == "SIDELIGHT_MATCH" and variable.get("value") for variable in container["env"]
        )
        container["args"] = args if has_pattern else [*args, "--all"]
        check_container(container)
        if label_names.MATCH in annotations:
            container["env"] = [_escape_dollars(variable) for variable in container["env"]]
        return container


def _to_variable(setting: str) -> str:
    return f"SIDELIGHT_{setting.upper()}"


def _escape_dollars(variable: dict[str, Any]) -> dict[str, Any]:
    """Escape `$` in the pattern, so that the kubelet passes it on unchanged.

    The kubelet expands $(NAME), and reads $$ as a single $.
    """
    if variable["name"] != "SIDELIGHT_MATCH":
        return variable
    return {**variable, "value": variable["value"].replace("$", "$$")}


def change_variables(variables: Iterable[Json], changes: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """Return the variables in their order with changed values, new ones last.

    A change to None removes the variable.
    """
    remaining = dict(changes)
    changed = []
    for variable in variables:
        name = variable["name"]
        if name not in remaining:
            changed.append(dict(variable))
        elif (value := remaining.pop(name)) is not None:
            changed.append({"name": name, "value": value})
    return changed + [
        {"name": name, "value": value} for name, value in remaining.items() if value is not None
    ]


def check_container(container: Json) -> None:
    """Raise SidelightError if the sidecar would not start with these settings."""
    environ = {variable["name"]: str(variable.get("value", "field")) for variable in container["env"]}
    sidecar.parse_sidecar_settings(list(container["args"][1:]), environ)
