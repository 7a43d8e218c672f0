"""OTLP requests, made with the messages of opentelemetry-proto."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

MS = 1_000_000
SECOND_NS = 10**9
RESOURCE = {
    "service.name": "shop.checkout",
    "service.version": "7",
    "k8s.namespace.name": "shop",
    "k8s.pod.name": "shop-1",
    "deployment.environment.name": "live",
    "process.pid": 42,
    "telemetry.sdk.language": "python",
}


class Request:
    """A request that grows by profiles; `message` is the whole of it."""

    def __init__(self, resource: Mapping[str, str | int] = RESOURCE) -> None:
        self.message = ExportProfilesServiceRequest()
        self.dictionary = self.message.dictionary
        self.dictionary.string_table.append("")
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(self.dictionary, f"{table}_table").add()
        resource_profiles = self.message.resource_profiles.add()
        for name, value in resource.items():
            attribute = resource_profiles.resource.attributes.add(key=name)
            setattr(attribute.value, "string_value" if isinstance(value, str) else "int_value", value)
        self.scope = resource_profiles.scope_profiles.add()
        self.scope.scope.name, self.scope.scope.version = "spy", "1.2"

    def text(self, text: str) -> int:
        table = self.dictionary.string_table
        if text not in list(table):
            table.append(text)
        return list(table).index(text)

    def stack(self, stack: str) -> int:
        """The index of the stack `f;g`, whose functions are all in a.py at the line of their place."""
        locations = []
        for line, name in enumerate(stack.split(";"), 1):
            function = self.dictionary.function_table.add(
                name_strindex=self.text(name), filename_strindex=self.text("a.py")
            )
            assert function
            location = self.dictionary.location_table.add()
            location.lines.add(function_index=len(self.dictionary.function_table) - 1, line=line)
            locations.append(len(self.dictionary.location_table) - 1)
        self.dictionary.stack_table.add(location_indices=reversed(locations))
        return len(self.dictionary.stack_table) - 1

    def attribute(self, name: str, value: str | int) -> int:
        attribute = self.dictionary.attribute_table.add(key_strindex=self.text(name))
        setattr(attribute.value, "string_value" if isinstance(value, str) else "int_value", value)
        return len(self.dictionary.attribute_table) - 1

    def profile(
        self,
        kind: tuple[str, str] = ("samples", "count"),
        period_type: tuple[str, str] = ("cpu", "nanoseconds"),
        seconds_ago: int = 20,
    ) -> Any:
        profile = self.scope.profiles.add(
            time_unix_nano=time.time_ns() - seconds_ago * SECOND_NS,
            duration_nano=10 * SECOND_NS,
            period=10 * MS,
            profile_id=b"0123456789abcdef",
        )
        profile.sample_type.type_strindex, profile.sample_type.unit_strindex = map(self.text, kind)
        profile.period_type.type_strindex, profile.period_type.unit_strindex = map(self.text, period_type)
        return profile

    def sample(
        self, profile: Any, stack: str, values: Sequence[int] = (), timestamps: int = 0, **labels: str | int
    ) -> None:
        attributes = [self.attribute(name.replace("_", "."), value) for name, value in labels.items()]
        profile.samples.add(
            stack_index=self.stack(stack) if stack else 0,
            values=values,
            attribute_indices=attributes,
            timestamps_unix_nano=range(1, timestamps + 1),
        )
