"""What a sampler could do to its target, tried. Each trial returns figures, and what it found broken."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sidelight_native import Batch, Engine, Session

from tests.harm.victims import DEADLINE_SECONDS, FLAVOURS, TARGETS, Victim, thread_state, until, victim

LUCK = random.Random(4711)
RATE_HZ = 400.0
SPINNER = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


@dataclass
class Report:
    """One trial: what was counted, in words and figures, and what must not have happened and did."""

    trial: str
    figures: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.broken.append(otherwise)


class Totals:
    """The batches of a session, added up."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.attempts = self.samples = self.late_ns = self.duration_ns = 0
        self.stopped_ns = self.longest_stop_ns = 0
        self.errors: Counter[str] = Counter()

    def take(self) -> None:
        self.add(self.session.take())

    def add(self, batch: Batch) -> None:
        self.attempts += batch.attempts
        self.samples += batch.samples
        self.late_ns += batch.late_ns
        self.duration_ns += batch.duration_ns
        self.stopped_ns += batch.stopped_ns
        self.longest_stop_ns = max(self.longest_stop_ns, batch.longest_stop_ns)
        self.errors.update(batch.errors)

    def reached(self, attempts: int) -> bool:
        self.take()
        assert self.session.ended is None, self.session.ended
        return self.attempts >= attempts

    def figures(self) -> dict[str, str]:
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.errors.items()))
        return {
            "mode": self.session.mode,
            "ticks": f"{self.attempts:,}" + (f" ({failed})" if failed else ""),
            "skipped": f"{self.late_ns / max(self.duration_ns, 1):.1%}",
            "stood still": f"{self.stopped_ns / max(self.attempts, 1) / 1000:.0f} µs a tick",
            "longest stop": f"{self.longest_stop_ns / 1e6:.2f} ms",
        }


@contextmanager
def sampled(pid: int, rate_hz: float = RATE_HZ, mode: str = "auto") -> Iterator[Totals]:
    engine = Engine()
    try:
        totals = Totals(_attached(engine, pid, rate_hz, mode))
        yield totals
        totals.add(totals.session.stop())
    finally:
        engine.close()


def _attached(engine: Engine, pid: int, rate_hz: float, mode: str) -> Session:
    """A session, once threads are read as fast as they must be: a busy machine may take a while."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return engine.attach(pid, rate_hz=rate_hz, mode=mode)
        except RuntimeError as error:
            if "max-stop-ms" not in str(error) or time.monotonic() > deadline:
                raise


def goes_on(target: Victim, report: Report) -> None:
    """Nothing stands still for long, and the main thread gets on with its work."""
    until("no thread is stopped", lambda: not target.standing())
    before = target.rounds()
    until("the main thread works", lambda: target.rounds() > before)
    until("every signal has arrived", target.all_arrived)
    report.figures["signals"] = f"{target.sent:,} sent, all handled once"


def waiting(python: Path, ticks: int, mode: str = "auto") -> Report:
    """Threads that wait in C: how many calls came back with EINTR."""
    report = Report("calls that wait")
    with victim(python) as target, sampled(target.pid, mode=mode) as totals:
        before = target.waits()
        until("enough ticks", lambda: totals.reached(ticks))
        passed = {name: waits - before[name] for name, waits in target.waits().items()}
        report.figures |= totals.figures()
        for flavour in FLAVOURS:
            of = [waits for (name, _), waits in passed.items() if name == flavour]
            calls, interrupted = sum(w.calls for w in of), sum(w.interrupted for w in of)
            report.figures[f"EINTR, {flavour}"] = f"{interrupted} of {calls:,}"
            report.require(not any(w.failed for w in of), f"{flavour}: calls failed: {of}")
            if totals.session.mode == "gil" and flavour != "again":
                report.require(interrupted == 0, f"{flavour}: {interrupted} of {calls} calls saw EINTR")
        goes_on(target, report)
    return report


def signalled(python: Path, signals: int) -> Report:
    """Real-time signals, for the process and for each of its threads, each with a value of its own."""
    report = Report("signals")
    with victim(python) as target, sampled(target.pid, 2000) as totals:
        threads = [0, 0, *target.threads()]
        while target.sent < signals:
            target.signal(LUCK.choice(threads))
            if target.sent % 1000 == 0:
                until("the signals before have arrived", target.all_arrived)
                totals.take()
        until("a tick", lambda: totals.reached(1))
        goes_on(target, report)
        report.figures |= totals.figures()
    return report


def crowded(python: Path, ticks: int, spinners: int = 4) -> Report:
    """Too few CPUs: other processes want them all."""
    report = Report(f"{spinners} other processes that spin")
    with ExitStack() as stack:
        target = stack.enter_context(victim(python))
        for _ in range(spinners):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPINNER]))
            stack.callback(process.kill)
        with sampled(target.pid, 200) as totals:
            while not totals.reached(ticks):
                target.signal()
                time.sleep(0.01)
            goes_on(target, report)
        report.figures |= totals.figures()
        report.require(totals.samples > 0, "no tick succeeded")
    return report


def stopped(python: Path, times: int) -> Report:
    """Somebody else stops the target with SIGSTOP: it stays so until SIGCONT, and is sampled after."""
    report = Report("SIGSTOP and SIGCONT")
    with victim(python) as target:
        with sampled(target.pid, 1000) as totals:
            for _ in range(times):
                stop(target)
                ticks = totals.attempts + 20
                watch_it_stand(target, report, lambda ticks=ticks: totals.reached(ticks))
                let_go_on(target)
                time.sleep(LUCK.uniform(0, 0.005))
            samples = totals.samples
            until("it is sampled again", lambda: totals.reached(0) and totals.samples > samples)
            stop(target)
        # The sampler has let go of a stopped target.
        looks = iter(range(20))
        watch_it_stand(target, report, lambda: next(looks, None) is None)
        let_go_on(target)
        goes_on(target, report)
        report.figures |= totals.figures() | {"stopped": f"{times + 1:,} times"}
    return report


def stop(target: Victim) -> None:
    os.kill(target.pid, signal.SIGSTOP)
    until("every thread is stopped", lambda: set(states(target)) == {"T"})


def let_go_on(target: Victim) -> None:
    before = target.rounds()
    os.kill(target.pid, signal.SIGCONT)
    until("it goes on after SIGCONT", lambda: target.rounds() > before)


def states(target: Victim) -> list[str]:
    return [thread_state(target.pid, tid) for tid in target.threads()]


def watch_it_stand(target: Victim, report: Report, enough: Callable[[], bool]) -> None:
    """From a SIGSTOP on, until it was watched long enough.

    A sampler whose tick began before may take hold of a thread that stands, which then stands in state t.
    """
    rounds = target.rounds()
    until("it was watched standing still", enough)
    report.require(target.rounds() == rounds, "stopped by SIGSTOP, it went on working")
    if not report.broken:
        until("its threads stand in state T", lambda: set(states(target)) == {"T"})


@contextmanager
def sampler() -> Iterator[subprocess.Popen[str]]:
    """`targets/sampler.py`, to which lines `PID RATE MODE` are written."""
    command = [sys.executable, str(TARGETS / "sampler.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def ask(process: subprocess.Popen[str], pid: int, rate_hz: float, mode: str) -> dict[str, object]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{pid} {rate_hz} {mode}\n")
    process.stdin.flush()
    answer: dict[str, object] = json.loads(process.stdout.readline())
    return answer


def killed(python: Path, times: int, mode: str = "auto") -> Report:
    """The sampler dies by SIGKILL at a random moment, with signals on their way."""
    report = Report("sampler killed")
    caught = 0
    with victim(python, 1800) as target, sampler() as process, apart(target, process.pid):
        threads = [0, *target.threads()]
        for _ in range(times):
            answer = ask(process, target.pid, 5000, mode)
            if "pid" not in answer:
                report.require(False, f"attaching after a kill: {answer}")
                break
            pid = int(str(answer["pid"]))
            end = time.monotonic() + LUCK.uniform(0, 0.02)
            while time.monotonic() < end:
                target.signal(LUCK.choice(threads))
            caught += "t" in states(target)
            os.kill(pid, signal.SIGKILL)
            until("the sampler is gone", lambda pid=pid: not Path(f"/proc/{pid}").exists())
            goes_on(target, report)
    report.figures |= {"killed": f"{times:,} times, {caught} of them in the middle of a stop"}
    return report


def tasks(python: Path, readings: int) -> Report:
    """Tasks of a loop that never rests are read; then readers of them die by SIGKILL at random moments."""
    report = Report("asyncio tasks read")
    command = [str(python), str(TARGETS / "busy_loop.py")]
    read = failed = 0
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target,
        sampler() as process,
    ):
        try:
            assert target.stdin is not None
            assert target.stdout is not None
            assert target.stdout.readline() == "ready\n"
            engine = Engine()
            session = engine.attach(target.pid, rate_hz=RATE_HZ, tasks_hz=RATE_HZ, tasks_max=1000)

            def enough() -> bool:
                nonlocal read, failed
                if batch := session.take().tasks:
                    read, failed = read + batch.readings, failed + batch.failed
                return read >= readings

            until("enough readings", enough)
            engine.close()
            kills = max(readings // 20, 3)
            for _ in range(kills):
                answer = ask(process, target.pid, 2000, "auto")
                assert "pid" in answer, answer
                time.sleep(LUCK.uniform(0, 0.02))
                os.kill(int(str(answer["pid"])), signal.SIGKILL)
                until("the sampler is gone", lambda gone=answer["pid"]: not Path(f"/proc/{gone}").exists())
                until("it goes on", lambda: thread_state(target.pid, target.pid) not in "Tt")
            target.stdin.close()
            told = json.loads(target.stdout.readline())
            report.require(target.wait(DEADLINE_SECONDS) == 0, f"it ended with {target.returncode}")
        finally:
            target.kill()
    report.require(told["passed"] > 0 == told["lost"], f"numbers were lost: {told}")
    report.require(not told["errors"], f"exceptions: {told['errors']}")
    report.figures |= {
        "readings": f"{read:,} ({failed:,} failed)",
        "killed": f"{kills:,} times",
        "passed between tasks": f"{told['passed']:,} numbers, none lost",
    }
    return report


@contextmanager
def apart(target: Victim, pid: int) -> Iterator[None]:
    """A process, and what it forks, gets another CPU than the target, so that it has to stop it.

    This one gets the target's: it goes on just when the target is stopped.
    """
    cpus = os.sched_getaffinity(0)
    for tid in [0, *target.threads()]:
        os.sched_setaffinity(tid, {max(cpus)})
    os.sched_setaffinity(pid, {min(cpus)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


LEGAL = re.compile(
    r"<module>(;main(;work(;call){0,11}(;leaf)?|;work(;generate){0,11}(;leaf)?)?)?$"
    r"|Thread\._bootstrap.*|_bootstrap.*|.*\(unread\)$"
)


def functions(stack: str) -> str:
    return ";".join(frame.rpartition(" (")[0] or frame for frame in stack.split(";"))


def twice(python: Path, seconds: float) -> Report:
    """Two samplers on one target."""
    report = Report("two samplers at once")
    with victim(python) as target, sampler() as one, sampler() as other:
        answers = [(process, ask(process, target.pid, 1000, "auto")) for process in (one, other)]
        attached = [(process, int(str(answer["pid"]))) for process, answer in answers if "pid" in answer]
        report.require(bool(attached), f"neither may attach: {answers}")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            target.signal()
            time.sleep(0.002)
        for number, (process, pid) in enumerate(attached, 1):
            os.kill(pid, signal.SIGTERM)
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            failed = ", ".join(f"{count} {kind}" for kind, count in sorted(told["errors"].items()))
            report.figures[f"sampler {number}"] = (
                f"{told['mode']}, {told['attempts']:,} ticks ({failed or 'none failed'})"
            )
            report.require(told["ended"] is None, f"sampler {number} ended: {told['ended']}")
            report.require(told["samples"] > 0, f"sampler {number} counted nothing: {told['errors']}")
            wrong = [stack for stack in map(functions, told["stacks"]) if not LEGAL.match(stack)]
            report.require(not wrong, f"sampler {number}: impossible stacks {wrong}")
        goes_on(target, report)
    return report


def storm(python: Path, seconds: float) -> Report:
    """Processes that fork, exec and exit while they are attached to."""
    report = Report("fork, exec and exit")
    attached: dict[int, Session] = {}
    refused: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    engine = Engine()
    command = [str(python), str(TARGETS / "storm.py"), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            seen = set()
            attempts = 0
            while pids := running_of(process.pid):
                for pid in (pid for pid in pids if pid not in seen):
                    seen.add(pid)
                    try:
                        attached[pid] = engine.attach(pid, rate_hz=1000, mode="auto")
                    except (ProcessLookupError, PermissionError, RuntimeError, ValueError) as error:
                        refused[type(error).__name__] += 1
                for pid in [pid for pid, session in attached.items() if session.ended is not None]:
                    session = attached.pop(pid)
                    ended[str(session.ended)] += 1
                    attempts += session.stop().attempts
                time.sleep(0.002)
            told = json.loads(process.stdout.readline())
        finally:
            process.kill()
    engine.close()
    report.require(not told["wrong"], f"children that did not end as they should: {told['wrong']}")
    odd = [why for why in ended if why not in {"exited", "exec"}]
    report.require(not odd, f"sessions ended by {odd}")
    report.figures |= {
        "children": f"{told['children']:,}, each ended as it should",
        "sessions": ", ".join(f"{count} {why}" for why, count in sorted(ended.items())),
        "refused": ", ".join(f"{count} {why}" for why, count in sorted(refused.items())) or "none",
        "ticks": f"{attempts:,}",
    }
    return report


def running_of(pid: int) -> Sequence[int]:
    """A process and its children, but for what has exited."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [each for each in (pid, *children) if thread_state(each, each) not in "ZX"]


# Bytes by which the sampler may differ after so many samples from what it was after the first fifth of them.
GROWTH_BYTES = 2 << 20


def soaked(python: Path, samples: int, seconds: float, *, names: bool = False) -> Report:
    """Many samples: does the sampler grow?"""
    report = Report("code whose names never were before" if names else "many samples")
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> int:
            command = [str(python), str(TARGETS / f"{name}.py"), str(seconds + 60), *arguments]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process.pid

        targets = [f"{start('churn', 'names')}:1000"] if names else []
        if not names:
            targets = [f"{start('crowd')}:1000", f"{start('churn')}:200", f"{start('crowd')}:1000"]
        # Memory is bounded by it: where all code is new, the bound is soon reached.
        max_stacks = 2000 if names else 50_000
        command = [sys.executable, str(TARGETS / "soak.py"), str(samples), str(seconds), str(max_stacks)]
        done = subprocess.run(
            [*command, *targets], capture_output=True, text=True, check=False, timeout=seconds + 120
        )
    if done.returncode:
        report.broken.append(done.stderr)
        return report
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return judged(report, rows)


def judged(report: Report, rows: Sequence[dict[str, int]]) -> Report:
    """Whether what `targets/soak.py` said shows growth."""
    first, *during, last = rows
    warm = during[len(during) // 5 : len(during) // 5 + max(len(during) // 10, 1)]
    late = during[-max(len(during) // 10, 1) :]
    resident = [max(row["resident"] for row in part) for part in (warm, late)]
    opened = [max(row["open"] for row in part) for part in (warm, late)]
    report.figures |= {
        "samples": f"{last['samples']:,} in {last['attempts']:,} ticks ({last['failed']:,} failed)",
        "resident": f"{first['resident'] / 1e6:.1f} MB before, then {resident[0] / 1e6:.1f}, "
        f"{resident[1] / 1e6:.1f} at the end",
        "descriptors": f"{first['open']} before, then {opened[0]}, {opened[1]} at the end, "
        f"{last['open']} after",
        "longest stop": f"{last['longest_stop_ns'] / 1e6:.2f} ms",
    }
    report.require(resident[1] - resident[0] <= GROWTH_BYTES, f"grew: {report.figures['resident']}")
    # Threads that come and go hold a descriptor or two each, for as long as they live.
    report.require(opened[1] - opened[0] <= 16, f"descriptors: {report.figures['descriptors']}")
    report.require(last["open"] <= first["open"] + 1, f"descriptors: {report.figures['descriptors']}")
    return report
