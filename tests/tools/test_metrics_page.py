"""The tables of docs/metrics.md have each metric of each program, as Prometheus reads it."""

import pytest

from deploy import metrics_page
from sidelight_collector.metrics import Metrics as CollectorMetrics
from sidelight_injector.metrics import Metrics as InjectorMetrics
from sidelight_sidecar.metrics import SidecarMetrics

PAGE = metrics_page.render()


@pytest.mark.parametrize("metrics", [CollectorMetrics, SidecarMetrics, InjectorMetrics])
def test_every_metric_has_one_row(metrics):
    names = [
        line.strip("|`").split("`")[0].partition("{")[0] for line in PAGE.splitlines() if line[:2] == "|`"
    ]
    for family in metrics().registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        assert names.count(name) == 1


def test_a_counter_has_its_ending_and_labels_and_what_it_counts():
    assert "|`sidelight_refusals_total{reason}`|Rejected or failed requests, by reason|" in PAGE
    assert "|`sidelight_event_loop_lag_seconds`|Delay of timers on the event loop|" in PAGE
