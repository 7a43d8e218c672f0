"""A program that is busy and sends its profile with pyroscope-io 0.8.16, to `/ingest`: `ADDRESS TOKEN`."""

from __future__ import annotations

import sys
import time

import pyroscope  # type: ignore[import-untyped,import-not-found,unused-ignore]

address, token = sys.argv[1:]


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


pyroscope.configure(
    application_name="shop.old",
    server_address=address,
    basic_auth_username="shop",
    basic_auth_password=token,
    tags={"version": "7"},
)
# It sends every ten seconds, and what is left at its end.
end = time.process_time() + 2
while time.process_time() < end:
    fib(14)
time.sleep(11)
pyroscope.shutdown()
