"""The read API under /api/v1, as openapi.json describes it; sending windows is ingest's.

routes        one handler for each path: parameters in, one question to the engine, one answer out
parameters    query parameters read and checked, unknown ones refused
answers       finished answers kept, and equal questions worked on once
reply         answers as bytes, made and compressed outside the event loop
exports       how exports are sent: types, headers, policies
document      openapi.json
"""

from sidelight_collector.http.api.routes import routes

__all__ = ["routes"]
