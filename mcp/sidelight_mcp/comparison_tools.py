"""Tools that compare versions and list deploys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from mcp.server.mcpserver import Context
from pydantic import Field

from sidelight_mcp.answer_text import (
    describe_side,
    format_change,
    format_relative,
    format_share,
    name_unit,
    render_table,
)
from sidelight_mcp.selection import Kind, Namespace, Service, build_selector
from sidelight_mcp.tool_context import ToolApi
from sidelight_model.counts import ProfileType
from sidelight_model.selectors import Matcher, Op
from sidelight_model.terminal_width import escape_unprintable

CHANGED: Final = ("increased", "decreased", "new", "removed")
_DELTA_UNITS: Final = {"per_request": ("ms/request", 1000.0), "composition": ("pp of the profile", 100.0)}


class ComparisonTools:
    """Each method is a tool; its docstring is what an agent reads."""

    def __init__(self, api: ToolApi) -> None:
        self._api = api

    async def compare_versions(
        self,
        context: Context,
        service: Service,
        baseline: Annotated[
            str, Field(description="Earlier version. Empty: the one before the newest.")
        ] = "",
        comparison: Annotated[str, Field(description="Later version. Empty: the newest.")] = "",
        namespace: Namespace = "",
        profile_type: Kind = "cpu",
        start: Annotated[
            str,
            Field(description="Start of the range, such as now-6h. Empty: the best for the two versions."),
        ] = "",
        until: Annotated[
            str, Field(description="End of the range. Empty: the best for the two versions.")
        ] = "",
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of functions.")] = 15,
    ) -> str:
        """Say what got slower or faster between two versions, and where it starts.

        Only changes with a false-discovery rate below 5 % are named. The answer says when load may explain
        the change of the total.
        """
        parameters: dict[str, object] = {
            "query": build_selector(service, namespace),
            "type": profile_type,
            "from": start,
            "until": until,
            "baseline": _select_version(baseline),
            "comparison": _select_version(comparison),
            "limit": limit,
        }
        answer = await self._api.get(context, "verdict", parameters)
        verdict, sides = answer["verdict"], answer["sides"]
        lines = [
            escape_unprintable(verdict["summary"]),
            f"Compared by {verdict['basis'].replace('_', ' ')}: {verdict['basis_reason']}",
        ]
        if verdict["basis"] != "composition":
            lines.append(f"Total: {_format_total(verdict, profile_type)}")
        lines += ["", *(f"{letter}: {describe_side(side)}" for letter, side in zip("AB", sides, strict=True))]
        lines += _describe_warnings(verdict["checks"])
        lines += _describe_culprits(verdict, profile_type, limit) or _describe_functions(verdict)
        versions = {"baseline": baseline, "comparison": comparison}
        sides_query = urlencode({name: f"version:{value}" for name, value in versions.items() if value})
        path = f"/s/{_quote(service)}/compare" + (f"?{sides_query}" if sides_query else "")
        return "\n".join([*lines, "", f"Page: {self._api.build_link(context, path)}"])

    async def list_deploys(
        self,
        context: Context,
        service: Annotated[str, Field(description="Name of a service. Empty: all services.")] = "",
        namespace: Namespace = "",
        limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of deploys.")] = 10,
    ) -> str:
        """List the newest deploys and their evaluation: pass, regressed, inconclusive."""
        answer = await self._api.get(
            context, "deploys", {"service": service, "namespace": namespace, "limit": limit}
        )
        if not answer["deploys"]:
            return "No deploy is known. The collector sees one when a service's pods run a new version."
        lines = []
        for deploy in answer["deploys"]:
            name = "/".join(filter(None, (deploy["namespace"], deploy["service"])))
            lines.append(
                escape_unprintable(
                    f"{deploy['started']}  {name}  {deploy['previous'] or '?'} → {deploy['version']}  "
                    f"{deploy['state'].replace('_', ' ')}"
                )
            )
            if deploy["summary"]:
                lines.append(f"  {escape_unprintable(deploy['summary'])}")
            lines.append(f"  {self._api.build_link(context, deploy['links']['view'])}")
        return "\n".join(lines)


def _select_version(version: str) -> str:
    return str(Matcher("version", Op.EQUAL, version)) if version else ""


def _quote(text: str) -> str:
    return urlencode({"": text})[1:].replace("+", "%20")


def _format_total(verdict: Mapping[str, Any], profile_type: str) -> str:
    rate = verdict["rate"]
    if verdict["basis"] == "per_request":
        both = f"{1000 * rate['baseline']:.3g} → {1000 * rate['comparison']:.3g} ms/request"
        return f"{both}, {format_relative(rate)}"
    return format_change(rate, profile_type)


def _describe_warnings(checks: list[Mapping[str, Any]]) -> list[str]:
    warnings = [
        escape_unprintable(f"Warning: {check['name']}: {check['text']}. {check['hint'] or ''}".strip())
        for check in checks
        if check["severity"] not in ("ok", "info")
    ]
    return ["", *warnings] if warnings else []


def _describe_culprits(verdict: Mapping[str, Any], profile_type: str, limit: int) -> list[str]:
    culprits = verdict.get("culprits")
    if not culprits or not culprits["rows"]:
        return []
    unit, scale = _DELTA_UNITS.get(
        verdict["basis"], (name_unit(profile_type), 1000.0 if ProfileType(profile_type).is_cpu_time else 1.0)
    )
    rows = [
        [
            f"{scale * row['delta']:+.3g}",
            "new" if row["relative"] is None else f"{100 * row['relative']:+.0f} %",
            format_share(row["share"]),
            "<.001" if row["q"] < 0.001 else f"{row['q']:.3f}",
            " > ".join(
                [f"{row['function']} ({row['file']})" if row["file"] else row["function"], *row["folded"]]
            ),
        ]
        for row in culprits["rows"][:limit]
    ]
    return [
        "",
        "Where the changes start (`a > b`: the time is spent in b, called by a):",
        *render_table([unit, "change", "of all change", "q", "function (file)"], rows),
    ]


def _describe_functions(verdict: Mapping[str, Any]) -> list[str]:
    table = verdict["functions"]
    rows = []
    for at, (function, file) in enumerate(zip(table["function"], table["file"], strict=True)):
        directions = [table[order]["direction"][at] for order in ("self", "total")]
        if not any(direction in CHANGED for direction in directions):
            continue
        cells = [_format_relative_cell(table[order], at) for order in ("self", "total")]
        rows.append([*cells, f"{function} ({file})" if file else function])
    if not rows:
        return ["", "No single function changed by enough to tell from noise."]
    return ["", "Functions that changed:", *render_table(["self", "total", "function (file)"], rows)]


def _format_relative_cell(columns: Mapping[str, Any], at: int) -> str:
    direction, relative = columns["direction"][at], columns["relative"][at]
    if direction not in CHANGED:
        return "-"
    return direction if relative is None else f"{100 * relative:+.0f} %"
