"""A program that is busy and sends its profile with pyroscope-io: `ADDRESS TOKEN KIND`."""

from __future__ import annotations

import sys
import time
from typing import Any

import pyroscope  # type: ignore[import-untyped,import-not-found,unused-ignore]

address, token, kind = sys.argv[1:]
options: dict[str, Any] = {}
if kind == "stack":
    options["cpu_implementation"] = pyroscope.ProfilerImplementation.Stack
if kind == "memory":
    options["mem_enabled"] = True


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


pyroscope.configure(
    application_name="shop.checkout",
    server_address=address,
    basic_auth_username="shop",
    basic_auth_password=token,
    tags={"version": "7", "region": "eu"},
    upload_interval=1,
    **options,
)
kept = []
end = time.process_time() + 1.5
while time.process_time() < end:
    with pyroscope.tag_wrapper({"endpoint": "/cart"}):
        fib(14)
    kept.append(bytearray(20_000))
    del kept[:-200]
pyroscope.shutdown()
