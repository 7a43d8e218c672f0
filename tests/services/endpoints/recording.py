"""Record one service under load with `sidelight record`."""

from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sidelight_model.counts import Counts
from sidelight_model.folded import Stack, parse_folded, split_stack
from tests.processes import Running, eventually, running, sidelight
from tests.services.endpoints.shops import APPS, WORK, Shop
from tests.services.endpoints.truth import find_handler
from tests.services.venvs import Environment

_MOST_RECORDINGS = 8
"""A service that gives work to itself may need some seconds to begin."""


def record(shop: Shop, environment: Environment, folder: Path, seconds: float) -> dict[Stack, Counts]:
    """Start a service, ask it for every path for `seconds`, and return its counted stacks."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    words = {"bin": environment.bin, "python": environment.python, "port": port}
    env = {**shop.env, "PYTHONPATH": f"{APPS}:{WORK}", "PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as stack:
        if shop.redis:
            stack.enter_context(_redis(folder, port))
        argv = [word.format(**words) for word in shop.argv]
        service = stack.enter_context(running(folder / "service.log", *argv, env=env, cwd=folder))
        stack.callback(service.end)
        eventually("the service works", lambda: _works(shop, service, port), seconds=120)
        stack.enter_context(_load(port, shop.paths))
        output = folder / "recorded.folded"
        command = sidelight(
            "record", "--pid", str(service.pid), "--seconds", f"{seconds:g}", "--subprocesses",
            "--rate", "200", "--format", "folded", "--output", str(output),
        )  # fmt: skip
        for _ in range(_MOST_RECORDINGS):
            with running(folder / "record.log", *command) as recorder:
                assert recorder.process.wait(seconds + 120) == 0, recorder.said()
            counts = parse_folded(output.read_text())
            if any(find_handler(split_stack(stack), shop) for stack in counts):
                return counts
        raise AssertionError(f"no handler ran: {service.said()[-2000:]}")


@contextmanager
def _load(port: int, paths: Sequence[str]) -> Iterator[None]:
    """Ask for the paths in turn, on two connections, as long as the context lasts."""
    ended = threading.Event()

    def ask() -> None:
        while paths and not ended.is_set():
            for path in paths:
                with suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _works(shop: Shop, service: Running, port: int) -> bool:
    assert service.alive(), service.said()[-2000:]
    for path in shop.paths:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10).close()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{shop.name} answers {path} with {error.code}: {service.said()}") from error
        except OSError:
            return False
    return True


@contextmanager
def _redis(folder: Path, port: int) -> Iterator[None]:
    argv = ("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    with running(folder / "redis.log", *argv) as server:
        eventually("Redis accepts connections", lambda: "Ready to accept" in server.said(), seconds=60)
        yield
        server.end()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
