"""One node agent against a sidecar in each pod: CPU and memory of both, in turn.

    python -m bench.node_agent [--pods 20] [--seconds 60] [--rounds 3] [--requests 2] [--rate 100]

Each pod is a gunicorn with two workers, so three processes, in a PID namespace and a cgroup as the kubelet
names it. A worker computes 5 ms for each of the `--requests` a second. All settings are defaults; an API
server on loopback lists the pods. CPU is the kernel's time of all threads. Memory is PSS, in which programs
that share a page pay a part of it each; RSS counts it for each.
At a low `--rate`, within all budgets, both take the same number of samples. Needs root and writable cgroups.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import socket
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil

from bench import ingest
from bench.sidecar_idle import cpu_seconds, metric, started

PROCESSES = 3
APPLICATION = """
import time

def compute():
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        sum(range(500))

def application(environ, start_response):
    compute()
    start_response("200 OK", [])
    return [b""]
"""
_CGROUPS = Path("/sys/fs/cgroup")
_SETTLE_SECONDS = 30
_SAMPLER = (sys.executable, "-m", "sidelight.main")


@dataclass(frozen=True)
class Pod:
    """A pod that runs: its object of the API, the socket of its service, and the pid of its master."""

    body: dict[str, Any]
    socket: Path
    master: int


@dataclass(frozen=True)
class Cost:
    """Millicores, MiB, and samples a second of some programs together."""

    cpu: float
    pss: float
    rss: float
    samples: float


@contextmanager
def cgroup() -> Iterator[Path]:
    """A cgroup of this run in a hierarchy that every process is in; removed at the end."""
    tops = [_CGROUPS / name for name in ("pids", "unified", "")]
    top = next(path for path in tops if (path / "cgroup.procs").is_file())
    folder = top / f"sidelight-bench-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        for path, _, _ in os.walk(folder, topdown=False):
            while Path(path, "cgroup.procs").read_text():
                time.sleep(0.05)
            Path(path).rmdir()


def run_pod(stack: ExitStack, cgroups: Path, scratch: Path, number: int) -> Pod:
    uid, container = str(uuid.uuid4()), secrets.token_hex(32)
    folder = cgroups / "kubepods" / "burstable" / f"pod{uid}" / container
    folder.mkdir(parents=True)
    path = scratch / f"{number}.sock"
    enter = f'echo 0 > {folder}/cgroup.procs && exec "$@"'
    gunicorn = [sys.executable, "-m", "gunicorn", "--workers", str(PROCESSES - 1), "--bind", f"unix:{path}"]
    space = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", enter, "sh"]
    command = [*space, *gunicorn, "--chdir", str(scratch), "application:application"]
    unshare = stack.enter_context(started(*command, said=scratch / f"pod-{number}"))
    while len(processes := (folder / "cgroup.procs").read_text().split()) < PROCESSES:
        if unshare.poll() is not None:
            raise SystemExit((scratch / f"pod-{number}").read_text())
        time.sleep(0.05)
    master = min(map(int, processes))
    stack.callback(end, master)
    status = {"name": "app", "containerID": f"containerd://{container}"}
    labels = {"app.kubernetes.io/name": f"shop-{number}", "sidelight.dev/inject": "true"}
    metadata = {"uid": uid, "namespace": "bench", "name": f"shop-{number}", "labels": labels}
    spec = {"nodeName": "bench", "containers": [{"name": "app", "image": "shop:1"}]}
    body = {
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": [status]},
    }
    return Pod(body, path, master)


@contextmanager
def api_server(pods: list[Pod], scratch: Path) -> Iterator[Path]:
    """Answer the lists of an API server and hold its watches; yields a kubeconfig."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            if "watch=" in self.path:
                is_over.wait()
                return
            items = [pod.body for pod in pods] if "/pods" in self.path else []
            document = {"metadata": {"resourceVersion": "1"}, "items": items}
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = scratch / "kubeconfig"
    cluster = {"name": "bench", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    contexts = [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]
    users = [{"name": "bench", "user": {}}]
    config = {"clusters": [cluster], "contexts": contexts, "users": users, "current-context": "bench"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    try:
        yield kubeconfig
    finally:
        is_over.set()
        server.shutdown()


def send_requests(pods: list[Pod], rate: float, is_over: threading.Event) -> None:
    """Ask each pod `rate` times a second, one after the other."""
    while True:
        for pod in pods:
            if is_over.wait(1 / rate / len(pods)):
                return
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(pod.socket))
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while connection.recv(4096):
                    pass


def end(pid: int) -> None:
    """End a program whose parent does not pass on signals, unshare or nsenter, and wait until it is gone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.terminate()
        process.wait()


@contextmanager
def sampler(stack: ExitStack, said: Path, *command: str) -> Iterator[tuple[int, str]]:
    """Start an agent or a sidecar; yields its pid and its address."""
    process = stack.enter_context(started(*command, said=said))
    while not (found := re.search(r"listening\S*\s+url=(\S+)", said.read_text())):
        if process.poll() is not None:
            raise SystemExit(said.read_text())
        time.sleep(0.1)
    pid = process.pid
    if command[0] == "nsenter":
        [pid] = (child.pid for child in psutil.Process(pid).children())
    try:
        yield pid, found[1]
    finally:
        end(pid)


def memory(pid: int, kind: str) -> float:
    [kibibytes] = re.findall(
        rf"^{kind}: +(\d+) kB$", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE
    )
    return int(kibibytes) / 1024


def measure(samplers: list[tuple[int, str]], processes: int, seconds: float) -> Cost:
    """Wait until these programs sample so many processes together, then measure them."""
    while sum(metric(url, "processes") for _, url in samplers) < processes:
        time.sleep(0.5)
    time.sleep(_SETTLE_SECONDS)

    def read() -> tuple[float, float, float]:
        samples = sum(metric(url, "samples_total") for _, url in samplers)
        return time.monotonic(), sum(cpu_seconds(pid) for pid, _ in samplers), samples

    before = read()
    time.sleep(seconds)
    elapsed, cpu, samples = (after - old for after, old in zip(read(), before, strict=True))
    pss, rss = (sum(memory(pid, kind) for pid, _ in samplers) for kind in ("Pss", "Rss"))
    cost = Cost(cpu / elapsed * 1000, pss, rss, samples / elapsed)
    print(f"{len(samplers)} at load {os.getloadavg()[0]:.1f}: {cost}", flush=True)
    return cost


def measure_both(
    pods: list[Pod], collector: str, kubeconfig: Path, given: argparse.Namespace
) -> tuple[Cost, Cost]:
    """Return the cost of one agent for all pods, and of a sidecar in each of them."""
    common = ["--collector", collector, "--listen", "127.0.0.1:0", "--rate", str(given.rate)]
    processes = PROCESSES * len(pods)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        options = ["--node", "bench", "--kubernetes", str(kubeconfig), "--spool-dir", f"{folder}/spool"]
        command = [*_SAMPLER, "agent", *common, *options]
        agent = stack.enter_context(sampler(stack, Path(folder, "agent"), *command))
        by_agent = measure([agent], processes, given.seconds)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sidecars = []
        for number, pod in enumerate(pods):
            space = ["nsenter", "--target", str(pod.master), "--pid", "--mount", "--"]
            options = ["--all", "--service", f"shop-{number}", "--spool-dir", f"{folder}/spool-{number}"]
            command = [*space, *_SAMPLER, "sidecar", *common, *options]
            sidecars.append(stack.enter_context(sampler(stack, Path(folder, f"{number}"), *command)))
        return by_agent, measure(sidecars, processes, given.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=float, default=2)
    parser.add_argument("--rate", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, cgroup() as cgroups, ExitStack() as stack:
        scratch = Path(folder)
        (scratch / "application.py").write_text(APPLICATION)
        pods = [run_pod(stack, cgroups, scratch, number) for number in range(options.pods)]
        collector = ingest.start(str(scratch / "store"), scratch / "port")
        stack.callback(collector.wait)
        stack.callback(collector.terminate)
        kubeconfig = stack.enter_context(api_server(pods, scratch))
        is_over = threading.Event()
        loader = threading.Thread(target=send_requests, args=(pods, options.requests, is_over), daemon=True)
        loader.start()
        stack.callback(loader.join)
        stack.callback(is_over.set)
        url = f"http://127.0.0.1:{(scratch / 'port').read_text().strip()}"
        rounds = [measure_both(pods, url, kubeconfig, options) for _ in range(options.rounds)]
    for name in ("cpu", "pss", "rss", "samples"):
        agents, sidecars = ([getattr(cost, name) for cost in costs] for costs in zip(*rounds, strict=True))
        ratios = [many / one for one, many in zip(agents, sidecars, strict=True)]
        print(
            f"{name:8} agent {statistics.median(agents):.1f}, {options.pods} sidecars "
            f"{statistics.median(sidecars):.1f}: {statistics.median(ratios):.1f} times "
            f"({min(ratios):.1f} to {max(ratios):.1f})"
        )


if __name__ == "__main__":
    main()
