"""`sidelight compare` and `sidelight ask` as a person runs them, against a collector's read API."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from sidelight.stacks.window import Quality
from tests.collector.asking import Client, get, serving
from tests.collector.storing import stored, window

RANGE = ("--from=2026-11-21T09:00:00Z", "--until=2026-11-21T10:30:00Z")
SIDES = ("--a", "version:1", "--b", "version:2")
BEFORE = "main (a.py:1);work (b.py:7) 100 | main (a.py:1);gone (c.py:2) 50 | main (a.py:1);same (d.py:1) 200"
AFTER = "main (a.py:1);work (b.py:7) 300 | main (a.py:1);new (e.py:2) 60 | main (a.py:1);same (d.py:1) 203"
HOSTILE = "v\"1\\ $(touch /tmp/x) `id` 'q' é"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    blind = Quality(attempts=1000, mode="command", sampler="py-spy 0.4.3", missing_states=("gil", "idle"))
    store = stored(
        [
            window(BEFORE),
            window(AFTER, version="2", pod="pod-2"),
            window("\x1b[31mred (x.py) 5", version=HOSTILE, pod="pod-3", service="odd"),
            window(AFTER, version="3", quality=blind),
        ]
    )
    async with serving(store) as client:
        yield client


async def run(url: object, command: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "sidelight.cli", command, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SIDELIGHT_COLLECTOR": str(url), "COLUMNS": "80"},
    )


async def compare(client: Client, *argv: str) -> subprocess.CompletedProcess[str]:
    return await run(client.make_url("/"), "compare", *RANGE, *argv)


async def test_the_difference_is_a_sentence_and_a_table_of_functions(client: Client) -> None:
    done = await compare(client, *SIDES, '{service="shop"}')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "B takes 60.9 % more CPU time than A (0.350 → 0.563 seconds per pod-second).",
        "",
        'A  {service="shop", version="1"}  2026-11-21T09:00:00Z until 2026-11-21T10:30:00Z  '
        "350 samples · 1 pod · 1 window",
        'B  {service="shop", version="2"}  2026-11-21T09:00:00Z until 2026-11-21T10:30:00Z  '
        "563 samples · 1 pod · 1 window",
        "",
        "milliseconds per pod-second, largest difference of self first",
        "",
        "self A  self B  Δ self  total A  total B  Δ total  self, in words                     function",
        "   100     300    +200      100      300     +200  ▲ takes more time in B (+200.0 %)  work (b.py)",
        "     0    60.0   +60.0        0     60.0    +60.0  new in B                           new (e.py)",
        "  50.0       0   \u221250.0     50.0        0    \u221250.0  gone in B"
        "                          gone (c.py)",
        "   200     203   +3.00      200      203    +3.00  within counting noise              same (d.py)",
        "     0       0       0      350      563     +213  within counting noise              main (a.py)",
    ]


async def test_rows_can_be_ordered_by_total_limited_and_kept_to_what_is_beyond_noise(client: Client) -> None:
    done = await compare(client, *SIDES, "--by", "total", "--limit", "1", 'service="shop"')
    table = done.stdout.splitlines()
    assert table[8].endswith("main (a.py)")
    assert table[-1] == "4 more functions: --limit 5 lists all."
    done = await compare(client, *SIDES, "--significant", 'service="shop"')
    assert "same (d.py)" not in done.stdout
    assert "gone (c.py)" in done.stdout


async def test_json_has_the_rates_differences_and_noise_of_every_row(client: Client) -> None:
    done = await compare(client, *SIDES, "--json", 'service="shop"')
    told = json.loads(done.stdout)
    assert told["verdict"] == {
        "sentence": "B takes 60.9 % more CPU time than A (0.350 → 0.563 seconds per pod-second).",
        "direction": "more",
    }
    assert [side["samples"] for side in told["sides"]] == [350, 563]
    work = told["rows"][0]
    assert (work["function"], work["file"]) == ("work", "b.py")
    assert work["self"] == {
        "a": 0.1,
        "b": 0.3,
        "difference": pytest.approx(0.2),
        "noise": pytest.approx(0.04),
        "change": "more",
        "samples": [100, 300],
    }
    assert {row["function"]: row["self"]["change"] for row in told["rows"]} == {
        "work": "more",
        "new": "new",
        "gone": "gone",
        "same": "same",
        "main": "same",
    }


async def test_sides_may_be_matchers_over_ranges_of_their_own(client: Client) -> None:
    own = ("--a", 'pod="pod-1", version="1"', "--b", 'match:pod="pod-1", version="1"')
    done = await compare(client, *own, "--b-from=-26h", "--b-until=2026-11-20T10:00:00Z")
    assert done.stdout.startswith("B has no windows here, so there is nothing to compare.\n")
    assert "not comparable: one side has no samples" in done.stdout
    assert (await compare(client, *own)).stdout.startswith("CPU time: no difference beyond counting noise (")


async def test_stacks_can_be_picked(client: Client) -> None:
    done = await compare(client, *SIDES, "--function", "new (e.py)", "--json", 'service="shop"')
    told = json.loads(done.stdout)
    assert [side["samples"] for side in told["sides"]] == [0, 60]
    assert {row["function"] for row in told["rows"]} == {"main", "new"}


async def test_states_that_a_side_did_not_record_give_no_verdict(client: Client) -> None:
    done = await compare(client, "--a", "version:1", "--b", "version:3", "--type", "wall")
    assert done.stdout.startswith("thread time cannot be compared: B recorded no idle samples.\n")


async def test_no_name_acts_on_a_terminal_and_any_version_can_be_a_side(client: Client) -> None:
    done = await compare(client, "--a", f"version:{HOSTILE}", "--b", "version:1", 'service=~".*"')
    assert done.returncode == 0
    assert "\\x1b[31mred (x.py)" in done.stdout
    assert "\x1b" not in done.stdout
    told = json.loads(
        (await compare(client, "--a", f"version:{HOSTILE}", "--b", "version:1", "--json")).stdout
    )
    assert told["sides"][0]["samples"] == 5


async def test_a_comparison_of_nothing_is_an_answer_and_not_an_error(client: Client) -> None:
    done = await compare(client, *SIDES, 'service="nobody"')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("A and B have no windows here, so there is nothing to compare.\n")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        ((), "--a is required"),
        (("--a", "version:1"), "--b is required"),
        ((*SIDES, "--by", "name"), "--by: 'name' is not one of self, total"),
        ((*SIDES, "--limit", "-1"), "--limit"),
    ],
)
async def test_a_wrong_option_is_exit_code_2(client: Client, argv: tuple[str, ...], problem: str) -> None:
    done = await compare(client, *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


async def test_what_is_refused_is_said_and_is_exit_code_1(client: Client) -> None:
    done = await compare(client, "--a", "version", "--b", "version:2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "hint: A selector is Prometheus matchers" in done.stderr


async def test_a_reader_that_has_seen_enough_is_no_failure(client: Client) -> None:
    argv = [sys.executable, "-m", "sidelight.cli", "compare", *RANGE, *SIDES, 'service="shop"']

    def piped() -> tuple[int, bytes]:
        environment = {**os.environ, "SIDELIGHT_COLLECTOR": str(client.make_url("/"))}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert process.stdout
        process.stdout.close()
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    assert await asyncio.to_thread(piped) == (0, b"")


async def test_help_says_what_sides_are_and_what_the_exit_codes_mean() -> None:
    done = await run("", "compare", "--help")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0
    assert "version:VERSION" in text
    assert "Exits with 0 whatever the difference is" in text


async def test_ask_writes_the_answer_of_any_path(client: Client) -> None:
    given = {"query": 'service="shop"', "from": "2026-11-21T09:00:00Z", "until": "2026-11-21T10:30:00Z"}
    params = [f"--param={name}={value}" for name, value in given.items()]
    done = await run(client.make_url("/"), "ask", "depth", *params)
    assert json.loads(done.stdout) == await get(client, "depth", **given)
    done = await run(client.make_url("/"), "ask", "labels/version/values", *params)
    assert json.loads(done.stdout)["values"] == ["1", "2", "3"]


@pytest.mark.parametrize("argv", [("--param", "from"), ("--param", "=x")])
async def test_a_parameter_without_a_name_or_value_is_refused(argv: tuple[str, ...]) -> None:
    done = await run("http://127.0.0.1:1", "ask", "depth", *argv)
    assert done.returncode == 2
    assert "is not NAME=VALUE" in done.stderr


async def test_what_ask_is_refused_is_said(client: Client) -> None:
    done = await run(client.make_url("/"), "ask", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is nothing at /api/v1/nowhere" in done.stderr
