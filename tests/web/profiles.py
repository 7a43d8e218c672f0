"""Windows for the pages to show, written as text and sent the way a sidecar sends them."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ulid import ULID

from sidelight_model.counts import FURTHER_STATES
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, TaskReadings, Window, encode_windows

HOSTILE_SERVICE = "<b onclick=alert(3)>שלום/😀 & co"
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

# Two versions of one function each: what changed has a name.
_MAIN = "main (app.py:1);work (shop/work.py:1)"
FAST = f"{_MAIN};parse (json/decoder.py:3) 40\n{_MAIN};price (shop/rules.py:8) 30\n{_MAIN};log (l.py:1) 9\n"
SLOW = f"{_MAIN};parse (json/decoder.py:3) 90\n{_MAIN};price (shop/rules.py:8) 50\n{_MAIN};log (l.py:1) 10\n"

# A version that recurs, is deeper, and lost the middle of some stacks.
_GET = "main (app.py:1);get (django/core.py:2)"
_CYCLE = "to (rest/serializers.py:5);rep (rest/fields.py:7)"
FLAT = f"{_GET};{_CYCLE};dump (json/enc.py:1) 40\n{_GET};query (db/sql.py:3) 60\n"
RECURSIVE = f"{_GET};{_CYCLE};{_CYCLE};{_CYCLE};dump (json/enc.py:1) 50\n{FLAT}"
CUT = replace(WELL, truncated=75, stops=0, stopped_ns=0, longest_stop_ns=0)

# Watched badly, in doubtful ways, and by kind of thread.
LOW = replace(
    WELL,
    attempts=600,
    errors={"moved": 50, "slow": 10},
    other=2,
    truncated=4,
    reduced=("cpu", "cgroup"),
    paused_ns=2 * 10**9,
)
UNSAFE = replace(WELL, mode="nonblocking", reader="py-spy", stops=0, stopped_ns=0, longest_stop_ns=0)
FALLBACK = replace(
    UNSAFE,
    mode="command",
    sampler="py-spy 0.4.3",
    reader="",
    missing_states=("gil", "idle", *FURTHER_STATES),
)
_POOL = "run (pool.py:3);task (pool.py:9) 40\nrun (pool.py:3);wait (threading.py:320);[idle] 160\n"

# What the golden pictures of `drawn/` are of.
STATES = """\
main (app.py);serve (shop/views.py);query (sqlalchemy/engine.py) 30
main (app.py);serve (shop/views.py);query (sqlalchemy/engine.py);[idle] 60
main (app.py);serve (shop/views.py);render (jinja2/runtime.py);[gil] 50
main (app.py);serve (shop/views.py);dump (json/encoder.py);[gil] 20
main (app.py);select (selectors.py);[idle] 90
main (app.py);select (selectors.py) 2
"""
LOOPS = """\
main (a.py);walk (t.py);walk (t.py);walk (t.py);leaf (t.py) 7
main (a.py);walk (t.py) 3
"""
PRICES = "".join(
    f"main (app.py);price{first} (shop/prices.py);rule{second} (shop/rules.py);"
    f"apply{(first * second) % 5} (django/db.py) {1 + (first * 7 + second * 3) % 11}\n"
    for first in range(12)
    for second in range(9)
)
MIXTURE = """\
main (app.py);work (shop/views.py) 30
main (app.py);work (shop/views.py);[gil] 30
main (app.py);work (shop/views.py);[idle] 60
main (app.py);spin (shop/spin.py);[gil] 40
main (app.py);wait (selectors.py);[idle] 40
"""
ENDPOINTS = """\
main (app.py:1);Flask.dispatch_request (flask/app.py:9);cart (shop.py:3);query (db.py:7) 30
main (app.py:1);Flask.dispatch_request (flask/app.py:9);pay (shop.py:9) 10
main (app.py:1);collect (gc.py:2) 10
"""
IDLE = "main (a.py:1);wait (a.py:2);[idle] 900\n"


def make_window_id(start_ns: int) -> str:
    return str(ULID.from_timestamp(start_ns // 10**6))


def windows(
    service: str,
    version: str,
    stacks: str,
    *,
    pods: int = 2,
    count: int = 3,
    minutes_ago: float = 5,
    quality: Quality | None = None,
    tasks: TaskReadings | None = None,
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
            start_ns = start + turn * WINDOW_SECONDS * 10**9
            yield Window(
                id=make_window_id(start_ns),
                labels=Labels(named),
                start_ns=start_ns,
                duration_ns=WINDOW_SECONDS * 10**9,
                period_ns=PERIOD_NS,
                counts=counts,
                quality=watched,
                tasks=tasks,
            )


def story() -> list[Iterable[Window]]:
    """The services of the shared collector."""
    crowd = "".join(f"main (m.py);f{n:04d} (p{n % 7}/x.py:{n}) {n}\n" for n in range(1, 5001))
    return [
        windows("shop", "v1", BEFORE, minutes_ago=30, node="n1"),
        windows("shop", "v2", AFTER, minutes_ago=5, node="n2"),
        windows("lone", "only", BEFORE),
        windows("unversioned", "", BEFORE, minutes_ago=40),
        windows(HOSTILE_SERVICE, "1;2", hostile_stacks()),
        windows("deep", "d1", deep_stack(3500), pods=1),
        # Compared: more pods and another Python, older than an hour, too little, without a version.
        windows("pay", "v1", FAST, minutes_ago=5),
        windows("pay", "v2", SLOW, minutes_ago=5, pods=3, quality=replace(WELL, python="3.14.0")),
        windows("old", "now", AFTER, minutes_ago=5),
        windows("old", "before", BEFORE, minutes_ago=300),
        windows("same", "v1", FAST, minutes_ago=30, count=1, pods=1),
        windows("same", "v2", FAST, minutes_ago=5, count=1, pods=1, capture="c_01abc"),
        windows("bare", "", FAST),
        # Depths.
        windows("api", "1", FLAT, minutes_ago=30),
        windows("api", "2", RECURSIVE, minutes_ago=5, quality=CUT),
        windows("one", "1", RECURSIVE),
        # Qualities.
        windows("mixed", "good", BEFORE, minutes_ago=30),
        windows("mixed", "unsafe", AFTER, minutes_ago=5, quality=UNSAFE),
        windows("low", "1", BEFORE, quality=LOW),
        windows("fallback", "1", BEFORE, quality=FALLBACK),
        _by_thread("pool"),
        # Graphs, tables and heatmaps.
        windows("states", "1", STATES),
        windows("prices", "1", PRICES),
        windows("loops", "1", LOOPS),
        windows("mixture", "1", MIXTURE, pods=1),
        windows("crowd", "v1", crowd, pods=1, count=1),
        windows("heat", "busy", AFTER, pods=1, minutes_ago=20),
        windows("heat", "idle", IDLE, pods=1, minutes_ago=20),
        windows("web.1", "1", AFTER, pods=3),
        windows("web.1", "2", AFTER, pods=1, count=6),
        windows("wide", "1", AFTER, pods=130, count=1),
        windows("cart", "1", AFTER, cluster="eu", namespace="prod"),
        windows("till", "1", AFTER, cluster="us", namespace="prod"),
        windows("tool", "1", AFTER, namespace="<i>lab"),
        *(
            windows("zones", f"v{at}", BEFORE, pods=1, count=1, zone=value[:200])
            for at, value in enumerate(HOSTILE)
        ),
        *(
            windows("busy", version, BEFORE, pods=1, count=1, minutes_ago=50 - at * 1.3)
            for at, version in enumerate(f"2026.11.{at:02}-{'x' * (at * 3)}" for at in range(30))
        ),
    ]


def _by_thread(service: str) -> Iterator[Window]:
    """Windows of a service's processes, each with one beside it for the threads that are not the main one."""
    others = replace(WELL, stops=0, stopped_ns=0, longest_stop_ns=0)
    for main in windows(service, "1", BEFORE, thread="main"):
        labels = Labels({**main.labels, "thread": "other"})
        yield main
        yield replace(
            main, id=make_window_id(main.start_ns), labels=labels, counts=parse_folded(_POOL), quality=others
        )


def send(url: str, *batches: Iterable[Window]) -> None:
    """Send windows; returns when the collector has stored them."""
    body = encode_windows([window for batch in batches for window in batch])
    request = urllib.request.Request(f"{url}/api/v1/windows", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status == 200


def hostile_stacks() -> str:
    return "\n".join(f"main (app.py);{name} {10 * (at + 1)}" for at, name in enumerate(HOSTILE)) + "\n"


def deep_stack(depth: int) -> str:
    """One stack in which two functions call each other, `depth` frames in all."""
    return ";".join(f"{'even' if at % 2 == 0 else 'odd'} (rec.py:{at % 5})" for at in range(depth)) + " 100\n"
