"""The CPU time of a sidecar beside idle processes, in percent of a core.

    python -m bench.sidecar_idle [--seconds 60] [--processes 3] [--only pod,machine] [-- SIDECAR OPTIONS]

pod      in its own PID namespace, as in a pod: the sidecar, its targets and little else (needs root)
machine  among all processes of this machine

Each is measured with `--on-demand`, where the sidecar does little more than read /proc, and with continuous
sampling at 100 Hz. `sampling` is the part of the native extension's thread. Times come from
/proc/PID/task/*/schedstat, in nanoseconds: a tick of /proc/PID/stat is as long as the work of a whole
second.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bench import ingest

TARGETS = Path(__file__).with_name("sampler_targets.py")
WAYS = {"standby": ["--on-demand"], "continuous": []}
_SETTLE_SECONDS = 12


@contextmanager
def started(*command: str | Path, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, and end it by its id."""
    with said.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait()


def cpu_seconds(pid: int) -> float:
    """Read the CPU time of a process's threads.

    The threads of the pool live as long as the process, so no time is missing.
    """
    return (
        sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9
    )


def metric(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(map(float, re.findall(rf"^sidelight_sidecar_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


def measure(way: str, collector: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        for number in range(options.processes):
            said = Path(scratch, f"target-{number}")
            stack.enter_context(started(sys.executable, TARGETS, "wait", "0", said=said))
            while not said.read_bytes():
                time.sleep(0.05)
        given = ["--service", "bench", "--match", r"sampler_targets\.py", "--listen", "127.0.0.1:0"]
        given += ["--collector", collector, "--spool-dir", f"{scratch}/spool", *WAYS[way], *options.sidecar]
        said = Path(scratch, "sidecar")
        command = [sys.executable, "-m", "sidelight.main", "sidecar", *given]
        sidecar = stack.enter_context(started(*command, said=said))
        while not (found := re.search(r"listening\S*\s+url=(\S+)", said.read_text())):
            if sidecar.poll() is not None:
                raise SystemExit(said.read_text())
            time.sleep(0.1)
        time.sleep(_SETTLE_SECONDS)
        watched = metric(found[1], "processes")
        before, sampled = cpu_seconds(sidecar.pid), metric(found[1], "sampler_cpu_seconds_total")
        began = time.perf_counter()
        time.sleep(options.seconds)
        took, elapsed = cpu_seconds(sidecar.pid) - before, time.perf_counter() - began
        sampled = metric(found[1], "sampler_cpu_seconds_total") - sampled
        seen = len([path for path in Path("/proc").iterdir() if path.name.isdigit()])
        look = metric(found[1], "scan_cpu_seconds") * 1e6
        print(
            f"{options.where:8} {way:10} {watched:.0f} watched of {seen} processes: {took / elapsed:.3%} "
            f"of a core, sampling {sampled / elapsed:.3%}, one look {look:.0f} us",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--only", default="pod,machine")
    parser.add_argument("--ways", default="standby,continuous")
    parser.add_argument("--where", default="", help=argparse.SUPPRESS)
    parser.add_argument("--collector", default="", help=argparse.SUPPRESS)
    parser.add_argument("sidecar", nargs="*")
    options = parser.parse_args()
    if options.where:
        for way in options.ways.split(","):
            measure(way, options.collector, options)
        return
    with tempfile.TemporaryDirectory() as scratch:
        port_file = Path(scratch, "port")
        collector = ingest.start(str(Path(scratch, "store")), port_file)
        try:
            for where in options.only.split(","):
                space = (
                    ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] if where == "pod" else []
                )
                inner = [sys.executable, __file__, "--where", where, "--ways", options.ways]
                inner += ["--seconds", str(options.seconds), "--processes", str(options.processes)]
                inner += ["--collector", f"http://127.0.0.1:{port_file.read_text().strip()}"]
                subprocess.run([*space, *inner, "--", *options.sidecar], check=True)
        finally:
            collector.terminate()
            collector.wait()


if __name__ == "__main__":
    main()
