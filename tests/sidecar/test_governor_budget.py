"""A real sidecar keeps its budget and says so; and what it says without the extension."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidelight_model.counts import FURTHER_STATES
from sidelight_model.window import Window
from tests.processes import eventually
from tests.sidecar.conftest import Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector


def reduced(collector: FakeCollector, why: str) -> list[Window]:
    return [window for window in collector.taken if why in window.quality.reduced]


def test_over_the_cpu_budget_rates_fall_and_windows_readyz_and_metrics_say_why(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--rate", "1000", "--budget-cpu-percent", "0.5")
    eventually("windows say it", lambda: reduced(collector, "cpu"))
    for window in reduced(collector, "cpu"):
        assert window.period_ns > 1_000_000 or window.quality.paused_ns
    eventually("metrics say it", lambda: sidecar.metric("reduced_rate_processes") >= 1)
    assert sidecar.metric("rate_target_hz") == 1000
    assert sidecar.metric("rate_hz") < 2000
    status, told = sidecar.get("/readyz")
    assert (status, told["degraded"]) == (200, True)
    (process,) = told["processes"]
    assert process["reduced"] == ["cpu"]
    assert process["rate"] < 1000


def test_a_process_that_stands_still_too_long_is_sampled_less(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    start_sidecar(
        "--pid", str(target.pid), "--rate", "1000", "--mode", "blocking", "--budget-stop-percent", "0.1"
    )
    eventually("windows say it", lambda: reduced(collector, "stops"))
    slowed = reduced(collector, "stops")[0]
    assert slowed.period_ns > 1_000_000 or slowed.quality.paused_ns


@pytest.mark.parametrize("mode", ["auto", "command"])
def test_windows_are_left_out_below_the_floor_and_the_next_says_for_how_long(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """A budget of a hundred-thousandth of a core is too little for five samples per second."""
    target = start("spin")
    budget = "0.001" if mode == "auto" else "0.2"
    sidecar = start_sidecar("--pid", str(target.pid), "--mode", mode, "--budget-cpu-percent", budget)
    eventually("time is left out", lambda: sidecar.metric("unsampled_seconds_total") > 0)
    eventually("it rests or says so", lambda: sidecar.metric("rate_hz") < 10)


def test_a_capture_keeps_to_a_budget_of_its_own_and_tells_its_rate(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", "--capture-budget-percent", "0.2")
    eventually("it watches", lambda: sidecar.get("/readyz")[0] == 200)
    _, lines = sidecar.post("/capture", json.dumps({"seconds": 3, "rate": 1000}).encode())
    (process,) = lines[-1]["processes"]
    assert process["rate"] < 1000
    assert process["reduced"]
    assert process["samples"] > 0
    eventually("its windows arrive", lambda: len(collector.taken) == process["windows"])
    assert any(window.quality.reduced for window in collector.taken)


def test_the_command_stands_in_for_a_missing_extension_and_everything_says_so(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path
) -> None:
    (tmp_path / "sidelight_native.py").write_text("raise ImportError('not built')\n")
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), wrapper=("env", f"PYTHONPATH={tmp_path}"))
    window = eventually("a window arrives", lambda: collector.taken and collector.taken[0])
    assert (window.quality.mode, window.quality.reader) == ("command", "py-spy")
    assert window.quality.sampler == "py-spy 0.4.3"
    assert window.quality.missing_states == ("gil", "idle", *FURTHER_STATES)
    eventually("it is ready", lambda: sidecar.get("/readyz")[0] == 200)
    told = sidecar.get("/readyz")[1]
    assert told["degraded"] is True
    assert "sidelight_native is not built" in str(told["notices"])
    assert told["processes"][0]["mode"] == "command"


def test_nonblocking_is_sampled_only_by_name_and_marked_as_maybe_wrong(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--mode", "nonblocking")
    window = eventually("a window arrives", lambda: collector.taken and collector.taken[0])
    assert window.quality.mode == "nonblocking"
    assert window.quality.stops == 0
    assert "may be wrong" in str(sidecar.get("/readyz")[1]["notices"])
