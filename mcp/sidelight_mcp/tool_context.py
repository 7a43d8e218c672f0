"""Gives a tool the client of the collector's API, with errors as agents read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from sidelight_mcp.api import ApiClient
from sidelight_model.errors import SidelightError

API_KEY: Final = "sidelight.api"
"""Key of the client in the scope of an HTTP request."""


class ToolApi:
    """The API client of a call of a tool; raises ToolError with what to do next.

    A call over HTTP uses the client in the scope of its request, so it has the permissions of its caller.
    Other calls use `client`.
    """

    def __init__(self, client: ApiClient | None) -> None:
        self._client = client

    async def get(self, context: Context, path: str, parameters: Mapping[str, object]) -> Any:
        """Send the parameters that are not empty."""
        texts = {name: str(value) for name, value in parameters.items() if value != ""}
        with _explain_errors():
            return await self._find(context).get(path, texts)

    async def post(self, context: Context, path: str, body: Mapping[str, object]) -> Any:
        with _explain_errors():
            return await self._find(context).post(path, body)

    def build_link(self, context: Context, path: str) -> str:
        """Build the address of a page of the UI."""
        return f"{self._find(context).url}{path}"

    def _find(self, context: Context) -> ApiClient:
        if self._client is not None:
            return self._client
        request: Any = context.request_context.request
        client: ApiClient = request.scope[API_KEY]
        return client


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except SidelightError as error:
        raise ToolError(f"{error.reason.value}: {error.message}. {error.hint}".strip()) from error
