"""A program that OpenTelemetry's SDK profiles: `program.py ENDPOINT SECONDS`."""

import os
import sys
import time

os.environ.update(
    OTEL_SERVICE_NAME="shop",
    OTEL_RESOURCE_ATTRIBUTES="service.version=7,k8s.namespace.name=shop,k8s.pod.name=shop-1",
    OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL="http/protobuf",
    OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=sys.argv[1],
    OTEL_PROFILING_ENABLED="true",
    OTEL_PROFILING_EXPORT_INTERVAL="1",
)
from opentelemetry.sdk.extension.profiling import Profiler


def fibonacci(number: int) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


profiler = Profiler()
profiler.start()
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    fibonacci(14)
profiler.stop()
