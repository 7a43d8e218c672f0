"""A capture of a real event loop says who held it, from when until when."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.test_live_captures import OPTIONS, Live
from tests.processes import collector, eventually, running, sidelight

PROGRAM = Path(__file__).parents[1] / "statistics" / "programs" / "blocking.py"
HELD_MS = 310
CLOSE_US = 30_000


def test_what_held_a_loop_is_found_from_when_until_when(tmp_path: Path) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(collector(tmp_path, str(tmp_path / "store")))
        target = stack.enter_context(
            running(tmp_path / "target.log", sys.executable, str(PROGRAM), str(HELD_MS))
        )
        eventually("the target runs", lambda: "ready" in target.said())
        arguments = ["--collector", served.url, "--service", "alternates", "--pod", "p-1", "--version", "2"]
        arguments += ["--spool-dir", str(tmp_path / "spool"), "--listen", "127.0.0.1:0"]
        arguments += ["--pid", str(target.pid), *OPTIONS]
        carrier = stack.enter_context(running(tmp_path / "sidecar.log", *sidelight("sidecar", *arguments)))
        live = Live(served, target, carrier, "", tmp_path)
        eventually(
            "the collector knows a sidecar that is ready",
            lambda: any(one["ready"] for one in live.get("/api/v1/agents")["agents"]),
        )
        capture = live.start(rate=100, seconds=4)
        assert live.ends(capture)["state"] == "ready"
        told = live.get(f"/api/v1/captures/{capture}/loops?limit=3")
        said = [
            (int(begun) // 1000, int(ended) // 1000)
            for begun, ended in re.findall(r"held (\d+) (\d+)", target.said())
        ]
        assert carrier.end(signal.SIGTERM) == 0, carrier.said()
    (thread,) = told["threads"]
    assert (thread["thread"], 0 < thread["busy_us"] < thread["observed_us"]) == ("MainThread", True)
    assert told["blocking_spans"]
    for one in told["blocking_spans"]:
        assert (one["function"], one["file"]) == ("reporting", "blocking.py")
        begin, end = (int(told["start"]) * 1_000_000 + one[name] for name in ("from_us", "until_us"))
        assert any(
            begun - CLOSE_US <= begin and end <= ended + CLOSE_US and end - begin > (ended - begun) // 2
            for begun, ended in said
        ), (begin, end, said)
