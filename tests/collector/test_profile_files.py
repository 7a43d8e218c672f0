"""Profile files that a reader sends are answered within limits, and nothing is stored."""

from __future__ import annotations

import gzip
import json
from typing import Any

import jsonschema
import pytest

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.profile_files.file_tree import build_file_tree
from sidelight_collector.profile_files.reader_process import ReaderLimits, ReadingTimeout, read_in_process
from sidelight_collector.profile_files.sent_file import ProfileFile
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.errors import LimitExceeded
from sidelight_model.tree import Tree
from tests.cli.import_files.test_import import RECORDED
from tests.collector.api_client import document
from tests.collector.conftest import Running, Serve

FOLDED = b"main (a.py:1);fast (a.py:2) 900\nmain (a.py:1);slow (b.py:7) 100\n"
SLOWER = b"main (a.py:1);fast (a.py:2) 500\nmain (a.py:1);slow (b.py:7) 500\n"
LIMITS = ReaderLimits(1 << 30, 1000, 60)


async def send(
    running: Running, path: str, query: str = "", headers: dict[str, str] | None = None, **files: bytes
) -> tuple[int, dict[str, Any]]:
    """Send a form with files; return status and body."""
    parts = [
        b'--limit\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in files.items()
    ]
    form = {"Content-Type": "multipart/form-data; boundary=limit", **(headers or {})}
    answer = await running.ask(
        "POST", f"/api/v1/files/{path}{query}", b"".join(parts) + b"--limit--\r\n", form
    )
    return answer.status, json.loads(answer.body)


def check_schema(answer: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/Flame", "components": document()["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer)


async def test_a_file_gives_its_call_tree_and_is_not_stored(serving: Serve) -> None:
    store = MemoryStore()
    async with serving(store) as running:
        before = sorted(store.list(""))
        status, answer = await send(
            running, "flamegraph", "?file_name=shop.folded", file=gzip.compress(FOLDED)
        )
        assert (status, sorted(store.list(""))) == (200, before)
        _, by_line = await send(running, "flamegraph", "?lines=1", file=FOLDED)
    check_schema(answer)
    assert answer["names"] == ["total", "main (a.py)", "fast (a.py)", "slow (b.py)"]
    assert (answer["type"], answer["sides"][0]["selector"]) == ("cpu", "shop.folded")
    assert answer["sides"][0]["self_samples"] == [0, 0, 900, 100]
    assert answer["sides"][0]["self_us"] == [0, 0, 9_000_000, 1_000_000]
    assert answer["files"] == [{"name": "shop.folded", "format": "folded text", "damaged_parts": 0}]
    assert "slow (b.py:7)" in by_line["names"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("py-spy.chrometrace.json.gz", "cpu"),
        ("cpython.gecko", "cpu"),
        ("austin.mojo", "cpu"),
        ("python-3.13.perf", "cpu"),
    ],
)
def test_files_of_other_tools_have_a_type_of_their_own(name: str, kind: str) -> None:
    content = (RECORDED / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    answer = json.loads(read_in_process([ProfileFile(name, content)], None, LIMITS, lines=False))
    check_schema(answer)
    assert (answer["type"], answer["sides"][0]["samples"] > 5) == (kind, True)


async def test_two_files_have_the_verdict_of_the_command_line(serving: Serve) -> None:
    async with serving(MemoryStore()) as running:
        status, answer = await send(running, "compare", baseline=FOLDED, comparison=SLOWER)
        _, swapped = await send(running, "compare", baseline=SLOWER, comparison=FOLDED)
    assert status == 200
    check_schema(answer)
    verdict = answer["verdict"]
    assert (verdict["basis"], verdict["direction"]) == ("composition", "not_judged")
    culprits = {row["function"]: round(row["delta"], 3) for row in verdict["culprits"]["rows"]}
    assert culprits == {"fast": -0.4, "slow": 0.4}
    changed = [
        answer["names"][name] for name, flag in zip(answer["name"], answer["changed"], strict=True) if flag
    ]
    assert changed == ["fast (a.py)", "slow (b.py)"]
    assert [side["self_samples"] for side in answer["sides"]] == [[0, 0, 900, 100], [0, 0, 500, 500]]
    assert {row["function"]: round(row["delta"], 3) for row in swapped["verdict"]["culprits"]["rows"]} == {
        "fast": 0.4,
        "slow": -0.4,
    }


async def test_refusals_have_the_error_and_hint_of_the_reader(serving: Serve) -> None:
    async with serving(MemoryStore()) as running:
        binary = (RECORDED / "cpython.binary").read_bytes()
        status, refusal = await send(running, "flamegraph", "?file_name=shop.bin", file=binary)
        assert (status, refusal["error"]) == (400, "bad_folded")
        assert "private binary format" in refusal["message"]
        assert "replay --gecko -o NAME.json shop.bin" in refusal["hint"]
        status, refusal = await send(running, "flamegraph", file=b"no profile\n")
        assert (status, refusal["error"]) == (400, "bad_folded")
        status, refusal = await send(running, "compare", baseline=FOLDED)
        assert (status, refusal["message"]) == (400, "the form has no field comparison")
        status, refusal = await send(running, "flamegraph", file=b"\x1f\x8bcut")
        assert (status, "cannot be unpacked" in refusal["message"]) == (400, True)


async def test_a_file_at_the_limit_is_read_and_a_byte_more_is_refused(serving: Serve) -> None:
    async with serving(MemoryStore(), max_file_bytes=len(FOLDED)) as running:
        assert (await send(running, "flamegraph", file=FOLDED))[0] == 200
        assert (await send(running, "flamegraph", file=gzip.compress(FOLDED)))[0] == 200
        for content in (FOLDED + b"\n", gzip.compress(FOLDED + b"\n"), FOLDED * 1000):
            status, refusal = await send(running, "flamegraph", file=content)
            assert (status, refusal["error"]) == (413, "too_large")
            assert "--max-file-bytes" in refusal["hint"]


async def test_readers_alone_may_send_files_from_pages_of_this_host(serving: Serve) -> None:
    tokens = BearerTokens(read=("reader",), write=("writer",))
    async with serving(MemoryStore(), tokens) as running:
        reader = {"Authorization": "Bearer reader"}
        assert (await send(running, "flamegraph", headers=reader, file=FOLDED))[0] == 200
        for token in ("Bearer writer", ""):
            assert (await send(running, "flamegraph", headers={"Authorization": token}, file=FOLDED))[
                0
            ] == 401
        foreign = {**reader, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert (await send(running, "flamegraph", headers=foreign, file=FOLDED))[0] == 403


def test_stacks_beyond_the_memory_are_refused() -> None:
    stacks = "".join(f"{'f;' * 2000}g{number} 1\n" for number in range(4000)).encode()
    with pytest.raises(LimitExceeded, match="memory"):
        read_in_process([ProfileFile("a", stacks)], None, ReaderLimits(64 << 20, 1000, 60), lines=False)


def test_a_reader_that_takes_too_long_is_ended() -> None:
    with pytest.raises(ReadingTimeout):
        read_in_process([ProfileFile("a", FOLDED)], None, ReaderLimits(1 << 30, 1000, 0), lines=False)


def test_a_pruned_comparison_keeps_its_totals() -> None:
    files = [ProfileFile("a", FOLDED), ProfileFile("b", SLOWER)]
    answer = json.loads(read_in_process(files, None, ReaderLimits(1 << 30, 2, 60), lines=False))
    assert answer["pruned"] == {"nodes": 2, "limit": 2}
    assert [sum(side["self_samples"]) for side in answer["sides"]] == [1000, 1000]
    assert len(answer["changed"]) == len(answer["level"])


def test_the_native_kernel_builds_the_tree_of_the_reference() -> None:
    stacks = [("main (a.py:1);f (a.py:2)", 3, 5), ("main (a.py:9);f (a.py:3)", 1, 7), ("main (a.py:1)", 2, 0)]
    stacks += [(f"main (a.py:1);g\u20ac (b.py:{line}) ;%3B", line, 100 * line) for line in range(1, 9)]

    def named(tree: Tree, folded: int) -> list[tuple[object, ...]]:
        names = [tree.names[code] for code in tree.name_index]
        return [*zip(tree.level, names, tree.self_samples[0], tree.self_ns[0], strict=True), (folded,)]

    assert NATIVE
    for lines in (False, True):
        for nodes in (1, 3, 1000):
            native, reference = (
                build_file_tree(stacks, lines=lines, max_nodes=nodes, native=kernel)
                for kernel in (NATIVE, None)
            )
            assert named(*native) == named(*reference)
    assert build_file_tree([("f", 1, 2**62)] * 2, lines=True, max_nodes=9)[0].self_ns == [[0, 2**63]]
