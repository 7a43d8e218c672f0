"""What functions cost across services, such as the cores of `json.dumps`."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import numpy as np

from sidelight_collector.answers.top_and_depth import CostOrder, TopRows
from sidelight_collector.answers.usage import WindowUsage, summarize_usage
from sidelight_collector.arrow_ops import combine_chunks, to_strings
from sidelight_collector.query.call_tree import F64, I32, Flags, PooledStacks, pool_stacks
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.engine.stack_text import weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.stack_filter import NO_FILTER, apply_filter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape_frame

SERVICES_PER_FUNCTION: Final = 20
"""Services that a function names; the others are only counted."""
_DIGITS: Final = 6


class FunctionServices(TypedDict):
    """The costliest services of one function, in columns."""

    service: list[str]
    self_seconds: list[float]
    total_seconds: list[float]
    cores: list[float | None]


class FleetColumns(TopRows):
    """Functions in columns.

    Seconds are of the profile type, summed over all services. `cores` has the mean cores of the sort order,
    threads for wall time. `services_total` counts the services that have the function.
    """

    self_seconds: list[float]
    total_seconds: list[float]
    cores: list[float | None]
    services_total: list[int]
    services: list[FunctionServices]


# `from` is a keyword, so the class syntax cannot declare it.
FleetFunctions = TypedDict(
    "FleetFunctions",
    {
        "type": str,
        "by": str,
        "search": str,
        "rows": FleetColumns,
        "functions_total": int,
        "services_total": int,
        "seconds": float,
        "cores": float | None,
        "core_hour_price": float | None,
        "from": float,
        "until": float,
        "basis": DataBasis,
    },
)


def query_fleet_functions(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    search: str,
    by: CostOrder,
    limit: int,
    core_hour_price: float = 0.0,
) -> FleetFunctions:
    """Find the `limit` costliest functions that match `search` in all services.

    `search` is text that a frame `function (file)` or its dotted name `module.function` contains, in any case
    of letters; empty text matches all. A total counts a stack once, however often the function recurs in it.
    """
    windows = select_windows(context, query)
    weights = apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), NO_FILTER)
    pooled = pool_stacks(context, [(windows, weights)])
    usages = summarize_usage(windows, kind, "service", with_concurrency=True)
    usage_of = {usage.key[0]: usage for usage in usages}
    # The dictionary may have services without samples.
    services = to_strings(weights.service.dictionary)

    names = pooled.builder.frame_names()
    frames = [Frame.parse(unescape_frame(name)) for name in names]
    matches = np.fromiter((_matches(frame, search.casefold()) for frame in frames), bool, len(frames))
    cost = _select_table(by, _sum_seconds(pooled, matches, by_service=False))[:, 0]
    matching = np.flatnonzero(matches).tolist()
    costs = {number: float(cost[row]) for row, number in enumerate(matching) if cost[row] > 0}
    costliest = sorted(costs, key=lambda number: (-costs[number], names[number]))[:limit]
    selected = np.zeros(len(names), bool)
    selected[costliest] = True
    own, total = _sum_seconds(pooled, selected, by_service=True)
    rows = (np.cumsum(selected) - 1)[costliest].tolist()
    costs_by_service = [_describe_services(services, usage_of, by, own[row], total[row]) for row in rows]
    return {
        "type": kind.value,
        "by": by.value,
        "search": search,
        "rows": {
            "function": [frames[number].function for number in costliest],
            "file": [frames[number].file for number in costliest],
            "self_seconds": [_round(own[row].sum()) for row in rows],
            "total_seconds": [_round(total[row].sum()) for row in rows],
            "cores": [_sum_known(by_service["cores"]) for by_service in costs_by_service],
            "services_total": [len(by_service["service"]) for by_service in costs_by_service],
            "services": [_cut_columns(by_service) for by_service in costs_by_service],
        },
        "functions_total": len(costs),
        "services_total": len(usages),
        "seconds": _round(sum(usage.sampled_ns for usage in usages) / SECOND_NS),
        "cores": _sum_known([usage.mean_cores for usage in usages]),
        "core_hour_price": core_hour_price or None,
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], kind, context.unreadable_count),
    }


def _describe_services(
    services: Sequence[str], usage_of: Mapping[str, WindowUsage], by: CostOrder, own: F64, total: F64
) -> FunctionServices:
    """Describe the services that have a function, from its seconds by service."""
    cost = _select_table(by, (own, total))
    numbers = [number for number in np.argsort(-cost, kind="stable").tolist() if cost[number] > 0]
    cores = [usage_of[services[number]].compute_cores_of(cost[number] * SECOND_NS) for number in numbers]
    return {
        "service": [services[number] for number in numbers],
        "self_seconds": [_round(own[number]) for number in numbers],
        "total_seconds": [_round(total[number]) for number in numbers],
        "cores": [None if number is None else _round(number) for number in cores],
    }


def _cut_columns(costs: FunctionServices) -> FunctionServices:
    return {
        "service": costs["service"][:SERVICES_PER_FUNCTION],
        "self_seconds": costs["self_seconds"][:SERVICES_PER_FUNCTION],
        "total_seconds": costs["total_seconds"][:SERVICES_PER_FUNCTION],
        "cores": costs["cores"][:SERVICES_PER_FUNCTION],
    }


def _select_table(by: CostOrder, tables: tuple[F64, F64]) -> F64:
    return tables[0] if by is CostOrder.SELF else tables[1]


def _matches(frame: Frame, search: str) -> bool:
    """Whether the frame or its dotted name contains the text, which is in lower case."""
    return search in f"{frame.function} ({frame.file})".casefold() or search in name_dotted(frame).casefold()


def name_dotted(frame: Frame) -> str:
    """Turn `dumps (json/__init__.py)` into `json.dumps`."""
    module = frame.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"{module}.{frame.function}"


def _sum_seconds(pooled: PooledStacks, selected: Flags, *, by_service: bool) -> tuple[F64, F64]:
    """Sum self and total seconds of the selected frames.

    The tables have a row for each frame, and a column for each service or one for all.
    """
    table_rows: I32 = np.where(selected, np.cumsum(selected) - 1, -1).astype(np.int32)
    ((stack_ids, weights),) = pooled.sides
    seconds = (
        weights.samples.to_numpy(zero_copy_only=False)
        * weights.period_ns.to_numpy(zero_copy_only=False).astype(float)
        / SECOND_NS
    )
    cells: I32 = combine_chunks(weights.service.indices).to_numpy(zero_copy_only=False).astype(np.int32)
    cells = cells if by_service else np.zeros_like(cells)
    count = len(weights.service.dictionary) if by_service else 1
    stacks: I32 = combine_chunks(stack_ids).to_numpy(zero_copy_only=False).astype(np.int32)
    if not selected.any() or not len(stacks):
        return np.zeros((int(selected.sum()), count)), np.zeros((int(selected.sum()), count))
    return pooled.builder.sum_by_frame((stacks, cells, seconds), table_rows, count)


def _sum_known(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return _round(sum(known)) if known else None


def _round(number: float) -> float:
    return round(float(number), _DIGITS)
