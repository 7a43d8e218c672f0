"""What LimitRanges and ResourceQuotas refuse of a container."""

from decimal import Decimal
from typing import Any

import pytest

from sidelight_injector.admission.limits import find_violation, parse_quantity

SIDECAR = {"resources": {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}}


def limit_range(**item: Any) -> dict[str, Any]:
    return {"metadata": {"name": "range"}, "spec": {"limits": [{"type": "Container", **item}]}}


def quota(*names: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "quota"}, "spec": {"hard": dict.fromkeys(names, "1"), **spec}}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("20m", "0.02"), ("0.5", "0.5"), (2, "2"), ("1e3", "1000"), ("2E", "2e18"), ("5k", "5000")),
        *(("96Mi", 96 << 20), ("1Gi", 1 << 30), ("100n", "1e-7"), ("+1", 1), ("-1", -1)),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(text, number):
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1.2.3", "1Zi", "1e99999999999999999999"])
def test_what_is_no_quantity_is_none(text):
    assert parse_quantity(text) is None


@pytest.mark.parametrize(
    ("ranges", "quotas", "told"),
    [
        ([], [], ""),
        ([limit_range(min={"cpu": "20m", "memory": "96Mi"}, max={"memory": "256Mi"})], [], ""),
        ([limit_range(min={"cpu": "21m"})], [], "less than 21m of cpu in a container's requests"),
        ([limit_range(max={"memory": "255Mi"})], [], "more than 255Mi of memory"),
        ([limit_range(max={"cpu": "1"}, default={"cpu": "1"})], [], ""),
        ([limit_range(max={"cpu": "1"})], [], "more than 1 of cpu"),
        ([limit_range(maxLimitRequestRatio={"memory": "2"})], [], "more than 2 times the request of memory"),
        ([limit_range(maxLimitRequestRatio={"memory": "3"})], [], ""),
        ([{"metadata": {"name": "p"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}], [], ""),
        ([], [quota("requests.cpu", "requests.memory", "limits.memory", "pods")], ""),
        ([], [quota("limits.cpu")], "without limits.cpu"),
        ([limit_range(default={"cpu": "100m"})], [quota("limits.cpu")], ""),
        ([], [quota("limits.cpu", scopes=["BestEffort"])], ""),
    ],
)
def test_each_bound_holds_at_its_edge(ranges, quotas, told):
    found = find_violation(SIDECAR, ranges, quotas)
    assert told in found
    assert bool(told) == bool(found)
