"""Record real services under varying load, for the simulations of bench/verdicts.

    python -m bench.verdicts.record [--seconds 900] [--pods 24] [--seed 0] [--into FOLDER]

Two services of the corpus run with `--pods` pods each, and every pod has its own sidecar: `feed` on
aiohttp, and the Django `shop` under gunicorn. The load over loopback follows `weather`: compressed days, a
slow drift, and bursts; each pod has a share of it, drawn once. The script needs root or SYS_PTRACE, and the
Django environment of tests/services. The services run at `nice 5`; load and sidecars have a lower priority,
so the services mostly wait only for each other. Every process ends by itself. The script writes one .npz
per service to bench/verdicts/recorded, and prints one line about each.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.verdicts.recordings import RECORDED, Recording, recording_of, save
from bench.verdicts.weather import DAY_SECONDS, KINDS, RATES, Weather, shares
from sidelight_model.window import Window
from tests.processes import Running, eventually, running, sidelight
from tests.services.venvs import environment
from tests.sidecar.fake_collector import collecting

PROGRAMS: Final = Path(__file__).parent / "programs"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4 * DAY_SECONDS)
    parser.add_argument("--pods", type=int, default=24)
    parser.add_argument("--window-seconds", type=float, default=3)
    parser.add_argument("--rate", type=float, default=100, help="samples per second")
    parser.add_argument("--load", type=float, default=1, help="times the usual requests")
    parser.add_argument("--seed", type=int, default=0, help="another one has other load")
    parser.add_argument("--into", type=Path, default=RECORDED)
    given = parser.parse_args()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # so that child processes end too
    nice(5)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        folder = Path(scratch)
        collector = stack.enter_context(collecting())
        loads, placed = {}, {}
        for service in KINDS:
            pods = [f"{service}-{at}" for at in range(given.pods)]
            started = [stack.enter_context(START[service](folder, pod, given.seconds)) for pod in pods]
            placed[service] = {
                pod: place(service, folder, pod, one) for pod, one in zip(pods, started, strict=True)
            }
        nice(19)
        for number, (service, places) in enumerate(placed.items(), len(KINDS) * given.seed):
            for pod, (_, pid) in places.items():
                stack.enter_context(sidecar(folder, collector.url, service, pod, pid, given))
            weather = Weather(
                given.load * RATES[service] * given.pods,
                DAY_SECONDS,
                shares(given.pods, number),
                KINDS[service],
                number,
            )
            plan = {
                "ports": [port for port, _ in places.values()],
                "seconds": given.seconds,
                "weather": dataclasses.asdict(weather),
            }
            argv = [sys.executable, "-m", "bench.verdicts.load", json.dumps(plan), str(folder / service)]
            loads[service] = stack.enter_context(running(folder / f"{service}.load.log", *argv))
        for service, load in loads.items():
            eventually("the load ends", lambda load=load: not load.alive(), given.seconds + 120)
            if load.process.returncode:
                raise SystemExit(f"the load on {service} failed:\n{load.said()}")
        taken = collector.taken
        for service in KINDS:
            report(service, [one for one in taken if one.labels["service"] == service], folder, given)


def nice(least: int) -> None:
    """Lower the priority of processes started from here on, to at least this niceness."""
    os.setpriority(os.PRIO_PROCESS, 0, max(least, os.getpriority(os.PRIO_PROCESS, 0)))


def feed(folder: Path, pod: str, seconds: float) -> AbstractContextManager[Running]:
    argv = [sys.executable, str(PROGRAMS / "feed_service.py"), str(folder / f"{pod}.port"), str(seconds + 60)]
    return running(folder / f"{pod}.log", *argv)


@contextmanager
def shop(folder: Path, pod: str, seconds: float) -> Iterator[Running]:
    django = environment(Path(sys.executable), "django").bin.parent
    (packages,) = django.glob("lib/python*/site-packages")
    argv = [
        "timeout", str(seconds + 60), sys.executable, "-m", "gunicorn", "--bind", "127.0.0.1:0",
        "--chdir", str(PROGRAMS), "--timeout", "60", "--no-control-socket", "shop_service:application",
    ]  # fmt: skip
    with running(folder / f"{pod}.log", *argv, env={"PYTHONPATH": str(packages)}) as one:
        try:
            yield one
        finally:
            one.end()  # not killed: gunicorn would outlive the `timeout` that bounds it


START: Final = {"feed": feed, "shop": shop}


def place(service: str, folder: Path, pod: str, one: Running) -> tuple[int, int]:
    """Return the port of a pod, and the process that does the work."""

    def told() -> tuple[int, int] | None:
        if not one.alive():
            raise SystemExit(f"{pod} ended:\n{one.said()}")
        if service == "feed":
            port_file = folder / f"{pod}.port"
            return (int(port_file.read_text()), one.pid) if port_file.exists() else None
        port = re.search(r"Listening at: http://127\.0\.0\.1:(\d+)", one.said())
        pid = re.search(r"Booting worker with pid: (\d+)", one.said())
        return (int(port[1]), int(pid[1])) if port and pid else None

    return eventually(f"{pod} listens", told, 60)


def sidecar(
    folder: Path, url: str, service: str, pod: str, pid: int, given: argparse.Namespace
) -> AbstractContextManager[Running]:
    argv = sidelight(
        "sidecar", "--collector", url, "--pid", str(pid), "--service", service, "--version", "1",
        "--pod", pod, "--rate", str(given.rate), "--window-seconds", str(given.window_seconds),
        "--spool-dir", str(folder / f"{pod}.spool"), "--listen", "127.0.0.1:0",
    )  # fmt: skip
    return running(folder / f"{pod}.sidecar.log", *argv)


def report(service: str, windows: Sequence[Window], folder: Path, given: argparse.Namespace) -> None:
    """Write the recording of a service under load, and print a description."""
    told = json.loads((folder / service).read_text())
    begun, ended = (10**9 * told[name] for name in ("start", "until"))
    by_pod = {f"{service}-{at}": dict(pairs) for at, pairs in enumerate(told["answered"])}
    loaded = [one for one in windows if begun <= one.start_ns and one.start_ns + one.duration_ns <= ended]
    recording = recording_of(loaded, by_pod)
    given.into.mkdir(parents=True, exist_ok=True)
    path = given.into / f"{service}.npz"
    save(recording, path)
    print(f"{service}: {told['failed']} requests failed, {told['dropped']} dropped; {described(recording)}")
    print(f"  {path}: {path.stat().st_size} bytes", flush=True)


def described(recording: Recording) -> str:
    requests = recording.requests.sum()
    seconds, clock, watched = recording.seconds().sum(), recording.clock.sum(), recording.watched.sum()
    return (
        f"{len(recording.start)} windows of {len(recording.pods)} pods, {requests:.0f} requests, "
        f"{recording.samples().sum():.0f} samples on the CPU ({seconds / watched:.1%} of the time watched, "
        f"{clock / recording.duration.sum():.1%} by the processes' clocks), {len(recording.functions)} "
        f"functions, {len(recording.parent)} nodes, deepest {recording.depths.max()}"
    )


if __name__ == "__main__":
    main()
