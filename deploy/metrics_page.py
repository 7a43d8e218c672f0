"""Tables of the metrics that the programs declare, for docs/metrics.md."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from sidelight_collector.metrics import Metrics as CollectorMetrics
from sidelight_injector.metrics import Metrics as InjectorMetrics
from sidelight_sidecar.metrics import SidecarMetrics


def render() -> str:
    """Return a table for each program."""
    registries = {
        "Collector": CollectorMetrics().registry,
        "Sidecar": SidecarMetrics().registry,
        "Injector": InjectorMetrics().registry,
    }
    return "".join(_table(title, registry) for title, registry in registries.items())


def _table(title: str, registry: CollectorRegistry) -> str:
    return "\n".join([f"\n## {title}", "", "|metric|meaning|", "|---|---|", *_rows(registry), ""])


def _rows(registry: CollectorRegistry) -> Iterator[str]:
    for metric in registry._collector_to_names:
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.collect()
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = f"{{{','.join(metric._labelnames)}}}" if metric._labelnames else ""
            yield f"|`{name}{labels}`|{family.documentation.rstrip('.')}|"
