"""The alerts and the dashboard name metrics that the programs expose, and alerts fire when they should."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric

from sidelight_collector.metrics import Metrics as Collector
from sidelight_injector.metrics import Metrics as Injector
from sidelight_sidecar.metrics import SidecarMetrics as Sidecar
from tests.deploy.prometheus_rules import (
    Alert,
    Case,
    Reading,
    check_expressions,
    find_firing,
    read_names,
)

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "sidelight"
RENDERED = ROOT / "deploy" / "helm" / "rendered"
TARGET = {"namespace", "pod", "workload"}
"""What a scrape adds to every series: the monitors of the chart see to it."""
SHOP = 'namespace="shop",workload="checkout",pod="checkout-1"'
AGENT = 'namespace="agents",workload="agent",pod="agent-1"'
HERE = 'namespace="profiling",pod="collector-1"'

ALERTS = {
    "SidelightSamplesLost": {f"sidelight_sidecar_spool_dropped_samples_total{{{SHOP}}}": "0x10 100+10x50"},
    "SidelightWindowsRefused": {
        f'sidelight_sidecar_refused_windows_total{{{SHOP},reason="too_old"}}': "_x50 1x10"
    },
    "SidelightWorkloadStale": {
        f"sidelight_sidecar_last_shipped_timestamp_seconds{{{SHOP}}}": "0x60",
        f"sidelight_sidecar_processes{{{SHOP}}}": "2x60",
    },
    "SidelightPermissionMissing": {
        f'sidelight_sidecar_attach_failures_total{{{SHOP},reason="ptrace_denied"}}': "1+1x60"
    },
    "SidelightNothingArrives": {f"sidelight_last_ingest_timestamp_seconds{{{HERE}}}": "60x60"},
    "SidelightCollectorDown": {f"sidelight_sidecar_sessions{{{SHOP}}}": "1x60"},
    "SidelightSpoolFills": {f"sidelight_sidecar_spool_bytes{{{SHOP}}}": "250000000x60"},
    "SidelightNotDelivering": {
        f"sidelight_sidecar_last_shipped_timestamp_seconds{{{SHOP}}}": "60x60",
        f"sidelight_sidecar_spool_windows{{{SHOP}}}": "0+1x60",
    },
    "SidelightEventLoopLag": {
        f'sidelight_event_loop_lag_seconds_bucket{{{HERE},le="1"}}': "0x60",
        f'sidelight_event_loop_lag_seconds_bucket{{{HERE},le="5"}}': "0+10x60",
        f'sidelight_event_loop_lag_seconds_bucket{{{HERE},le="+Inf"}}': "0+10x60",
    },
    "SidelightWindowsMissed": {f"sidelight_sidecar_missed_windows_total{{{SHOP}}}": "0+1x60"},
    "SidelightSamplingReduced": {
        f'sidelight_sidecar_reduced_rate_processes{{{SHOP},reason="cpu"}}': "1x90",
        f'sidelight_sidecar_reduced_rate_processes{{{SHOP},reason="paused"}}': "1x90",
    },
    "SidelightOverheadCpu": {f"sidelight_sidecar_sampler_cpu_ratio{{{SHOP}}}": "0.05x60"},
    "SidelightOverheadStops": {f"sidelight_sidecar_stopped_ratio{{{SHOP}}}": "0.05x60"},
    "SidelightThrottled": {f"sidelight_sidecar_throttled_seconds_total{{{SHOP}}}": "0+1x60"},
    "SidelightTargetWasStopped": {
        f'sidelight_sidecar_targets_resumed_total{{{SHOP},outcome="resumed"}}': "_x50 1x10"
    },
    "SidelightStoreFails": {f'sidelight_store_errors_total{{{HERE},operation="put"}}': "_x50 1x10"},
    "SidelightOverloaded": {f'sidelight_refusals_total{{{HERE},reason="overloaded"}}': "0+1x60"},
    "SidelightNothingCompacted": {
        f"sidelight_segments_written_total{{{HERE}}}": "0+10x90",
        f"sidelight_compaction_seconds_count{{{HERE}}}": "0x90",
    },
    "SidelightCompactionFails": {f"sidelight_compaction_errors_total{{{HERE}}}": "0+1x60"},
    "SidelightDeployAlertsFail": {
        f'sidelight_deploy_alerts_total{{{HERE},receiver="webhook",outcome="given_up"}}': "0+1x60"
    },
    "SidelightRetentionFails": {f"sidelight_retention_errors_total{{{HERE}}}": "0+1x60"},
    "SidelightRequestCountUnavailable": {
        f'sidelight_prometheus_errors_total{{{HERE},cause="timeout"}}': "0+1x90",
    },
    "SidelightCertificateEnds": {
        f"sidelight_certificate_expiration_timestamp_seconds{{{HERE}}}": "250000x90"
    },
    "SidelightWorkerRestarted": {f"sidelight_worker_restarts_total{{{HERE}}}": "0+1x60"},
    "SidelightPodsWithoutSidecar": {f"sidelight_pods_without_sidecar{{{HERE}}}": "3x60"},
    "SidelightSidecarsDead": {f"sidelight_pods_with_dead_sidecar{{{HERE}}}": "1x60"},
    "SidelightSidecarsStale": {f"sidelight_pods_with_stale_sidecar{{{HERE}}}": "1x60"},
    "SidelightIdentityDegraded": {f'sidelight_identity_degraded{{{HERE},resource="tokenreviews"}}': "1x60"},
    "SidelightPodsSkipped": {
        f'sidelight_injector_skipped_pods_total{{{HERE},reason="bad_label"}}': "_x50 1x10"
    },
    "SidelightInjectorNotReady": {f'sidelight_injector_problems{{{HERE},error="cluster_denied"}}': "1x60"},
    "SidelightInjectorCertificateEnds": {
        f"sidelight_injector_certificate_expiration_timestamp_seconds{{{HERE}}}": "80000x90"
    },
}
"""For each alert, series by the minute that it is there for; the last minute is the one that is looked at."""

WELL = {
    f"sidelight_sidecar_last_shipped_timestamp_seconds{{{SHOP}}}": "0+60x90",
    f"sidelight_sidecar_processes{{{SHOP}}}": "2x90",
    f"sidelight_sidecar_spool_windows{{{SHOP}}}": "1x90",
    f"sidelight_sidecar_spool_bytes{{{SHOP}}}": "100000x90",
    f'sidelight_sidecar_refused_windows_total{{{SHOP},reason="too_old"}}': "3x90",
    f"sidelight_sidecar_sampler_cpu_ratio{{{SHOP}}}": "0.009x90",
    f"sidelight_sidecar_sampler_cpu_ratio{{{AGENT}}}": "0.05x90",
    f'sidelight_sidecar_agent_pods{{{AGENT},decision="profiled"}}': "20x90",
    f"sidelight_sidecar_stopped_ratio{{{SHOP}}}": "0.009x90",
    f"sidelight_last_ingest_timestamp_seconds{{{HERE}}}": "0+60x90",
    f'sidelight_build_info{{{HERE},version="1"}}': "1x90",
    f"sidelight_segments_written_total{{{HERE}}}": "0+60x90",
    f"sidelight_pods_without_sidecar{{{HERE}}}": "0x90",
    f'sidelight_identity_degraded{{{HERE},resource="tokenreviews"}}': "0x90",
    f'sidelight_identity_degraded{{{HERE},resource="pods"}}': "0x90",
    f'sidelight_injector_problems{{{HERE},error="starting"}}': "0x90",
    f"sidelight_injector_certificate_expiration_timestamp_seconds{{{HERE}}}": "9000000x90",
    f"sidelight_certificate_expiration_timestamp_seconds{{{HERE}}}": "9000000x90",
    f"sidelight_compaction_seconds_count{{{HERE}}}": "0+1x90",
    f'sidelight_store_errors_total{{{HERE},operation="put"}}': "1x90",
    f'sidelight_event_loop_lag_seconds_bucket{{{HERE},le="0.1"}}': "0+100x90",
    f'sidelight_event_loop_lag_seconds_bucket{{{HERE},le="+Inf"}}': "0+100x90",
}
"""An installation with which nothing is wrong: what failed once failed long ago."""


def exposed() -> dict[str, set[str]]:
    """The series of all programs: name to labels, as a scrape of them has."""
    found: dict[str, set[str]] = {}
    for metrics in (Collector(), Sidecar(), Injector()):
        registry: CollectorRegistry = metrics.registry
        for metric in registry.collect():
            labels = _labels(registry, metric)
            for suffix in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
                metric.type, ("",)
            ):
                found[metric.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def _labels(registry: CollectorRegistry, metric: Metric) -> set[str]:
    [declared] = {
        collector for collector, names in registry._collector_to_names.items() if metric.name in names
    }
    return set(getattr(declared, "_labelnames", ()))


def rules() -> list[dict[str, Any]]:
    return [rule for group in _rule_resource()["spec"]["groups"] for rule in group["rules"]]


@cache
def _rule_resource() -> dict[str, Any]:
    documents = yaml.safe_load_all((RENDERED / "ha.yaml").read_text(encoding="utf-8"))
    [resource] = [one for one in documents if one["kind"] == "PrometheusRule"]
    return resource


def panels() -> list[dict[str, Any]]:
    return json.loads((CHART / "dashboard.json").read_text(encoding="utf-8"))["panels"]


def test_every_alert_reads_metrics_that_there_are(tmp_path):
    _check(tmp_path, {f"{rule['alert']} {rule['labels']['severity']}": rule["expr"] for rule in rules()})


def test_every_panel_reads_metrics_that_there_are(tmp_path):
    _check(
        tmp_path,
        {
            f"{panel['title']} {target['refId']}": target["expr"].replace("$__rate_interval", "5m")
            for panel in panels()
            for target in panel.get("targets", [])
        },
    )


def _check(folder: Path, expressions: dict[str, str]) -> None:
    known = exposed()
    assert len(expressions) > 10
    assert check_expressions(folder, expressions.values()) == ""
    for name, expression in expressions.items():
        reading = read_names(expression)
        assert reading.metrics, name
        for metric, labels in reading.metrics.items():
            assert metric in known, f"{name}: no program has {metric}"
            assert labels <= known[metric] | TARGET, f"{name}: {metric} has no such label"
            assert reading.groups <= known[metric] | TARGET, f"{name}: {metric} has no such label"


def test_a_metric_that_is_gone_and_a_label_that_never_was_are_found(tmp_path):
    reading = read_names('sum(rate(sidelight_gone_total{colour="red"}[5m]))')
    assert reading.metrics == {"sidelight_gone_total": {"colour"}}
    assert "sidelight_gone_total" not in exposed()
    broken = check_expressions(tmp_path, ["sum(rate(sidelight_gone_total[5m])"])
    assert "unclosed left parenthesis" in broken


@pytest.mark.parametrize(
    ("expression", "metrics", "groups"),
    [
        ("up", {"up": ()}, ()),
        ("sum by (a, b) (rate(x_total[5m])) > 0", {"x_total": ()}, "ab"),
        ("sum(x) without (a)", {"x": ()}, "a"),
        ('x{a="b{c=1}", d!~"\\"e"} offset 15m', {"x": "ad"}, ()),
        ("x{a='1'} / on (b) group_left (c) y{d=~`2`}", {"x": "a", "y": "d"}, "bc"),
        ('x{a="1"} unless x{b="2"} == bool 1e3', {"x": "ab"}, ()),
        ("histogram_quantile(0.99, sum by (le) (x_bucket)) # of {y}", {"x_bucket": ()}, ["le"]),
        ("absent(x) and ignoring (a) time() - y > 60 * 15", {"x": (), "y": ()}, "a"),
        ("x[1h:5m] @ 100 + count_values('a', y)", {"x": (), "y": ()}, ()),
    ],
)
def test_names_of_an_expression_are_its_metrics_and_labels(expression, metrics, groups):
    expected = {name: frozenset(labels) for name, labels in metrics.items()}
    assert read_names(expression) == Reading(expected, frozenset(groups))


@pytest.mark.parametrize("expression", ['{job="x"}', "sum > 0", 'x{a="1}', "x ? y"])
def test_names_of_an_expression_that_is_not_understood_are_refused(expression):
    with pytest.raises(ValueError):
        read_names(expression)


def degraded(resource: str) -> dict[str, str]:
    return {f'sidelight_identity_degraded{{{HERE},resource="{resource}"}}': "1x60"}


@pytest.fixture(scope="module")
def firing(tmp_path_factory) -> dict[str, list[Alert]]:
    """The alerts that fire in each case, all evaluated at once."""
    cases = {
        name: Case(series, 89 if "x90" in str(series) else 60)
        for name, series in {
            **ALERTS,
            "well": WELL,
            "no reviews": degraded("tokenreviews"),
            "no pods": degraded("pods"),
            "busy agent": {
                f"sidelight_sidecar_sampler_cpu_ratio{{{AGENT}}}": "0.1x60",
                f'sidelight_sidecar_agent_pods{{{AGENT},decision="profiled"}}': "20x60",
            },
        }.items()
    }
    return find_firing(tmp_path_factory.mktemp("rules"), _rule_resource()["spec"], cases)


@pytest.mark.parametrize("alert", sorted({rule["alert"] for rule in rules()}))
def test_an_alert_fires_when_it_should(alert, firing):
    [fired] = [one for one in firing[alert] if one.name == alert]
    assert fired.labels["team"] == "platform"
    assert "<no value>" not in str(fired.annotations)
    assert "//" not in fired.annotations["summary"]


@pytest.mark.parametrize(("case", "severity"), [("no reviews", "warning"), ("no pods", "info")])
def test_what_the_cluster_does_not_tell_is_as_bad_as_what_comes_of_it(case, severity, firing):
    """Without reviews sidecars wait; without pods only names are what sidecars say."""
    [fired] = [one for one in firing[case] if one.name == "SidelightIdentityDegraded"]
    assert fired.labels["severity"] == severity


def test_a_node_agent_may_cost_more_than_a_sidecar_and_not_without_limit(firing):
    [fired] = [one for one in firing["busy agent"] if one.name == "SidelightOverheadCpu"]
    assert fired.labels["namespace"] == "agents"


def test_no_alert_fires_when_all_is_well(firing):
    assert firing["well"] == []


def test_every_alert_is_told_apart_by_how_bad_it_is():
    assert {rule["labels"]["severity"] for rule in rules()} == {"info", "warning", "critical"}


def test_every_alert_points_to_a_section_that_is_there():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    titles = {
        line.lstrip("# ").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("#")
    }
    for rule in rules():
        path, _, section = rule["annotations"]["runbook_url"].partition("#")
        assert path == "docs/operations.md"
        assert section in titles


def test_no_two_panels_of_the_dashboard_lie_on_each_other():
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
