"""The handlers of queries across services."""

from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.answers.fleet_functions import query_fleet_functions
from sidelight_collector.answers.sidecar_health import query_sidecar_health
from sidelight_collector.answers.top_and_depth import CostOrder
from sidelight_collector.http.api.api_handler import ApiContext, ApiHandler

DEFAULT_FUNCTIONS: Final = 100


class FleetApi(ApiHandler):
    """Answers for all services together; `core_hour_price` is only reported."""

    def __init__(self, context: ApiContext, core_hour_price: float) -> None:
        super().__init__(context)
        self._core_hour_price = core_hour_price

    async def functions(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/functions")
        query = partial(
            query_fleet_functions,
            kind=parameters.parse_profile_type(),
            search=parameters.get_text("search"),
            by=CostOrder(parameters.parse_choice("by", [by.value for by in CostOrder])),
            limit=parameters.parse_limit(DEFAULT_FUNCTIONS),
            core_hour_price=self._core_hour_price,
        )
        return await self.respond(request, lambda: partial(query, query=parameters.parse_window_query()))

    async def sidecars(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/sidecars")
        max_rows = parameters.parse_limit(self._limits.max_rows)
        return await self.respond(
            request,
            lambda: partial(query_sidecar_health, query=parameters.parse_window_query(), max_rows=max_rows),
        )
