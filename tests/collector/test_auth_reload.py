"""Files of tokens and rules that change while a collector serves, and a proxy of people in front of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from sidelight_collector.runtime.file_reload import FileReloader
from sidelight_model.errors import SidelightError
from tests.collector.processes import SECONDS, Process, post, text_of
from tests.processes import eventually

Start = Callable[..., Process]
RELOADS = 'sidelight_auth_reloads_total{outcome="%s"}'
CHECKS = ("--auth-check-interval-seconds", "0.1")


class MountedFiles:
    """A folder as the kubelet mounts it: names are links into `..data`, which is swapped as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir()

    def put(self, **contents: str) -> None:
        self._count += 1
        version = self.folder / f"..version_{self._count}"
        version.mkdir()
        for name, content in contents.items():
            (version / name).write_text(content)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(Path("..data", name))
        (self.folder / "..next").symlink_to(version.name)
        (self.folder / "..next").rename(self.folder / "..data")


def replace_file(path: Path, content: str) -> None:
    """Replace a file as editors and configuration management do."""
    (path.parent / "new").write_text(content)
    (path.parent / "new").replace(path)


def ask(port: int, path: str, token: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "text/plain"}
        connection.request("GET" if body is None else "POST", f"/api/v1/{path}", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def services(port: int, token: str) -> set[str] | int:
    """The services that a token sees, or the status of a refusal."""
    status, answer = ask(port, "services", token)
    return {one["service"] for one in answer["services"]} if status == 200 else status


def reloads(port: int, outcome: str) -> float:
    lines = (line.rpartition(" ") for line in text_of(port, "/metrics").splitlines())
    return next(float(value) for name, _, value in lines if name == RELOADS % outcome)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_changed_tokens_and_rules_count_without_a_restart(start: Start, tmp_path: Path, workers: str) -> None:
    mounted = MountedFiles(tmp_path / "mounted")
    mounted.put(tokens="ann one\n", rules="token:ann = alpha\n")
    writers = tmp_path / "writers"
    writers.write_text("w1\n")
    files = ("--read-tokens-file", str(mounted.folder / "tokens"), "--write-tokens-file", str(writers))
    files += ("--read-rules-file", str(mounted.folder / "rules"))
    port = start(str(tmp_path / "store"), *files, *CHECKS, "--workers", workers).port()
    for name in ("alpha", "beta"):
        status, _ = ask(port, f"windows?service={name}&namespace={name}", "w1", b"main 1\n")
        assert status == 200

    def all_workers_see(token: str, expected: object) -> bool:
        # Each connection may reach another worker.
        return all(services(port, token) == expected for _ in range(10))

    assert all_workers_see("one", {"alpha"})
    mounted.put(tokens="ann two\n", rules="token:ann = alpha, beta\n")
    eventually("every worker loads them", lambda: reloads(port, "loaded") >= int(workers))
    assert all_workers_see("two", {"alpha", "beta"})
    assert all_workers_see("one", 401)

    replace_file(writers, "w2\n")
    upload = "windows?service=alpha&namespace=alpha", b"main 1\n"
    eventually("every worker loads it", lambda: reloads(port, "loaded") >= 2 * int(workers))
    assert all(ask(port, upload[0], "w2", upload[1])[0] == 200 for _ in range(10))
    assert ask(port, upload[0], "w1", upload[1])[0] == 401
    assert reloads(port, "failed") == 0


def test_a_faulty_file_is_told_and_the_content_before_stays(start: Start, tmp_path: Path) -> None:
    rules, tokens = tmp_path / "rules", tmp_path / "tokens"
    rules.write_text("token:ann = alpha\n")
    tokens.write_text("ann one\n")
    options = ("--read-tokens-file", str(tokens), "--read-rules-file", str(rules), *CHECKS)
    process = start(str(tmp_path / "store"), *options)
    port = process.port()
    assert post(port, b"main 1\n", "?service=alpha&namespace=alpha")[0] == 200
    for number, (path, content) in enumerate(
        [(rules, "user:secretive may read\n"), (tokens, "# none\n"), (tokens, None)], 1
    ):
        failed = reloads(port, "failed")
        good = path.read_text()
        if content is None:
            path.unlink()
        else:
            replace_file(path, content)
        eventually("the fault is counted", lambda before=failed: reloads(port, "failed") > before)
        assert services(port, "one") == {"alpha"}
        ok, problem = text_of(port, "/readyz").splitlines()
        assert (ok, "tokens or rules" in problem, "secretive" in problem) == ("ok", True, False)
        replace_file(path, good)
        eventually("the problem is gone", lambda: text_of(port, "/readyz") == "ok\n")
        told = [event for event in process.events() if event["event"] == "tokens and rules not loaded"]
        assert len(told) == number
        assert str(path) in told[-1]["error"]


async def test_only_changes_and_faults_are_counted() -> None:
    contents: list[object] = ["a", "a", SidelightError("faulty"), SidelightError("faulty"), "a", "b"]
    used, counted = ["a"], []

    def read() -> str:
        content = contents.pop(0)
        if isinstance(content, SidelightError):
            raise content
        return str(content)

    def use(content: str) -> bool:
        used.append(content)
        return used[-2] != content

    reloader = FileReloader("files", read, use, counted.append)
    problems = []
    while contents:
        await reloader.check()
        problems.append(reloader.describe_problems())
    assert counted == ["failed", "failed", "loaded"]
    assert problems == [[], [], ["faulty"], ["faulty"], [], []]


@asynccontextmanager
async def signing_in(upstream: str, people: Mapping[str, str]) -> AsyncIterator[str]:
    """A proxy that signs people in by a cookie, and names them and their groups; its URL."""

    async def forward(request: web.Request) -> web.StreamResponse:
        user = request.cookies.get("session", "")
        if user not in people:
            return web.Response(status=302, headers={"Location": "/sign-in"})
        dropped = ("x-user", "x-groups", "cookie", "content-length", "transfer-encoding")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        headers |= {"X-User": user, "X-Groups": people[user]}
        content = await request.read()
        url = f"{upstream}{request.rel_url}"
        async with session.request(request.method, url, headers=headers, data=content or None) as answer:
            body = await answer.read()
            return web.Response(status=answer.status, body=body, content_type=answer.content_type)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    async with ClientSession(auto_decompress=False) as session, TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("")).rstrip("/")


async def test_people_behind_a_proxy_start_captures_beside_capture_tokens(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("ci s3cret\n")
    options = ("--read-proxy-header", "X-User", "--read-proxy-groups-header", "X-Groups")
    options += ("--trusted-proxies", "127.0.0.1", "--capture-tokens-file", str(tmp_path / "tokens"))
    process = start(str(tmp_path / "store"), *options, "--capture-groups", "sre")
    upstream = f"http://127.0.0.1:{process.port()}"
    wish = {"service": "shop", "seconds": 1}
    async with (
        signing_in(upstream, {"alice": "sre, shop", "bob": "shop"}) as proxy,
        ClientSession() as browser,
    ):
        # As a browser sends it from the collector's own page.
        origin = {"Origin": proxy, "Sec-Fetch-Site": "same-origin"}
        for user, status in (("alice", 201), ("bob", 403)):
            cookies = {**origin, "Cookie": f"session={user}"}
            async with browser.get(f"{proxy}/api/v1/captures", headers=cookies) as listed:
                assert listed.status == 200
            async with browser.post(f"{proxy}/api/v1/captures", json=wish, headers=cookies) as made:
                answer = await made.json()
                assert made.status == status, answer
            if status == 201:
                assert answer["requested_by"] == "alice"
            else:
                assert (answer["error"], "--capture-groups" in answer["hint"]) == ("forbidden", True)
        foreign = {"Cookie": "session=alice", "Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"}
        async with browser.post(f"{proxy}/api/v1/captures", json=wish, headers=foreign) as refused:
            assert refused.status == 403
        token = {"Authorization": "Bearer s3cret"}
        async with browser.post(f"{upstream}/api/v1/captures", json=wish, headers=token) as made:
            assert (made.status, (await made.json())["requested_by"]) == (201, "ci")
