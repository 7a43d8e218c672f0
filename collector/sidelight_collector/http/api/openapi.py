"""The OpenAPI 3.1 document that the routes are held against."""

from importlib.resources import files


def read_document() -> bytes:
    """openapi.json as it is served."""
    return files("sidelight_collector.http.api").joinpath("openapi.json").read_bytes()
