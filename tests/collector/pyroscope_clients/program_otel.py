"""A program with traced requests that sends its profile with pyroscope-otel: `ADDRESS TOKEN`."""

from __future__ import annotations

import sys
import time
from typing import Any

import pyroscope  # type: ignore[import-untyped,import-not-found,unused-ignore]
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pyroscope.otel import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
    PyroscopeSpanProcessor,
)

address, token = sys.argv[1:]


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


pyroscope.configure(
    application_name="shop.otel",
    server_address=address,
    basic_auth_username="shop",
    basic_auth_password=token,
    tags={"version": "7"},
    upload_interval=1,
)
provider: Any = TracerProvider()
provider.add_span_processor(PyroscopeSpanProcessor())
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("shop")
end = time.process_time() + 2
while time.process_time() < end:
    with tracer.start_as_current_span("GET /cart"):
        fib(14)
pyroscope.shutdown()
