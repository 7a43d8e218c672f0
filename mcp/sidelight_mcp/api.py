"""What the tools need of the collector's API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ApiClient(Protocol):
    """Sends requests to `/api/v1` with the permissions of whoever uses the tools.

    Both methods return the JSON response and raise SidelightError. `url` is the address of the UI, without a
    slash at its end.
    """

    @property
    def url(self) -> str: ...

    async def get(self, path: str, parameters: Mapping[str, str]) -> Any: ...

    async def post(self, path: str, body: Mapping[str, object]) -> Any: ...
