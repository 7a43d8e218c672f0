"""The endpoints of each service by cost, as columns or as text for Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypedDict

import pyarrow as pa

from sidelight_collector.answers.usage import summarize_usage
from sidelight_collector.arrow_ops import to_ints, to_strings
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.engine.stack_text import resolve_stacks, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.stack_filter import EndpointPool, StackFilter, apply_filter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.endpoints.endpoint_search import NO_ENDPOINT
from sidelight_model.frames import OTHER

METRICS: Final = {
    "sidelight_endpoint_cores": "Cores that all pods used for an endpoint, on average over the range.",
    "sidelight_endpoint_share": "Share of an endpoint in the profile of its service, from 0 to 1.",
}
"""The metrics of the text for Prometheus; the last part of a name is its column."""

# `from` is a keyword, which the class syntax does not allow as a field.
_Range = TypedDict("_Range", {"from": float, "until": float})


class EndpointCosts(_Range):
    """Endpoints as columns, the costliest service and endpoint first.

    `share` is the share of the service's time. `cores` is the mean number of cores that all pods used, or of
    threads for wall time; None if it is unknown. Endpoints beyond the limit are added up in `(other)`, and
    stacks without an endpoint in `(no endpoint)`. `endpoints_total` counts endpoints without the limit,
    `omitted` the services beyond the limit of rows.
    """

    type: str
    service: list[str]
    endpoint: list[str]
    framework: list[str]
    samples: list[int]
    seconds: list[float]
    share: list[float]
    cores: list[float | None]
    endpoints_total: int
    omitted: int
    basis: DataBasis


@dataclass(slots=True)
class _EndpointCost:
    """The samples and time of an endpoint, and the time by framework."""

    name: str
    samples: int = 0
    ns: int = 0
    framework_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, samples: int, ns: int, framework: str) -> None:
        self.samples += samples
        self.ns += ns
        self.framework_ns[framework] += ns

    @property
    def framework(self) -> str:
        """The framework with the most time."""
        return max(self.framework_ns, key=lambda name: (self.framework_ns[name], name), default="")


def query_endpoints(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    stack_filter: StackFilter,
    limit: int,
    max_rows: int,
) -> EndpointCosts:
    """Find the `limit` costliest endpoints of each service, in about `max_rows` rows."""
    windows = select_windows(context, query)
    weights = apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
    pool = EndpointPool()
    stack_ids = resolve_stacks(context, windows, weights.service, weights.hashes, pool)
    found = pool.endpoints().take(stack_ids)
    costs: dict[str, dict[str, _EndpointCost]] = defaultdict(dict)
    rows = pa.table(
        {
            "service": weights.service,
            "endpoint": found["endpoint"],
            "framework": found["framework"],
            "period_ns": weights.period_ns,
            "samples": weights.samples,
        }
    )
    keys = ["service", "endpoint", "framework", "period_ns"]
    sums = rows.group_by(keys, use_threads=False).aggregate([("samples", "sum")])
    names = zip(*(to_strings(sums[name]) for name in keys[:3]), strict=True)
    counts = zip(to_ints(sums["period_ns"]), to_ints(sums["samples_sum"]), strict=True)
    for (service, endpoint, framework), (period_ns, samples) in zip(names, counts, strict=True):
        cost = costs[service].setdefault(endpoint, _EndpointCost(endpoint))
        cost.add(samples, samples * period_ns, framework)
    usages = summarize_usage(windows, kind, "service", with_concurrency=True)
    shown, omitted = _select_rows(costs, limit, max_rows)
    usage_of = {usage.key[0]: usage for usage in usages}
    service_ns = {service: sum(cost.ns for cost in own.values()) for service, own in costs.items()}
    return {
        "type": kind.value,
        "service": [service for service, _ in shown],
        "endpoint": [cost.name for _, cost in shown],
        "framework": [cost.framework for _, cost in shown],
        "samples": [cost.samples for _, cost in shown],
        "seconds": [cost.ns / SECOND_NS for _, cost in shown],
        "share": [cost.ns / max(service_ns[service], 1) for service, cost in shown],
        "cores": [usage_of[service].compute_cores_of(cost.ns) for service, cost in shown],
        "endpoints_total": sum(len(own.keys() - {NO_ENDPOINT}) for own in costs.values()),
        "omitted": omitted,
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], kind, context.unreadable_count),
    }


def _select_rows(
    costs: Mapping[str, Mapping[str, _EndpointCost]], limit: int, max_rows: int
) -> tuple[list[tuple[str, _EndpointCost]], int]:
    """Return rows of (service, endpoint), and the number of services without a row."""
    rows: list[tuple[str, _EndpointCost]] = []
    order = sorted(costs, key=lambda service: (-sum(cost.ns for cost in costs[service].values()), service))
    for at, service in enumerate(order):
        if at and len(rows) + min(limit, len(costs[service])) > max_rows:
            return rows, len(order) - at
        rows.extend((service, cost) for cost in _rank_endpoints(costs[service], limit))
    return rows, 0


def _rank_endpoints(costs: Mapping[str, _EndpointCost], limit: int) -> Iterator[_EndpointCost]:
    ranked = sorted(
        (cost for cost in costs.values() if cost.name != NO_ENDPOINT), key=lambda cost: (-cost.ns, cost.name)
    )
    yield from ranked[:limit]
    if ranked[limit:]:
        other = _EndpointCost(OTHER)
        for cost in ranked[limit:]:
            other.add(cost.samples, cost.ns, "")
        yield other
    if NO_ENDPOINT in costs:
        yield costs[NO_ENDPOINT]


def format_prometheus(costs: EndpointCosts) -> str:
    """Write endpoints in the text format of Prometheus, as gauges of the range."""
    lines: list[str] = []
    labels = list(zip(costs["service"], costs["endpoint"], costs["framework"], strict=True))
    columns: Mapping[str, list[float | None]] = {"cores": costs["cores"], "share": [*costs["share"]]}
    for name, text in METRICS.items():
        column = name.rpartition("_")[2]
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        for (service, endpoint, framework), value in zip(labels, columns[column], strict=True):
            if value is not None:
                pairs = {
                    "service": service,
                    "endpoint": endpoint,
                    "framework": framework,
                    "type": costs["type"],
                }
                own = ",".join(f'{key}="{escape_label(text)}"' for key, text in pairs.items())
                lines.append(f"{name}{{{own}}} {value:.9g}")
    return "".join(f"{line}\n" for line in lines)


def escape_label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
