"""`sidelight sidecar` as it is run: a real process beside real targets, and a collector over HTTP."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest

from sidelight.main import run
from sidelight_model.window import Window
from sidelight_sidecar.discovery.procfs import ProcFs
from tests.processes import Running, eventually, free_port, running, sidelight
from tests.sidecar.conftest import TARGETS, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector, Reply, collecting

MODES = ["auto", "command"]


def of(collector: FakeCollector, pid: int) -> list[Window]:
    return [window for window in collector.taken if window.quality.pid == pid]


def three_windows(collector: FakeCollector, pid: int) -> list[Window]:
    eventually("three windows arrive", lambda: len(of(collector, pid)) >= 3)
    return of(collector, pid)


def functions(windows: list[Window]) -> set[str]:
    stacks = [stack for window in windows for stack in window.counts]
    return {frame.split(" ")[0] for stack in stacks for frame in stack.split(";")}


def workers(target: Running) -> list[int]:
    return [int(pid) for pid in re.findall(r"worker (\d+)", target.said())]


def test_windows_of_a_process_arrive_with_its_labels_and_how_they_were_taken(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    start_sidecar(
        "--pid", str(target.pid), "--namespace", "shops", "--pod", "p-1", "--label", "team=checkout"
    )
    windows = eventually(
        "three windows arrive", lambda: of(collector, target.pid)[2:] and of(collector, target.pid)
    )
    assert dict(windows[0].labels) == {
        "service": "shop", "version": "1", "namespace": "shops", "pod": "p-1", "process": "main",
        "thread": "main", "team": "checkout",
    }  # fmt: skip
    for window in windows:
        assert window.period_ns == 10_000_000
        assert window.quality.mode == "gil"
        assert window.quality.sampler.startswith("sidelight ")
        assert window.quality.reader in ("own", "py-spy")
        assert window.quality.nominal_ns == 500_000_000
        assert window.quality.attempts > 0
    for earlier, later in pairwise(windows):
        assert later.start_ns == earlier.start_ns + earlier.duration_ns
    names = {
        frame.split(" ")[0] for window in windows for stack in window.counts for frame in stack.split(";")
    }
    assert {"work", "busy"} <= names


def test_arguments_of_a_process_are_in_no_log_answer_or_window(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("threads", "--password=s3cret", "--broker", "amqp://shop:s3cret@queue")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("windows arrive", lambda: len(of(collector, target.pid)) >= 2)
    answers = [sidecar.get("/readyz"), sidecar.post("/capture", b'{"seconds": 0.2}')]
    with urllib.request.urlopen(f"{sidecar.url}/metrics", timeout=60) as answer:
        metrics = answer.read().decode()
    assert sidecar.running.end() == 0
    assert "threads.py" in sidecar.running.said()
    assert "s3cret" not in f"{sidecar.running.said()}{answers}{metrics}{of(collector, target.pid)}"


def test_threads_are_told_apart_in_two_windows_of_one_span(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("threads")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("four windows arrive", lambda: len(of(collector, target.pid)) >= 4)
    assert sidecar.running.end() == 0
    spans: dict[int, list[Window]] = {}
    for window in of(collector, target.pid):
        spans.setdefault(window.start_ns, []).append(window)
    both = [windows for windows in spans.values() if len(windows) == 2]
    assert both
    for main, other in both:
        assert (main.labels["thread"], other.labels["thread"]) == ("main", "other")
        assert main.id < other.id
        assert main.duration_ns == other.duration_ns
        assert main.quality.attempts == other.quality.attempts
        assert other.quality.sampler_cpu_ns == other.quality.stops == 0
    assert "in_another_thread" not in functions([main for main, _ in both])
    assert "in_another_thread" in functions([other for _, other in both])


def test_forks_restarts_and_exits_are_followed(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("forks")
    sidecar = start_sidecar("--pid", str(target.pid))
    (first,) = eventually("a worker runs", lambda: workers(target))
    eventually("the worker is sampled", lambda: of(collector, first))
    os.kill(first, signal.SIGKILL)
    second = eventually("it is replaced", lambda: workers(target)[1:])[0]
    eventually("the new worker is sampled", lambda: of(collector, second))
    assert {window.labels["process"] for window in of(collector, second)} == {"worker"}
    eventually(
        "its parent is a master",
        lambda: [window.labels["process"] for window in of(collector, target.pid)][-1:] == ["master"],
    )
    eventually(
        "the old one is not watched", lambda: sidecar.get("/readyz")[1]["pids"] == [target.pid, second]
    )
    eventually("it is ready", lambda: sidecar.get("/readyz")[0] == 200)


@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_lives_shortly_is_sampled_to_its_end(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path
) -> None:
    """It is matched by an argument of its own: other tests have such processes too, at the same time."""
    sidecar = start_sidecar("--match", str(tmp_path / "own"), "--window-seconds", "60", "--mode", mode)
    words = lambda: [problem["error"] for problem in sidecar.get("/readyz")[1]["problems"]]  # noqa: E731
    eventually("it waits for a process", lambda: words() == ["nothing_to_watch"])
    target = start("brief", "3", str(tmp_path / "own"))
    windows = eventually("its window arrives", lambda: of(collector, target.pid), 300)
    assert sum(window.total.wall for window in windows) > 10
    assert any("briefly" in stack for window in windows for stack in window.counts)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_every_python_process_of_the_namespace_is_watched_but_the_sidecar(
    start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """In a PID namespace of its own, as a pod has: what runs outside is neither seen nor touched."""
    both = f'{sys.executable} {TARGETS}/spin.py & {sys.executable} {TARGETS}/deep.py & "$@"; true'
    namespace = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", both, "sh")
    sidecar = start_sidecar("--all", wrapper=namespace)
    eventually("both are sampled", lambda: len({window.quality.pid for window in collector.taken}) == 2)
    assert len(sidecar.get("/readyz")[1]["pids"]) == 2
    eventually("both work", lambda: {"busy", "down"} <= functions(collector.taken))


def test_more_processes_than_allowed_are_reported_not_forgotten(
    start: Start, start_sidecar: StartSidecar
) -> None:
    targets = [start("spin"), start("spin")]
    pids = [word for target in targets for word in ("--pid", str(target.pid))]
    sidecar = start_sidecar(*pids, "--max-processes", "1")
    said = "2 processes are to be watched, and 1 are"
    eventually("it is said", lambda: said in str(sidecar.get("/readyz")[1]["problems"]))
    targets[0].end()
    eventually("the other has its turn", lambda: sidecar.get("/readyz")[1]["pids"] == [targets[1].pid])


def test_a_schedule_takes_a_window_per_interval_and_leaves_the_process_alone_between(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    start_sidecar("--pid", str(target.pid), "--interval-seconds", "1.5", "--jitter-seconds", "0.5")

    def has_rests() -> bool:
        """A window that stands still with its sidecar lasts longer, and may be followed at once."""
        windows = of(collector, target.pid)[-3:]
        gaps = [two.start_ns - one.start_ns - one.duration_ns for one, two in pairwise(windows)]
        lasted = max((window.duration_ns for window in windows), default=0)
        return len(gaps) == 2 and min(gaps) > 200_000_000 and lasted < 1_300_000_000

    eventually("three windows with a rest between", has_rests)


def test_a_collector_that_is_away_costs_nothing_even_over_a_restart(
    start: Start, start_sidecar: StartSidecar
) -> None:
    target = start("spin")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    first = start_sidecar("--pid", str(target.pid), "--shutdown-flush-seconds", "0.5", url=url)
    eventually("windows wait", lambda: first.metric("spool_windows") >= 2)
    told = eventually("it is not ready", lambda: (answer := first.get("/readyz"))[0] == 503 and answer[1])
    assert told["problems"][0]["error"] == "collector_unreachable"
    assert first.running.end() == 0
    left = int(re.findall(r"windows_left=(\d+)", first.running.said())[-1])
    assert left >= 3
    with collecting(port) as back:
        second = start_sidecar("--pid", str(target.pid), "--on-demand", url=url)
        eventually("what waited has arrived", lambda: len(back.taken) == left)
        eventually("the sidecar is ready again", lambda: second.get("/readyz")[0] == 200)
        eventually("the spool is empty", lambda: second.metric("spool_windows") == 0)


@pytest.mark.parametrize("mode", MODES)
def test_sigterm_ships_the_window_that_was_open(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--window-seconds", "600", "--mode", mode)
    eventually("it samples", lambda: sidecar.metric("sessions") == 1)
    before = cpu_ticks(target)
    eventually("the target has worked for a while", lambda: cpu_ticks(target) >= before + 20)
    assert collector.requests == []
    assert sidecar.running.end() == 0
    (window,) = of(collector, target.pid)
    assert window.total.cpu > 5
    assert target.alive()


def test_the_flush_at_sigterm_is_bounded_when_the_collector_hangs(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    collector.decide = lambda windows: Reply(503, {"error": "overloaded"}, {"Retry-After": "300"})
    sidecar = start_sidecar("--pid", str(target.pid), "--shutdown-flush-seconds", "1")
    eventually("windows wait", lambda: sidecar.metric("spool_windows") >= 1 and collector.requests)
    assert sidecar.running.end() == 0


def test_a_sidecar_that_is_killed_in_mid_sample_leaves_its_target_running(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--rate", "1000")
    eventually("it samples", lambda: of(collector, target.pid))
    sidecar.running.end(signal.SIGKILL)
    before = cpu_ticks(target)
    eventually("the target runs on", lambda: cpu_ticks(target) != before)


def test_a_process_that_somebody_stops_while_it_is_sampled_is_reported_until_it_runs_again(
    start: Start, start_sidecar: StartSidecar
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("it is ready", lambda: sidecar.get("/readyz")[0] == 200)
    os.kill(target.pid, signal.SIGSTOP)
    (problem,) = eventually("it is reported", lambda: sidecar.get("/readyz")[1]["problems"])
    assert (problem["about"], problem["error"]) == (f"process {target.pid}", "sampler_failed")
    assert "stopped" in problem["message"]
    assert "kill -CONT" in problem["hint"]
    os.kill(target.pid, signal.SIGCONT)
    eventually("it is ready again", lambda: sidecar.get("/readyz")[0] == 200)


def test_a_spool_removed_while_windows_wait_ends_nothing(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, tmp_path: Path
) -> None:
    target = start("spin")
    collector.decide = lambda windows: Reply(503, {"error": "overloaded"})
    sidecar = start_sidecar("--pid", str(target.pid))
    eventually("windows wait", lambda: sidecar.metric("spool_windows") >= 2)
    # In one step: it lists and writes files meanwhile.
    (tmp_path / "spool").rename(tmp_path / "removed")
    eventually("their loss is counted", lambda: sidecar.metric("spool_dropped_windows_total") >= 2)
    collector.decide = lambda windows: None
    eventually("later windows arrive", lambda: of(collector, target.pid))
    eventually("it is ready", lambda: sidecar.get("/readyz")[0] == 200)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_sidecar_that_is_killed_takes_its_py_spy_with_it(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--mode", "command", "--window-seconds", "600")
    eventually("it samples", lambda: sidecar.metric("sessions") == 1)
    (spy,) = (proc.pid for proc in ProcFs().list_processes() if proc.ppid == sidecar.running.pid)
    sidecar.running.end(signal.SIGKILL)
    eventually("py-spy has ended", lambda: not Path(f"/proc/{spy}/exe").exists())
    assert target.alive()


def cpu_ticks(target: Running) -> int:
    return int(Path(f"/proc/{target.pid}/stat").read_text().split()[13])


def arguments(*options: str, spool: Path) -> list[str]:
    return [
        "sidecar", "--collector", "http://127.0.0.1:1", "--service", "s", "--listen", "127.0.0.1:0",
        "--spool-dir", str(spool), *options,
    ]  # fmt: skip


def refused_start(*options: str, spool: Path) -> tuple[int, str]:
    done = subprocess.run(
        sidelight(*arguments(*options, spool=spool)), capture_output=True, text=True, timeout=60, check=False
    )
    errors = [line for line in done.stderr.split("\n") if line.startswith(("error:", "hint:"))]
    assert "Traceback" not in done.stderr
    return done.returncode, "\n".join(errors)


def test_what_is_wrong_at_start_is_said_in_a_line_with_what_to_do(start: Start, tmp_path: Path) -> None:
    spool, target = tmp_path / "spool", start("spin")
    pid = str(target.pid)
    with socket.create_server(("127.0.0.1", 0)) as taken, running(tmp_path / "log", "sleep", "600") as asleep:
        port = taken.getsockname()[1]
        cases: list[tuple[tuple[str, ...], int, str]] = [
            (("--match", "("), 2, "not a regular expression"),
            (("--pid", "4194999"), 1, "there is no process 4194999"),
            (("--pid", str(asleep.pid)), 1, f"process {asleep.pid} does not run Python"),
            (("--pid", pid, "--listen", f"127.0.0.1:{port}"), 1, f"port {port} of 127.0.0.1 is in use"),
            (("--pid", pid, "--spool-dir", "/dev/null/spool"), 1, "cannot be written"),
        ]
        for options, code, said in cases:
            returned, errors = refused_start(*options, spool=spool)
            assert (returned, said in errors) == (code, True), (options, errors)
            assert "hint:" in errors


@pytest.mark.parametrize(
    ("options", "said"), [(("--frobnicate",), "frobnicate"), (("--token-file", "/none"), "--token-file")]
)
def test_a_wrong_option_is_said_in_a_line_with_what_to_do(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments("--pid", "1", *options, spool=tmp_path)) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "hint:" in errors
    assert "Traceback" not in errors


def test_two_sidecars_on_one_spool_are_refused(
    start: Start, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    target = start("spin")
    start_sidecar("--pid", str(target.pid))
    code, errors = refused_start("--pid", str(target.pid), spool=tmp_path / "spool")
    assert (code, "another sidecar uses the spool" in errors) == (1, True)
