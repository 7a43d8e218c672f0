"""All settings of the node agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidelight import settings as house
from sidelight.settings import BadSetting, setting
from sidelight_kubernetes.label_names import IN_CLUSTER
from sidelight_model.errors import BadLabel
from sidelight_model.labels import Labels
from sidelight_sidecar.sampling_settings import SamplingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings(SamplingSettings):
    """Settings of `sidelight agent`; units are part of the names."""

    node: str = setting("", "name of the node whose pods are profiled", required=True, metavar="NAME")
    kubernetes: str = setting(
        IN_CLUSTER, "API server: in-cluster, or the path of a kubeconfig", metavar="WHERE"
    )
    max_processes: int = setting(
        500, "most processes to profile at the same time", parse=house.parse_nonnegative_int
    )
    scan_interval_seconds: float = setting(
        2.0, "time between scans for new and ended processes", parse=house.parse_positive_float
    )
    budget_cpu_percent: float = setting(
        5.0,
        "most CPU time for sampling all processes of the node, in percent of one core; rates adapt",
        parse=house.parse_positive_float,
    )
    budget_pod_cpu_percent: float = setting(
        1.0,
        "most CPU time for sampling the processes of one pod, in percent of one core; rates adapt",
        parse=house.parse_positive_float,
    )

    def __post_init__(self) -> None:
        SamplingSettings.__post_init__(self)
        if self.budget_pod_cpu_percent > 100:
            raise BadSetting("--budget-pod-cpu-percent must be at most 100", hint="1 is one percent.")

    @property
    def pod_cpu_share(self) -> float:
        return self.budget_pod_cpu_percent / 100

    @property
    def labels(self) -> Labels:
        """The labels of every window, besides those of its pod; raises BadLabel."""
        # Each pod has a service of its own; labels without one are refused.
        return Labels.parse({"service": "service", "node": self.node, **dict(self.label)})


def parse_agent_settings(argv: Sequence[str], environ: Mapping[str, str]) -> AgentSettings:
    """Parse settings from flags, `SIDELIGHT_…` variables and defaults, in that order.

    Raises SidelightError.
    """
    settings = house.parse_settings(
        AgentSettings, "agent", "Sample the pods of a node that ask for it, and ship windows.", argv, environ
    )
    try:
        _ = settings.labels
    except BadLabel as error:
        raise BadSetting(error.message, hint=error.hint) from error
    return settings
