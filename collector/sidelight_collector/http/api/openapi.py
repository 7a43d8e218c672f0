"""The OpenAPI 3.1 document, which tests compare with the routes."""

from importlib.resources import files


def read_document() -> bytes:
    """Read openapi.json as it is served."""
    return files("sidelight_collector.http.api").joinpath("openapi.json").read_bytes()
