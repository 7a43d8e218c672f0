"""Tools that read profiles: services, functions, call trees, callers and lines."""

from __future__ import annotations

from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context
from pydantic import Field

from sidelight_mcp.answer_text import (
    MICROSECONDS,
    describe_side,
    format_bare_rate,
    format_number,
    format_rate,
    format_share,
    format_time,
    name_unit,
    name_unit_in_words,
    render_table,
)
from sidelight_mcp.selection import (
    DEFAULT_START,
    DEFAULT_UNTIL,
    Function,
    Kind,
    Namespace,
    Service,
    Start,
    Until,
    Version,
    build_selector,
)
from sidelight_mcp.text_tree import build_callers, build_tree, is_function, iter_stacks, render_tree
from sidelight_mcp.tool_context import ToolApi
from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.terminal_width import escape_unprintable

Limit = Annotated[int, Field(ge=1, le=200, description="Maximum number of rows.")]
MinShare = Annotated[float, Field(ge=0, le=1, description="Leave out frames below this share of the tree.")]
MaxDepth = Annotated[int, Field(ge=1, le=100, description="Maximum number of levels of the printed tree.")]
MAX_CALLER_LEVELS: Final = 6
NO_DATA: Final = (
    "No samples match. Check the service with list_services, or take a longer time range, such as now-1d."
)


class ProfileTools:
    """Each method is a tool; its docstring is what an agent reads."""

    def __init__(self, api: ToolApi) -> None:
        self._api = api

    async def list_services(
        self,
        context: Context,
        namespace: Namespace = "",
        start: Start = DEFAULT_START,
        until: Until = DEFAULT_UNTIL,
        limit: Limit = 50,
    ) -> str:
        """List the services with their CPU use, pods and newest version. Begin here."""
        parameters = {
            "query": build_selector("", namespace),
            "type": "cpu",
            "limit": limit,
            **_select_time(start, until),
        }
        answer = await self._api.get(context, "overview", parameters)
        if not answer["service"]:
            return NO_DATA
        current = answer["current"]
        columns = ("service", "cores", "pods_now", "seconds", "pod_seconds")
        rows = [
            [
                format_number(cores),
                _format_pod_rate(seconds, pod_seconds, "cpu"),
                str(pods),
                version or "-",
                service,
            ]
            for service, cores, pods, seconds, pod_seconds, version in zip(
                *(answer[name] for name in columns), current["version"], strict=True
            )
        ]
        head = ["cores", "per pod", "pods now", "newest version", "service"]
        lines = [_describe_range(answer), "", *render_table(head, rows)]
        if answer["omitted"]:
            lines.append(f"{format_count(answer['omitted'], 'more service')}: raise limit.")
        return "\n".join(lines)

    async def top_functions(
        self,
        context: Context,
        service: Service,
        namespace: Namespace = "",
        version: Version = "",
        profile_type: Kind = "cpu",
        by: Annotated[
            str, Field(pattern="^(self|total)$", description="self: own code. total: with all callees.")
        ] = "self",
        start: Start = DEFAULT_START,
        until: Until = DEFAULT_UNTIL,
        limit: Limit = 20,
    ) -> str:
        """List the functions of a service that take the most time."""
        selected = _select(service, namespace, version, profile_type, start, until)
        answer = await self._api.get(context, "top", {**selected, "by": by, "limit": limit})
        (side,) = answer["sides"]
        if not side["samples"]:
            return NO_DATA
        whole = side["seconds"]
        rows = [
            [
                *(_format_micros_share(time, whole) for time in (own, total)),
                _format_side_rate(side, own if by == "self" else total, profile_type),
                _name_frame(function, file),
            ]
            for own, total, function, file in zip(
                side["self_us"],
                side["total_us"],
                answer["rows"]["function"],
                answer["rows"]["file"],
                strict=True,
            )
        ]
        rest = answer["functions_total"] - len(rows)
        return "\n".join(
            [
                _describe_whole(side, profile_type),
                "",
                *render_table(["self", "total", f"{by}, {name_unit(profile_type)}", "function (file)"], rows),
                *([f"{format_count(rest, 'more function')}."] if rest > 0 else []),
            ]
        )

    async def find_function(
        self,
        context: Context,
        search: Annotated[
            str, Field(description='Text of "function (file)" or module.function, such as json.dumps.')
        ] = "",
        namespace: Namespace = "",
        profile_type: Kind = "cpu",
        start: Start = DEFAULT_START,
        until: Until = DEFAULT_UNTIL,
        limit: Limit = 10,
    ) -> str:
        """Find functions in all services: how much they cost, and in which services.

        Without a search, the costliest functions of all services.
        """
        selected = _select("", namespace, "", profile_type, start, until)
        answer = await self._api.get(
            context, "functions", {**selected, "search": search, "by": "total", "limit": limit}
        )
        rows = answer["rows"]
        if not rows["function"]:
            return NO_DATA if not answer["services_total"] else f"No function matches {search!r}."
        unit = "cores" if ProfileType(profile_type).is_cpu_time else "threads"
        whole = answer["seconds"]
        lines = [
            f"{_name_time(profile_type)} of {format_count(answer['services_total'], 'service')}, "
            f"{format_time(answer['from'])} to {format_time(answer['until'])}. Shares are of all of it.",
        ]
        for at, function in enumerate(rows["function"]):
            services = rows["services"][at]
            lines += [
                "",
                escape_unprintable(
                    f"{_name_frame(function, rows['file'][at])}: "
                    f"{_format_known(rows['cores'][at])} {unit} in "
                    f"{format_count(rows['services_total'][at], 'service')}, "
                    f"{_format_share_of(rows['total_seconds'][at], whole)} of the total"
                ),
                *(
                    escape_unprintable(f"  {_format_known(cores)} {unit}  {service}")
                    for cores, service in list(zip(services["cores"], services["service"], strict=True))[:5]
                ),
            ]
        return "\n".join(lines)

    async def flame_graph(
        self,
        context: Context,
        service: Service,
        function: Function = "",
        namespace: Namespace = "",
        version: Version = "",
        profile_type: Kind = "cpu",
        start: Start = DEFAULT_START,
        until: Until = DEFAULT_UNTIL,
        min_share: MinShare = 0.02,
        max_depth: MaxDepth = 15,
    ) -> str:
        """Print a service's flame graph as an indented tree, whole or below one function.

        Below a function, calls from all places are added up. `a > b` means that a spends its time in b.
        """
        selected = _select(service, namespace, version, profile_type, start, until)
        answer = await self._api.get(context, "flamegraph", {**selected, "function": function})
        (side,) = answer["sides"]
        tree = build_tree(answer, function)
        if not tree.total_seconds:
            return _say_no_function(function) if function else NO_DATA
        if function:
            side = await self._read_whole(context, selected)
        whole = side["seconds"]
        lines = [_describe_whole(side, profile_type)]
        if function:
            lines.append(
                f"{escape_unprintable(tree.name)}: {_format_share_of(tree.total_seconds, whole)} of the "
                f"service's {_name_time(profile_type)}, {_format_share_of(tree.self_seconds, whole)} in its "
                "own code. Shares below are of the service."
            )
        tree_lines = render_tree(tree, whole, min_share=min_share, max_depth=max_depth)
        return "\n".join([*lines, "", *tree_lines])

    async def explain_function(
        self,
        context: Context,
        service: Service,
        function: Function,
        namespace: Namespace = "",
        version: Version = "",
        profile_type: Kind = "cpu",
        start: Start = DEFAULT_START,
        until: Until = DEFAULT_UNTIL,
    ) -> str:
        """Explain one function: its cost, callers, callees and expensive lines."""
        selected = _select(service, namespace, version, profile_type, start, until)
        answer = await self._api.get(context, "flamegraph", {**selected, "function": function})
        frames = _find_frames(answer, function)
        if not frames:
            return _say_no_function(function)
        frame = frames[0]
        side = await self._read_whole(context, selected)
        whole = side["seconds"]
        tree, callers = build_tree(answer, frame), build_callers(answer, frame)
        lines = [
            _describe_whole(side, profile_type),
            "",
            f"{escape_unprintable(frame)}: {_format_share_of(tree.total_seconds, whole)} of the service's "
            f"{_name_time(profile_type)} "
            f"({_format_pod_rate(tree.total_seconds, side['pod_seconds'], profile_type)}), "
            f"{_format_share_of(tree.self_seconds, whole)} in its own code.",
        ]
        if len(frames) > 1:
            others = ", ".join(escape_unprintable(other) for other in frames[1:6])
            lines.append(f"Other functions of this name: {others}.")
        caller_lines = render_tree(
            callers, whole, min_share=0.05, max_depth=MAX_CALLER_LEVELS, with_self=False
        )
        lines += ["", "Called by (`a > b`: a is called by b):", *caller_lines]
        lines += ["", "Calls:", *render_tree(tree, whole, min_share=0.05, max_depth=3)]
        lines += ["", *await self._describe_lines(context, selected, frame, profile_type)]
        return "\n".join(lines)

    async def _describe_lines(
        self, context: Context, selected: dict[str, object], frame: str, profile_type: str
    ) -> list[str]:
        name, _, file = frame.partition(" (")
        parameters = {**selected, "function": name, "limit": 10}
        # An empty file is a value of this parameter: a frame without one.
        answer = await self._api.get(context, "lines", {**parameters, "file": file.removesuffix(")")})
        (side,) = answer["sides"]
        unit = name_unit(profile_type)
        rows = sorted(
            zip(side["total_us"], side["self_us"], answer["line"], strict=True), key=lambda row: -row[0]
        )
        table = [
            [
                _format_side_rate(side, total, profile_type),
                _format_side_rate(side, own, profile_type),
                str(line),
            ]
            for total, own, line in rows
        ]
        return [
            "Lines, most expensive first:",
            *render_table([f"total, {unit}", f"self, {unit}", "line"], table),
        ]

    async def _read_whole(self, context: Context, selected: dict[str, object]) -> Any:
        """Return the side of all functions together."""
        answer = await self._api.get(context, "top", {**selected, "limit": 1})
        return answer["sides"][0]


def _select(
    service: str, namespace: str, version: str, profile_type: str, start: str, until: str
) -> dict[str, object]:
    selector = build_selector(service, namespace, version)
    return {"query": selector, "type": profile_type, **_select_time(start, until)}


def _select_time(start: str, until: str) -> dict[str, object]:
    return {"from": start, "until": until}


def _find_frames(answer: Any, function: str) -> list[str]:
    """Return the frames of a function, those with the most time first."""
    seconds: dict[str, float] = {}
    for stack, own in iter_stacks(answer):
        for frame in {frame for frame in stack if is_function(frame, function)}:
            seconds[frame] = seconds.get(frame, 0.0) + own
    return sorted(seconds, key=lambda frame: (-seconds[frame], frame))


def _describe_whole(side: Any, profile_type: str) -> str:
    rate = _format_pod_rate(side["seconds"], side["pod_seconds"], profile_type)
    text = f"{_name_time(profile_type)}: {rate}. Rates are in {name_unit_in_words(profile_type)}."
    if side["idle_share"] is not None and profile_type == "wall":
        text += f" {format_share(side['idle_share'])} of it is waiting."
    return f"{text}\nData: {describe_side(side)}"


def _describe_range(answer: Any) -> str:
    return f"CPU time from {format_time(answer['from'])} to {format_time(answer['until'])}."


def _name_time(profile_type: str) -> str:
    return {
        "cpu": "CPU time",
        "gil": "time with the GIL",
        "wall": "thread time",
        "gil_wait": "time waiting for the GIL",
        "off_cpu": "off-CPU time",
        "tasks": "time of asyncio tasks",
    }[profile_type]


def _format_known(number: float | None) -> str:
    return "-" if number is None else format_number(number)


def _name_frame(function: str, file: str) -> str:
    return f"{function} ({file})" if file else function


def _format_pod_rate(seconds: float, pod_seconds: float, kind: str) -> str:
    return format_rate(seconds / pod_seconds, kind) if pod_seconds else "-"


def _format_side_rate(side: Any, micros: float, kind: str) -> str:
    pod_seconds = side["pod_seconds"]
    return format_bare_rate(micros / MICROSECONDS / pod_seconds, kind) if pod_seconds else "-"


def _format_micros_share(micros: float, whole_seconds: float) -> str:
    return _format_share_of(micros / MICROSECONDS, whole_seconds)


def _format_share_of(seconds: float, whole_seconds: float) -> str:
    return format_share(seconds / whole_seconds) if whole_seconds else "-"


def _say_no_function(function: str) -> str:
    return (
        f"No sample has the function {escape_unprintable(function)!r}. Functions are named as top_functions "
        "prints them: name (file)."
    )
