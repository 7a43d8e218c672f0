"""The parameters that select profiles, and the query they stand for."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sidelight_model.selectors import Matcher, Op, Selector

ProfileType: TypeAlias = Literal["cpu", "wall", "gil", "gil_wait", "off_cpu", "tasks"]

Service: TypeAlias = Annotated[str, Field(description="Name of the service, as list_services shows it.")]
Namespace: TypeAlias = Annotated[str, Field(description="Kubernetes namespace. Empty: any namespace.")]
Version: TypeAlias = Annotated[str, Field(description="Version of the service. Empty: all versions.")]
Kind: TypeAlias = Annotated[
    ProfileType,
    Field(
        description="cpu: time on a CPU. wall: all time of threads, also waiting. gil: time with the GIL. "
        "gil_wait: time waiting for the GIL. off_cpu: time waiting for anything but a CPU or the GIL. "
        "tasks: time of asyncio tasks by their await stack, running or waiting."
    ),
]
Start: TypeAlias = Annotated[
    str,
    Field(description="Start of the time range: now-1h, now-7d, or RFC 3339 such as 2026-11-21T09:00:00Z."),
]
Until: TypeAlias = Annotated[str, Field(description="End of the time range, in the same forms.")]
Function: TypeAlias = Annotated[
    str,
    Field(description='Function as the tools print it: "name (file)", or the name alone for any file.'),
]

DEFAULT_START: Final = "now-1h"
DEFAULT_UNTIL: Final = "now"


def build_selector(service: str, namespace: str = "", version: str = "") -> str:
    """Build the selector of a service's windows; empty arguments select everything."""
    values = {"service": service, "namespace": namespace, "version": version}
    return str(Selector(tuple(Matcher(name, Op.EQUAL, value) for name, value in values.items() if value)))
