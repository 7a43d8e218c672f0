"""Tools that sample pods now."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from pydantic import Field

from sidelight_mcp.selection import Namespace, Service, Version, build_selector
from sidelight_mcp.tool_context import ToolApi
from sidelight_model.terminal_width import escape_unprintable


class CaptureTools:
    """Each method is a tool; its docstring is what an agent reads."""

    def __init__(self, api: ToolApi) -> None:
        self._api = api

    async def start_capture(
        self,
        context: Context,
        service: Service,
        seconds: Annotated[int, Field(ge=1, le=3600, description="How long to sample.")] = 60,
        pods: Annotated[int, Field(ge=1, le=100, description="How many pods to sample.")] = 1,
        rate: Annotated[int, Field(ge=1, le=1000, description="Samples per second and thread.")] = 100,
        namespace: Namespace = "",
        version: Version = "",
    ) -> str:
        """Sample a service's pods now, beside the continuous profile.

        Costs the pods some CPU time. Returns the id of the capture at once; get_capture shows its progress
        and its result.
        """
        selector = build_selector("", namespace, version)
        body = {"service": service, "query": selector, "pods": pods, "seconds": seconds, "rate": rate}
        capture = await self._api.post(context, "captures", body)
        return self._describe(context, capture)

    async def get_capture(
        self,
        context: Context,
        capture: Annotated[str, Field(pattern="^c_[0-9A-Za-z]+$", description="Id of a capture.")],
    ) -> str:
        """Show the progress of a capture, and its top functions once it has samples."""
        return self._describe(context, await self._api.get(context, f"captures/{capture}", {}))

    def _describe(self, context: Context, capture: Any) -> str:
        lines = [
            f"Capture {capture['id']} of {escape_unprintable(capture['service'])}: {capture['state']}, "
            f"{capture['elapsed_seconds']:.0f} of {capture['seconds']:g} s, "
            f"{capture['samples']:,} samples from {capture['pods']} of {capture['pods_requested']} pods."
        ]
        if capture["problem"]:
            lines.append(escape_unprintable(f"{capture['problem']}. {capture['hint']}"))
        for part in capture["parts"]:
            labels = part["labels"]
            text = f"{labels.get('pod', part['agent'])}: {part['state']}, {part['samples']:,} samples"
            if part["problem"]:
                text += f"; {part['problem']}. {part['hint']}"
            lines.append(escape_unprintable(text))
            whole = part["samples"] or 1
            for top in part["top_functions"]:
                share = 100 * top["self_samples"] / whole
                lines.append(f"  {share:5.1f} % self  {escape_unprintable(top['function'])}")
        lines.append(f"Page: {self._api.build_link(context, capture['links']['page'])}")
        return "\n".join(lines)
