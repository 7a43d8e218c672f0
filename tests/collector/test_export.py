"""`sidelight export` as a person runs it: a process of its own against a collector's read API."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from sidelight_cli.collector_api import CollectorApiClient as ApiClient
from sidelight_cli.collector_errors import CollectorUnreachable, RequestRefused
from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Window
from tests.collector.api_client import Client, serving
from tests.collector.stored_windows import START_NS, stored, window
from tests.model.test_svg import drawn
from tests.processes import free_port

RANGE = ("--from", "2026-11-21T09:00:00Z", "--until", "2026-11-21T10:30:00Z")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STACKS = (
    "main (a.py:1);wait (a.py:5);[idle] 9 | main (a.py:1);work (b.py:7) 6 | "
    "main (a.py:1);work (b.py:9);[gil] 4"
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(stored([window(STACKS), window("other 1", service="cart")])) as client:
        yield client


async def export(
    url: object, *argv: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sidelight.main", "export", *argv]
    where = {} if url is None else {"SIDELIGHT_COLLECTOR": str(url)}
    return await asyncio.to_thread(
        subprocess.run,
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **where, **(env or {})},
    )


async def test_folded_text_goes_to_standard_output(client: Client) -> None:
    done = await export(client.make_url("/"), *RANGE, '{service="shop"}')
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout
        == "main (a.py);wait (a.py);[idle] 9\nmain (a.py);work (b.py) 6\nmain (a.py);work (b.py);[gil] 4\n"
    )


async def test_type_lines_and_states_shape_the_text(client: Client) -> None:
    argv = ("--type", "cpu", "--lines", "--no-states", '{service="shop"}')
    done = await export(client.make_url("/"), *RANGE, *argv)
    assert done.stdout == "main (a.py:1);work (b.py:7) 6\nmain (a.py:1);work (b.py:9) 4\n"


async def test_speedscope_json_goes_to_standard_output(client: Client) -> None:
    done = await export(client.make_url("/"), *RANGE, "--format", "speedscope", 'service="shop"')
    assert sum(json.loads(done.stdout)["profiles"][0]["weights"]) == 190_000_000


async def test_a_flame_graph_goes_to_standard_output(client: Client) -> None:
    done = await export(client.make_url("/"), *RANGE, "--format", "svg", "--type", "cpu", 'service="shop"')
    assert [box.name for box in drawn(done.stdout.encode())] == ["total", "main (a.py)", "work (b.py)"]


async def test_a_table_says_what_it_stands_on_when_asked_to(client: Client) -> None:
    done = await export(client.make_url("/"), *RANGE, "--format", "csv", "--about", 'service="shop"')
    assert done.stdout.startswith('"# {service=""shop""} wall"')
    assert '"work","b.py",10,10,0.1,0.1' in done.stdout


async def test_two_sides_go_to_standard_output(client: Client) -> None:
    sides = (
        "--baseline",
        "version:1",
        "--comparison",
        'match:service="cart"',
        "--comparison-from=-2h",
        "--no-states",
    )
    done = await export(client.make_url("/"), *RANGE, *sides, "--type", "cpu")
    assert (done.returncode, done.stdout) == (0, "main (a.py);work (b.py) 10 0\nother 1 1\n")


async def test_the_collector_chooses_the_times_of_an_exported_comparison() -> None:
    def run(version: str, at: float) -> list[Window]:
        return [window("main (a.py:1) 3", version=version, at=at + n * 60, seconds=60) for n in range(30)]

    sides = ("--baseline", "version:1", "--comparison", "version:2")
    async with serving(stored([*run("1", -9 * 3600), *run("2", -9 * 3600 + 1800)])) as client:
        url = client.make_url("/")
        chosen = await export(url, *sides, "--no-states", 'service="shop"')
        newest = await export(url, "--comparison", "version:2", "--no-states", 'service="shop"')
        ranged = await export(url, *sides, "--from", "-1h", 'service="shop"')
    assert (chosen.returncode, chosen.stdout, chosen.stderr) == (0, "main (a.py) 90 90\n", "")
    assert (newest.returncode, newest.stdout) == (0, chosen.stdout)
    assert (ranged.returncode, ranged.stdout) == (0, "")
    assert "from -1h until now" in ranged.stderr


async def test_an_exported_comparison_of_nothing_names_no_range(client: Client) -> None:
    done = await export(
        client.make_url("/"), "--baseline", "version:7", "--comparison", "version:8", 'service="shop"'
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert 'note: nothing matched service="shop" in the chosen time' in done.stderr


async def test_one_version_cannot_be_exported_as_a_comparison(client: Client) -> None:
    done = await export(client.make_url("/"), "--comparison", "version:1", 'service="shop"')
    assert (done.returncode, done.stdout) == (1, "")
    assert 'no version ran before "1"' in done.stderr


async def test_stacks_can_be_picked(client: Client) -> None:
    picked = ("--function", "work (b.py)", "--min-depth", "2", "--max-depth", "2", "--no-states")
    done = await export(client.make_url("/"), *RANGE, *picked)
    assert (done.returncode, done.stdout) == (0, "main (a.py);work (b.py) 10\n")
    grouped = ("--endpoint", "(no endpoint)", "--group-by", "endpoint", *picked)
    done = await export(client.make_url("/"), *RANGE, *grouped)
    assert (done.returncode, done.stdout) == (0, "(no endpoint);main (a.py);work (b.py) 10\n")


async def test_every_option_is_a_variable_too(client: Client) -> None:
    env = {
        "SIDELIGHT_FROM": str(START_NS // 10**9),
        "SIDELIGHT_UNTIL": "2026-11-21T10:30:00Z",
        "SIDELIGHT_TYPE": "gil",
        "SIDELIGHT_FORMAT": "folded",
        "SIDELIGHT_STATES": "false",
        "SIDELIGHT_SELECTOR": 'service="shop"',
    }
    done = await export(client.make_url("/"), env=env)
    assert (done.returncode, done.stdout) == (0, "main (a.py);work (b.py) 4\n")


async def test_times_before_now_are_no_options(client: Client) -> None:
    done = await export(client.make_url("/"), "--from", "-2h", "--until", "-1m", 'service="cart"')
    assert (done.returncode, done.stdout) == (0, "other 1\n")


async def test_when_nothing_matched_it_says_so_and_what_to_check(client: Client) -> None:
    done = await export(client.make_url("/"), *RANGE, 'service="nobody"')
    assert (done.returncode, done.stdout) == (0, "")
    assert 'note: nothing matched service="nobody"' in done.stderr
    assert "hint: check the selector" in done.stderr
    done = await export(client.make_url("/"), *RANGE, "--type", "gil", 'service="cart"')
    assert (done.returncode, done.stdout) == (0, "")
    assert "none has samples of type gil" in done.stderr


async def test_what_the_collector_refuses_is_said_in_its_words(client: Client) -> None:
    done = await export(client.make_url("/"), "service=shop")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: selector, position 8: ")
    assert "\nhint: A selector is Prometheus matchers" in done.stderr


async def test_a_collector_that_is_not_there_is_an_error_with_a_hint() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = await export(url)
    assert done.returncode == 1
    assert f"error: no answer from {url}: " in done.stderr
    assert "hint: Check the address" in done.stderr


async def test_a_server_that_is_no_collector_is_an_error_with_a_hint(client: Client) -> None:
    done = await export(client.make_url("/elsewhere"))
    assert done.returncode == 1
    assert "error: there is nothing at /elsewhere/api/v1/export" in done.stderr


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("--format", "jpeg"), "--format: 'jpeg' is not one of folded, speedscope"),
        (("--format", "svg", "--baseline", "version:1"), "--format svg has one side"),
        (("--type", "memory"), "--type: 'memory' is not one of wall, cpu, gil"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
        (("--collector", "localhost:8080"), "'localhost:8080' is not the address of a collector"),
        (("--token-file", "/nowhere/token"), "cannot read the token in /nowhere/token"),
    ],
)
async def test_a_wrong_option_is_exit_code_2(argv: tuple[str, ...], problem: str) -> None:
    done = await export("http://127.0.0.1:1", *argv)
    assert done.returncode == 2
    assert f"error: {problem}" in done.stderr
    assert "hint: " in done.stderr


async def test_a_missing_collector_is_exit_code_2() -> None:
    done = await export(None, env={"SIDELIGHT_COLLECTOR": ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: --collector is required" in done.stderr


async def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes("\ufeffschlüssel\r\n".encode())
    async with serving(stored([window("main 3")]), tokens=BearerTokens(read=("schlüssel",))) as client:
        url = client.make_url("/")
        allowed = await export(url, *RANGE, "--token-file", str(file))
        refused = await export(url, *RANGE)
    assert (allowed.returncode, allowed.stdout) == (0, "main 3\n")
    assert refused.returncode == 1
    assert "error: a token is needed to read here" in refused.stderr


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[str]:
    """The address of a server that answers everything in this way."""
    app = web.Application()
    app.add_routes([web.get("/{anything:.*}", handler)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_a_redirect_is_not_followed_because_the_token_would_go_along() -> None:
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    async with answering(elsewhere) as url:
        done = await export(url)
    assert done.returncode == 1
    assert "answered 302" in done.stderr
    assert "does not look like a Sidelight collector" in done.stderr


async def test_a_page_of_somebody_else_is_not_taken_for_a_profile() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html>", content_type="text/html")

    async with answering(page) as url:
        done = await export(url)
        with pytest.raises(CollectorUnreachable, match="not JSON"):
            await asyncio.to_thread(ApiClient(url).get, "labels", {})
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not look like a Sidelight collector" in done.stderr


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"main 1\n" * 99, mtime=0)[:-9]])
async def test_an_answer_that_breaks_off_or_is_damaged_is_an_error(body: bytes) -> None:
    async def damaged(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Encoding": "gzip", "Sidelight-Windows": "1"})

    async with answering(damaged) as url:
        done = await export(url)
    assert done.returncode == 1
    assert done.stderr.startswith("error: no answer from ")


@pytest.mark.parametrize("url", ["http://[::1", "http://h/?query=", "http://h/#top", "ftp://h", "h:8080"])
async def test_what_is_no_address_is_refused_before_anything_is_asked(url: str) -> None:
    done = await export(url)
    assert done.returncode != 0
    assert "is not the address of a collector" in done.stderr


@pytest.mark.parametrize(
    ("content", "problem"), [("a\nb\n", "is not one line"), ("\n", "there is no token in")]
)
async def test_a_token_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, content: str, problem: str
) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    done = await export("http://127.0.0.1:1", "--token-file", str(file))
    assert done.returncode != 0
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


async def test_output_that_cannot_be_written_is_an_error(client: Client) -> None:
    command = f"{sys.executable} -m sidelight.main export {' '.join(RANGE)} > /dev/full"
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SIDELIGHT_COLLECTOR": str(client.make_url("/"))},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write to standard output: No space left on device")


async def test_other_programs_ask_through_the_same_client(client: Client) -> None:
    asking = ApiClient(str(client.make_url("/")))
    when = {"from": RANGE[1], "until": RANGE[3]}
    answer = await asyncio.to_thread(asking.get, "labels/service/values", when)
    assert answer["values"] == ["cart", "shop"]
    with pytest.raises(RequestRefused) as refused:
        await asyncio.to_thread(asking.get, "labels", {"form": "-1h"})
    assert (refused.value.status, refused.value.reason) == (400, Reason.BAD_PARAMETER)


def large() -> ObjectStore:
    """A store whose export is more than a pipe holds."""
    counts = {Stack(f"main;{'f' * 200}{number}"): Counts(running=1) for number in range(20_000)}
    return stored([replace(window(), counts=counts)])


async def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    async with serving(large()) as client:
        export = f"{sys.executable} -m sidelight.main export {' '.join(RANGE)}"
        script = f"{export} | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "SIDELIGHT_COLLECTOR": str(client.make_url("/"))},
        )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"
    assert len(done.stdout.splitlines()) == 2


async def test_ctrl_c_ends_it_quietly_with_130() -> None:
    async with serving(large()) as client:
        command = [
            sys.executable,
            "-m",
            "sidelight.main",
            "export",
            *RANGE,
            "--collector",
            str(client.make_url("/")),
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stderr is not None
        await process.stdout.readline()  # it is in the middle of its output, with the pipe full
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert (process.returncode, said) == (130, b"")
