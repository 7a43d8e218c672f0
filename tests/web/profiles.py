"""Windows for the pages to show, written as text and sent the way a sidecar sends them."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterable
from dataclasses import replace

from ulid import ULID

from sidelight.stacks.folded import parse_folded
from sidelight.stacks.labels import Labels
from sidelight.stacks.window import Quality, Window, encode

WINDOW_SECONDS = 10
PERIOD_NS = 10_000_000

BEFORE = """\
main (app.py:9);handle (shop/views.py:40);query (shop/db.py:7) 60
main (app.py:9);handle (shop/views.py:40);render (jinja2/runtime.py:12) 20
main (app.py:9);handle (shop/views.py:44);legacy (shop/old.py:3) 30
main (app.py:9);select (selectors.py:468);[idle] 100
"""

AFTER = """\
main (app.py:9);handle (shop/views.py:41);query (shop/db.py:7) 60
main (app.py:9);handle (shop/views.py:41);render (jinja2/runtime.py:12);loop (jinja2/runtime.py:90) 60
main (app.py:9);handle (shop/views.py:41);cached (shop/cache.py:5) 40
main (app.py:9);select (selectors.py:468);[idle] 60
"""

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "semi%3Bcolon (a.py)",
    "\u202eright-to-left שלום (b.py)",
    "👩\u200d🔬🚀 (emoji.py)",
    "x" * 2000 + " (long.py)",
    "</script><script>alert(2)</script> (c.py)",
    "{{constructor}} $& %s (d.py)",
)


WELL = Quality(
    attempts=WINDOW_SECONDS * 10**9 // PERIOD_NS,
    mode="gil",
    sampler="sidelight 0.1.0",
    reader="own",
    python="3.11.7",
    stops=540,
    stopped_ns=37_800_000,
    longest_stop_ns=210_000,
)
"""A window in which all went well."""


def windows(
    service: str,
    version: str,
    stacks: str,
    *,
    pods: int = 2,
    count: int = 3,
    minutes_ago: float = 5,
    quality: Quality | None = None,
    **labels: str,
) -> Iterable[Window]:
    """`count` windows of each pod, one after the other, the first so many minutes ago; each watched alike."""
    start = time.time_ns() - int(minutes_ago * 60e9)
    counts = parse_folded(stacks)
    samples = sum(each.wall for each in counts.values())
    watched = replace(quality or WELL, samples=samples)
    for pod in range(pods):
        named = {"service": service, "pod": f"{service[:20]}-{version or 'none'}-{pod}", **labels}
        if version:
            named["version"] = version
        for turn in range(count):
            yield Window(
                id=str(ULID()),
                labels=Labels(named),
                start_ns=start + turn * WINDOW_SECONDS * 10**9,
                duration_ns=WINDOW_SECONDS * 10**9,
                period_ns=PERIOD_NS,
                counts=counts,
                quality=watched,
            )


def send(url: str, *batches: Iterable[Window]) -> None:
    """Send windows; returns when the collector has stored them."""
    body = encode([window for batch in batches for window in batch])
    request = urllib.request.Request(f"{url}/api/v1/windows", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def hostile_stacks() -> str:
    return "\n".join(f"main (app.py);{name} {10 * (at + 1)}" for at, name in enumerate(HOSTILE)) + "\n"


def deep_stack(depth: int) -> str:
    """One stack in which two functions call each other, `depth` frames in all."""
    return ";".join(f"{'even' if at % 2 == 0 else 'odd'} (rec.py:{at % 5})" for at in range(depth)) + " 100\n"
