"""How long sampling stops a process with deep stacks or thousands of threads.

    python bench/stops.py [--seconds 5] [--max-stop-ms 2] [--spinners 0,4] [--only deep,threads2000]

usual        One thread that works below 30 calls, beside ten that wait.
deep         One thread that works below 60,000 calls: attaching fails if they do not fit into the limit.
deep5000     The same with 5,000.
threads2000  One thread that works beside 2,000 that wake once a second.
threads3000  The same with 3,000.

Each case runs on the machine as it is, then beside processes that spin. The last columns are the stops
above the limit, the longest stop and the sampler's own CPU time in one, as shares of the limit: what is
beyond the last is the kernel's. Run it without the capability SYS_NICE as well:
`setpriv --bounding-set=-sys_nice python bench/stops.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import sidelight_native

TARGETS = Path(__file__).with_name("sampler_targets.py")
CASES = {
    "usual": ("spin", "30", "10"),
    "deep": ("spin", "60000", "0"),
    "deep5000": ("spin", "5000", "0"),
    "threads2000": ("crowd", "2000"),
    "threads3000": ("crowd", "3000"),
}


@contextlib.contextmanager
def spinning(count: int) -> Iterator[None]:
    """Run processes that spin."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(case: str, options: argparse.Namespace) -> None:
    process = subprocess.Popen(
        [options.python, TARGETS, *CASES[case]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit(f"{case} did not start")
        for count in map(int, options.spinners.split(",")):
            with spinning(count):
                print(f"{case:11} beside {count}: {describe_stops(process.pid, options)}", flush=True)
    finally:
        process.kill()
        process.wait()


def describe_stops(pid: int, options: argparse.Namespace) -> str:
    """Sample a process for a while; return what its stops took, as a row of the table."""
    engine = sidelight_native.Engine(max_stop_us=round(options.max_stop_ms * 1000))
    try:
        session = engine.attach(pid, rate_hz=options.rate)
    except RuntimeError as error:
        return str(error)
    stops, own, errors = [0.0], [0.0], Counter[str]()
    samples = unread = ticks = 0
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        # Hardly ever more than one tick.
        time.sleep(0.25 / options.rate)
        batch = session.take()
        ticks, samples = ticks + batch.attempts, samples + batch.samples
        unread += sum(sum(states) for _, stack, *states in batch.counts if stack.endswith("(unread)"))
        errors.update(batch.errors)
        if batch.stops:
            stops.append(batch.longest_stop_ns / 1e6)
            own.append(batch.longest_stop_cpu_ns / 1e6)
    engine.close()
    stops.sort()
    p50, p99 = stops[len(stops) // 2], stops[int(0.99 * (len(stops) - 1))]
    return (
        f"p50 {p50:6.2f}, p99 {p99:6.2f}, max {stops[-1]:7.2f} ms of {len(stops) - 1} stops; {ticks} ticks, "
        f"failed {dict(errors)}, unread {unread / max(1, samples):.1%}; "
        f"{sum(stop > options.max_stop_ms for stop in stops) / max(1, len(stops) - 1):.1%} above the limit, "
        f"{stops[-1] / options.max_stop_ms:.2f} of the limit, own CPU {max(own) / options.max_stop_ms:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--max-stop-ms", type=float, default=2)
    parser.add_argument("--spinners", default="0,4", help="numbers of processes that spin")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the targets")
    parser.add_argument("--only", default=",".join(CASES))
    options = parser.parse_args()
    for case in options.only.split(","):
        measure(case, options)


if __name__ == "__main__":
    main()
