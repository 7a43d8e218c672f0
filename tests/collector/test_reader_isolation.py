"""What happens in a namespace changes no answer of a reader that may not see it.

All read routes of the OpenAPI document are asked before and after another namespace appears: status, headers,
entity tags and bodies stay the same. A hidden resource is answered like one that does not exist.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ulid import ULID

from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from sidelight_collector.storage.backends.s3 import S3Store
from tests.collector.clickhouse import Server
from tests.collector.clusters import pod
from tests.collector.conftest import Answer, Serve
from tests.collector.test_api_document import DOCUMENT
from tests.collector.two_namespaces import MARK, Filled, fill, open_place, querier_questions, questions
from tests.processes import S3Server

CACHED_PATHS = (
    *("services", "overview", "labels", "labels/{name}/values", "timeline", "heatmap", "flamegraph"),
    *("depth", "stack-composition", "top", "functions", "endpoints", "lines", "export"),
    "sidecars",
    "export/{name}.speedscope.json",
    *("compare", "verdict", "export/compare"),
    *("/pyroscope/render", "/pyroscope/render-diff", "/pyroscope/label-values"),
)
"""Paths whose answers have an entity tag."""
UNRELATED_HEADERS = ("date", "content-length")
"""When an answer was given, and the length of what else is compared."""
SIDES = {"baseline": 'version="1"', "comparison": 'version="2"'}
SUMMED: tuple[tuple[str, dict[str, str]], ...] = (
    ("flamegraph", {}),
    ("flamegraph", {"query": 'namespace="beta"'}),
    ("top", {"query": 'service="shared-shop"'}),
    ("depth", SIDES),
    ("compare", {**SIDES, "verdict": "0"}),
    ("export", {"format": "folded"}),
)
"""Questions whose stacks an engine sums."""
NAMING = ("flamegraph", "top", "compare", "export")
"""Those whose answers name functions."""
MISSING = Filled("nobody", "c_01M883XB1SK9Y8CVHV1VR54JHX", "nobody-1", "", "")


def fixed_range() -> dict[str, str]:
    now = int(time.time())
    return {"from": str(now - 1800), "until": str(now + 1800)}


def walk(of: Filled, link: str, range_: Mapping[str, str]) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """All questions: the path in the document, the address and the parameters."""
    for path, asked in questions(of, link, range_).items():
        for address, given in asked:
            yield path, address.removeprefix("!"), given


def comparable(answer: Answer) -> tuple[int, dict[str, str], Any]:
    """An answer without the time when it was given."""
    headers = {name: value for name, value in answer.headers.items() if name not in UNRELATED_HEADERS}
    body: Any = answer.body
    if body.startswith(b'{"discovery"'):
        body = answer.json
        body["discovery"].pop("observed_at")
    return answer.status, headers, body


async def test_another_namespace_changes_no_answer_of_a_reader(serving: Serve, tmp_path: Path) -> None:
    range_ = fixed_range()
    async with open_place(serving, tmp_path, namespaces=["alpha"]) as here:
        # A pod of a service that is profiled in the other namespace alone.
        unprofiled = pod("alpha-pod", namespace="alpha", owner=f"{MARK}-shop")
        here.cluster.put(ResourceKind.PODS, unprofiled)
        # Until the sidecar's report is stored, the capture itself changes.
        while (await here.ask("root", f"captures/{here.ours.capture}")).json["state"] != "ready":
            pass
        while len((await here.ask("alice", "workloads")).json["workloads"]) < 2:
            pass
        asked = list(walk(here.ours, here.link, range_))
        assert {path for path, *_ in asked} >= {
            path.removeprefix("/api/v1/") for path, one in DOCUMENT["paths"].items() if "get" in one
        }
        before = [(await here.ask("alice", *one), await here.ask("root", *one)) for _, *one in asked]
        span_ms = int(range_["from"]) * 1000, int(range_["until"]) * 1000
        calls = [(method, one) for method, given in querier_questions(span_ms).items() for one in given]
        of_grafana = [comparable(await here.call("alice", *one)) for one in calls]
        here.theirs = await fill(here, "beta", MARK)
        changed = set()
        for (path, *one), (of_alice, of_root) in zip(asked, before, strict=True):
            assert of_alice.status in (200, 303), (one, of_alice.body)
            again = await here.ask("alice", *one)
            assert comparable(again) == comparable(of_alice), one
            tag = of_alice.headers.get("etag")
            assert (tag is not None) == (path in CACHED_PATHS), path
            if tag is not None:
                cached = await here.ask("alice", *one, If_None_Match=tag)
                assert (cached.status, cached.headers["etag"]) == (304, tag), one
            for name, value in (of_root.headers | of_alice.headers).items():
                if name == "cache-control" and path != "/l/{id}":  # it leads to a page, which is everybody's
                    assert {"private", "no-store"} & set(value.replace(",", " ").split()), one
            if comparable(await here.ask("root", *one)) != comparable(of_root):
                changed.add(path)
        assert [comparable(await here.call("alice", *one)) for one in calls] == of_grafana
        # Others see what alice does not: each of these paths shows the other namespace.
        of_one_resource = {path for path in dict(questions(here.ours, "")) if "{id}" in path}
        assert changed == {path for path, *_ in asked} - of_one_resource - {"openapi.json"}


async def test_entity_tags_of_others_are_no_key_to_their_answers(serving: Serve, tmp_path: Path) -> None:
    range_ = fixed_range()
    async with open_place(serving, tmp_path) as here:
        for _, *one in walk(here.ours, here.link, range_):
            # At the same moment, when equal queries share one answer.
            whole, part = await asyncio.gather(here.ask("root", *one), here.ask("alice", *one))
            if "etag" not in whole.headers or whole.body == part.body:
                continue
            assert whole.headers["etag"] != part.headers["etag"]
            for who, other, own in (("alice", whole, part), ("root", part, whole)):
                answer = await here.ask(who, *one, If_None_Match=other.headers["etag"])
                assert (answer.status, answer.body) == (200, own.body), one


async def test_a_hidden_resource_is_answered_like_a_missing_one(serving: Serve, tmp_path: Path) -> None:
    async with open_place(serving, tmp_path) as here:
        missing_deploy = f"{here.theirs.deploy[:-4]}0000"
        missing_note = f"{here.theirs.note[:-4]}aaaa"
        assert (missing_deploy, missing_note) != (here.theirs.deploy, here.theirs.note)
        paths = [path for path in DOCUMENT["paths"] if "{id}" in path]
        tried = 0
        for path in paths:
            # Sidecars put recordings, and are not readers.
            for method in set(DOCUMENT["paths"][path]) - {"put"}:
                answers = []
                for capture, recording, deploy, note in (
                    (here.theirs.capture, here.theirs.recording, here.theirs.deploy, here.theirs.note),
                    (MISSING.capture, MISSING.recording, missing_deploy, missing_note),
                ):
                    name = deploy if "/deploys/" in path else note if "/notes/" in path else capture
                    address = path.replace("{id}", name).replace("{name}", recording)
                    body = b'{"text": "x"}' if method == "patch" else b""
                    answer = await here.ask("alice", address, method=method.upper(), body=body)
                    text = answer.body.decode().replace(name, "ID").replace(recording, "NAME")
                    headers = {key: value for key, value in answer.headers.items() if key != "content-length"}
                    answers.append((answer.status, text, headers.keys()))
                assert answers[0] == answers[1], (method, path)
                assert answers[0][0] == 404
                tried += 1
        assert tried >= 13


def both_in_one_request() -> bytes:
    """Windows of both namespaces with equal stacks, which are stored in one segment."""
    texts = []
    for namespace, mark in (("alpha", "alphamark"), ("beta", MARK)):
        for version in ("1", "2"):
            start_ns = time.time_ns() - 30 * 10**9
            header = {
                "format": 1,
                "id": str(ULID.from_timestamp(start_ns // 10**6)),
                "labels": {
                    "service": "shared-shop",
                    "version": version,
                    "namespace": namespace,
                    "pod": f"{mark}-{version}",
                },
                "start_ns": start_ns,
                "duration_ns": 10**9,
                "period_ns": 10**7,
            }
            texts.append(f"# {json.dumps(header)}\nmain (a.py:1) 5\nmain (a.py:1);{mark}_fn (b.py:3) 7\n")
    return "".join(texts).encode()


async def test_readers_of_one_namespace_are_isolated_on_clickhouse_too(
    serving: Serve, tmp_path: Path, s3_server: S3Server, clickhouse: Server, new_bucket: Callable[[], str]
) -> None:
    bucket = new_bucket()
    store = S3Store(bucket, "some/prefix", endpoint=s3_server.endpoint)
    password = tmp_path / "password"
    password.write_text(clickhouse.url.password)
    remote = {
        "store": f"s3://{bucket}/some/prefix",
        "s3_endpoint": s3_server.endpoint,
        "engine": clickhouse.with_(password=""),
        "engine_password_file": password,
        "engine_fallback": False,
        "engine_timeout_seconds": 200.0,
        "query_timeout_seconds": 200.0,
    }
    async with open_place(serving, tmp_path, store, namespaces=(), **remote) as here:
        assert (await here.collector.post(both_in_one_request())).status == 200
        answers = []
        for path, given in SUMMED:
            given = {**fixed_range(), **given}
            # Twice each and in turns: no cached answer is another reader's.
            for who in ("root", "alice", "root", "alice"):
                answer = await here.ask(who, path, given)
                assert answer.status == 200, (path, given, answer.body)
                is_empty = who == "alice" and given.get("query") == 'namespace="beta"'
                is_named = who == "root" and path in NAMING
                assert (answer.headers.get("sidelight-engine") == "clickhouse") != is_empty, (who, path)
                assert (MARK in answer.body.decode()) == is_named, (who, path, given)
                answers.append((who, path, given, answer))
    # The same answers as of a collector that sums by itself, over the same objects.
    async with open_place(serving, tmp_path, store, namespaces=()) as here:
        for who, path, given, answer in answers:
            own = await here.ask(who, path, given)
            assert (own.status, own.body) == (answer.status, answer.body), (who, path, given)
