"""What a trigger took is asked for by its label, and why is read where windows are: all real."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from tests.processes import Collector, collector, eventually, running, sidelight

TARGET = Path(__file__).parents[1] / "sidecar" / "targets" / "spin.py"
RANGE = "from=-1h&until=now"


def windows(stored: Collector, matcher: str = "") -> int:
    query = quote(f'{{service="shop"{matcher}}}')
    return int(stored.get(f"/api/v1/timeline?query={query}&{RANGE}&type=wall")["basis"]["windows"])


def test_windows_of_a_trigger_are_selected_and_left_out_by_its_label_and_say_why(tmp_path: Path) -> None:
    with ExitStack() as stack:
        target = stack.enter_context(running(tmp_path / "target.log", sys.executable, str(TARGET)))
        eventually("the target runs", lambda: "ready" in target.said())
        stored = stack.enter_context(collector(tmp_path, str(tmp_path / "store")))
        argv = sidelight(
            "sidecar", "--collector", stored.url, "--pid", str(target.pid), "--service", "shop",
            "--window-seconds", "0.5", "--budget-cpu-percent", "100", "--budget-stop-percent", "100",
            "--spool-dir", str(tmp_path / "spool"), "--listen", "127.0.0.1:0",
            "--trigger-cpu-percent", "3", "--trigger-window-seconds", "1", "--trigger-duration-seconds", "2",
        )  # fmt: skip
        carrier = stack.enter_context(running(tmp_path / "sidecar.log", *argv))
        eventually("a trigger's windows are stored", lambda: windows(stored, ',trigger="cpu"') >= 1)
        before = windows(stored, ',trigger=""')
        eventually("others follow", lambda: windows(stored, ',trigger=""') >= before + 2)
        assert carrier.end() == 0, carrier.said()
        assert windows(stored, ',trigger=~"cpu.*"') + windows(stored, ',trigger=""') == windows(stored)
        query = quote('{service="shop"}')
        told = stored.get(f"/api/v1/labels/trigger_reason/values?query={query}&{RANGE}")
        (reason,) = told["values"]
    assert reason.startswith("CPU ")
    assert reason.endswith(" % of a core over 1 s")
