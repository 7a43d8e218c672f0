"""Writes docs/metrics.md from the metrics that the programs declare: `metrics_page.py [FILE]`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from sidelight_collector.metrics import Metrics as CollectorMetrics
from sidelight_injector.metrics import Metrics as InjectorMetrics
from sidelight_sidecar.metrics import SidecarMetrics

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
HEAD = """\
# Metrics

Which metrics do the programs publish on `/metrics`? [Operations](operations.md#what-to-watch) says which to
watch. `make reference` writes this page.

Histograms have `_bucket`, `_count` and `_sum`. Words after a colon are the values of the label.
`connections_closed_total` has the reasons `header_timeout`, `body_timeout`, `response_timeout`, `idle` and
`limit`. Other reasons and errors are those of [troubleshooting](troubleshooting.md).
"""


def main(argv: list[str]) -> None:
    target = Path(argv[0]) if argv else PAGE
    target.write_text(render(), encoding="utf-8")


def render() -> str:
    """Return the text of the page."""
    registries = {
        "Collector": CollectorMetrics().registry,
        "Sidecar": SidecarMetrics().registry,
        "Injector": InjectorMetrics().registry,
    }
    return HEAD + "".join(_table(title, registry) for title, registry in registries.items())


def _table(title: str, registry: CollectorRegistry) -> str:
    return "\n".join([f"\n## {title}", "", "|metric|meaning|", "|---|---|", *_rows(registry), ""])


def _rows(registry: CollectorRegistry) -> Iterator[str]:
    for metric in registry._collector_to_names:
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.collect()
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = f"{{{','.join(metric._labelnames)}}}" if metric._labelnames else ""
            yield f"|`{name}{labels}`|{family.documentation.rstrip('.')}|"


if __name__ == "__main__":
    main(sys.argv[1:])
