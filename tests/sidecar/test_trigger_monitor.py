"""Triggers beside real processes, in real cgroups where they can be made."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from sidelight_model.window import Window
from tests.processes import Running, eventually, running
from tests.sidecar.cgroups import limited, made
from tests.sidecar.conftest import TARGETS, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector

# So short that a test sees all of it; the rest afterwards is longer than any test.
SOON = (
    "--trigger-window-seconds",
    "1",
    "--trigger-duration-seconds",
    "1.5",
    "--trigger-cooldown-seconds",
    "3600",
)
# On a crowded machine a busy process gets little.
CPU = (*SOON, "--trigger-cpu-percent", "3", "--trigger-rate", "500")


def fast(window: Window) -> bool:
    """At the trigger's rate, or as near to it as the budget allows on a machine so crowded that a process is
    kept standing for most of the time between two samples."""
    return window.period_ns == 2_000_000 or (
        window.period_ns < 10_000_000 and "stops" in window.quality.reduced
    )


def triggered(collector: FakeCollector) -> list[Window]:
    return [window for window in collector.taken if "trigger" in window.labels]


def ordinary(collector: FakeCollector) -> list[Window]:
    return [window for window in collector.taken if "trigger" not in window.labels]


def test_a_busy_process_is_sampled_faster_for_a_while_and_its_windows_say_why(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), *CPU)
    eventually("it is looked at closer", lambda: triggered(collector))
    last = lambda: collector.taken[-1]  # noqa: E731
    eventually("that has ended", lambda: "trigger" not in last().labels)
    closer = triggered(collector)
    assert {window.labels["trigger"] for window in closer} == {"cpu"}
    (reason,) = {window.labels["trigger_reason"] for window in closer}
    assert reason.startswith("CPU ")
    assert reason.endswith(" % of a core over 1 s")
    assert all(map(fast, closer))
    assert {window.period_ns for window in ordinary(collector)} == {10_000_000}
    for earlier, later in pairwise(collector.taken):
        assert later.start_ns == earlier.start_ns + earlier.duration_ns, "no gap for it"
    told = sidecar.get("/readyz")[1]
    assert told["triggers"]["on"] == ["cpu"]
    (one,) = told["triggers"]["last"]
    assert (one["trigger"], one["reason"], one["pids"]) == ("cpu", reason, [target.pid])
    assert sidecar.metric("triggers_total") == 1
    assert "a trigger fires" in sidecar.running.said()


def test_a_sidecar_that_samples_when_asked_ships_what_was_just_before_a_trigger_and_nothing_else(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", "--preroll-seconds", "60", *CPU)
    eventually("it is looked at closer", lambda: any(map(fast, triggered(collector))))
    eventually("it keeps in memory again", lambda: sidecar.metric("preroll_windows") >= 2)
    assert ordinary(collector) == []
    before = [window for window in collector.taken if window.period_ns == 10_000_000]
    assert before, "what was kept before it"
    assert before[-1].start_ns < min(w.start_ns for w in collector.taken if fast(w))


def test_the_command_is_told_to_sample_faster_as_well(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    start_sidecar("--pid", str(target.pid), "--mode", "command", *CPU)
    first, *_ = eventually("it is looked at closer", lambda: triggered(collector), 60)
    assert fast(first)
    end = first.start_ns + 1_500_000_000
    after = lambda: [window for window in collector.taken if window.start_ns > end]  # noqa: E731
    eventually("it is sampled as before", lambda: any(w.period_ns == 10_000_000 for w in after()), 60)
    assert {window.period_ns for window in ordinary(collector)} == {10_000_000}


def test_without_anything_in_memory_a_trigger_samples_all_the_same_and_then_lets_go(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", *CPU)
    eventually("it is looked at closer", lambda: len(triggered(collector)) >= 3)
    eventually("nothing is attached afterwards", lambda: sidecar.metric("sessions") == 0)
    assert sum(window.duration_ns for window in triggered(collector)) >= 1_300_000_000
    assert ordinary(collector) == []


def test_on_a_schedule_a_trigger_takes_the_place_of_the_windows_that_were_due(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    options = ("--interval-seconds", "0.5", "--window-seconds", "0.2", "--jitter-seconds", "0")
    sidecar = start_sidecar("--pid", str(target.pid), *options, *CPU)
    eventually("it is looked at closer", lambda: len(triggered(collector)) >= 5)
    end = triggered(collector)[-1].start_ns
    eventually("the schedule goes on", lambda: [w for w in ordinary(collector) if w.start_ns > end])
    missed, late = sidecar.metric("missed_windows_total"), 0
    for earlier, later in pairwise(collector.taken):
        assert later.start_ns >= earlier.start_ns + earlier.duration_ns - 1_000_000
        # While the sidecar stands still, windows are missed.
        late += max(later.start_ns - earlier.start_ns - 100_000_000, 0) // 500_000_000
    assert missed <= 1 + late


def test_a_trigger_during_a_capture_waits_for_its_end(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--on-demand", *CPU)
    eventually("it is watched", lambda: sidecar.metric("processes") == 1)
    capture = sidecar.post("/capture", b'{"seconds": 4, "rate": 50}')[1][-1]
    eventually("a trigger fires", lambda: sidecar.metric("triggers_total") == 1)
    assert capture["processes"][0]["samples"] > 0
    windows = eventually("it is looked at closer", lambda: triggered(collector))
    captured = [window for window in collector.taken if "capture" in window.labels]
    assert sum(window.duration_ns for window in captured) >= 3_500_000_000
    assert all("trigger" not in window.labels for window in captured)
    assert windows[0].start_ns >= captured[-1].start_ns + captured[-1].duration_ns - 1_000_000


def test_a_trigger_stays_within_the_budget(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    budget = ("--budget-cpu-percent", "0.5", "--rate", "5", "--trigger-rate", "1000")
    start_sidecar("--pid", str(target.pid), *SOON, *budget, "--trigger-cpu-percent", "3")
    (first, *_) = eventually("it is looked at closer", lambda: triggered(collector))
    assert first.period_ns > 1_000_000
    assert first.quality.reduced == ("cpu",)


@contextmanager
def in_cgroup(folders: list[Path], log: Path, script: str) -> Iterator[Running]:
    """A process that was in the cgroup before it was Python, as a container's is."""
    begin = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)
    with running(log, "sh", "-c", f"{begin}exec {sys.executable} {script}") as target:
        eventually("the target runs", lambda: "ready" in target.said())
        yield target


def test_a_container_that_is_throttled_is_looked_at_closer_with_both_reasons(
    tmp_path: Path, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    spin = str(TARGETS / "spin.py")
    with limited(0.05) as folders, in_cgroup(folders, tmp_path / "limited", spin) as target:
        sidecar = start_sidecar(
            "--pid", str(target.pid), *SOON, "--trigger-throttled-percent", "10",
            "--trigger-cpu-percent", "20",
        )  # fmt: skip
        windows = eventually("it is looked at closer", lambda: triggered(collector))
        assert sidecar.metric("triggers_total") == 2
        assert windows[-1].labels["trigger"] == "cpu+throttled"
        reason = windows[-1].labels["trigger_reason"]
        assert " % of the limit of 0.05 cores over 1 s; throttled in " in reason
        assert reason.endswith(" % of its periods over 1 s, limit 0.05 cores")
        assert sidecar.running.end() == 0


def test_a_process_that_grows_is_looked_at_closer(
    tmp_path: Path, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("grows", str(tmp_path))
    options = ("--on-demand", "--preroll-seconds", "60", "--trigger-rss-growth", "50M")
    sidecar = start_sidecar("--pid", str(target.pid), *SOON, *options, "--trigger-rss-window-seconds", "2")
    eventually("some is kept", lambda: sidecar.metric("preroll_windows") >= 5)
    assert sidecar.metric("triggers_total") == 0
    (tmp_path / "grow").touch()
    windows = eventually("it is looked at closer", lambda: triggered(collector))
    assert windows[0].labels["trigger"] == "rss"
    reason = windows[0].labels["trigger_reason"]
    said = re.fullmatch(r"RSS grew by (\d+) MiB \(\d+ %\) to \d+ MiB within 2 s", reason)
    assert said, reason
    # it may be looked at while it grows
    assert 50 <= int(said[1]) <= 120


def test_a_container_that_grows_is_looked_at_closer_by_its_working_set(
    tmp_path: Path, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    script = f"{TARGETS / 'grows.py'} {tmp_path}"
    with made("memory") as folders, in_cgroup(folders, tmp_path / "grows.log", script) as target:
        options = ("--trigger-rss-growth", "50M", "--trigger-rss-window-seconds", "2")
        sidecar = start_sidecar("--pid", str(target.pid), *SOON, *options)
        eventually("its size is known", lambda: len(collector.taken) >= 4)
        assert sidecar.metric("triggers_total") == 0
        (tmp_path / "grow").touch()
        windows = eventually("it is looked at closer", lambda: triggered(collector))
        assert windows[0].labels["trigger"] == "rss"
        reason = windows[0].labels["trigger_reason"]
        said = re.fullmatch(r"working set grew by (\d+) MiB \(\d+ %\) to \d+ MiB within 2 s", reason)
        assert said, reason
        assert 50 <= int(said[1]) <= 120
        assert sidecar.running.end() == 0


def test_a_service_that_starts_beside_the_sidecar_is_looked_at_closer_once_it_listens(
    tmp_path: Path, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    sidecar = start_sidecar("--match", str(tmp_path), "--trigger-ready", "--trigger-cooldown-seconds", "0")
    eventually("it looks out", lambda: sidecar.get("/livez")[0] == 200)
    target = start("grows", str(tmp_path))
    eventually("it is sampled", lambda: len(collector.taken) >= 4)
    assert triggered(collector) == []
    (tmp_path / "listen").touch()
    port = eventually("it listens", lambda: target.said().partition("port ")[2].strip())
    windows = eventually("it is looked at closer", lambda: triggered(collector))
    assert windows[0].labels["trigger"] == "ready"
    assert windows[0].labels["trigger_reason"].startswith(f"listens on port {port}, ")
    target.end()
    eventually("it is gone", lambda: sidecar.metric("processes") == 0)
    start("grows", str(tmp_path))
    eventually("its next start counts too", lambda: sidecar.metric("triggers_total") == 2)


def test_at_sigterm_what_is_in_memory_is_shipped_also_of_a_process_that_ended_before(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """A native sidecar is told to end after the service has."""
    first, second = start("spin"), start("spin")
    sidecar = start_sidecar(
        "--pid", str(first.pid), "--pid", str(second.pid), "--on-demand",
        "--preroll-seconds", "60", "--trigger-sigterm",
    )  # fmt: skip
    eventually("both are kept", lambda: sidecar.metric("preroll_windows") >= 6)
    first.end()
    eventually("one is gone", lambda: sidecar.metric("processes") == 1)
    assert collector.taken == []
    assert sidecar.running.end() == 0
    assert {window.quality.pid for window in collector.taken} == {first.pid, second.pid}
    assert {window.labels["trigger"] for window in collector.taken} == {"sigterm"}
    assert {window.labels["trigger_reason"] for window in collector.taken} == {"the sidecar received SIGTERM"}


def test_the_window_that_sigterm_ends_says_so(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--window-seconds", "1", "--trigger-sigterm")
    eventually("windows arrive", lambda: len(collector.taken) >= 2)
    assert sidecar.running.end() == 0
    *others, last = collector.taken
    assert last.labels["trigger"] == "sigterm"
    assert all("trigger" not in window.labels for window in others)


def test_without_triggers_nothing_changes(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("windows arrive", lambda: len(collector.taken) >= 4)
    assert sidecar.get("/readyz")[1]["triggers"] == {"on": [], "last": []}
    assert sidecar.running.end(signal.SIGTERM) == 0
    assert triggered(collector) == []
