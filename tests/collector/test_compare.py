"""`sidelight compare` and `sidelight query` as a person runs them, against a collector with windows."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import FURTHER_STATES
from sidelight_model.window import Quality, Window
from tests.collector.api_client import Client, get, serving
from tests.collector.stored_windows import stored, window

RANGE = ("--from=2026-11-21T09:00:00Z", "--until=2026-11-21T10:30:00Z")
SIDES = ("--baseline", "version:1", "--comparison", "version:2")
BEFORE = {"work (b.py:7)": 200, "gone (c.py:2)": 100, "same (d.py:1)": 400}
AFTER = {"work (b.py:9)": 300, "new (e.py:2)": 60, "same (d.py:1)": 400}
HOSTILE = "v\"1\\ $(touch /tmp/x) `id` 'q' é"
SHOP = '{service="shop"}'


def windows(stacks: dict[str, int], version: str, seconds: float = 30, **told: Any) -> Iterator[Window]:
    """Sixteen windows of each of three pods, whose counts scatter as samples do."""
    luck = random.Random(version)
    for pod in range(3):
        for at in range(16):
            counts = {name: max(1, round(luck.gauss(count, count**0.5))) for name, count in stacks.items()}
            text = " | ".join(f"main (a.py:1);{name} {count}" for name, count in counts.items())
            yield window(
                text, at=at * seconds, seconds=seconds, version=version, pod=f"pod-{version}-{pod}", **told
            )


@pytest.fixture(scope="module")
def store() -> ObjectStore:
    blind = Quality(
        attempts=3000,
        mode="command",
        sampler="py-spy 0.4.3",
        missing_states=("gil", "idle", *FURTHER_STATES),
    )
    return stored(
        [
            *windows(BEFORE, "1"),
            *windows(AFTER, "2"),
            *windows(BEFORE, "4"),
            *windows(AFTER, "3", quality=blind),
            window("\x1b[31mred (x.py) 500 | seldom (x.py) 1", version=HOSTILE, pod="pod-3", service="odd"),
            window(
                "main (a.py:1);work (b.py:7) 66 | main (a.py:1);same (d.py:1) 134", version="5", pod="pod-9"
            ),
        ]
    )


@pytest.fixture
async def client(store: ObjectStore) -> AsyncIterator[Client]:
    async with serving(store) as client:
        yield client


async def run(url: object, command: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "sidelight.main", command, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "SIDELIGHT_COLLECTOR": str(url), "COLUMNS": "80"},
    )


async def compare(client: Client, *argv: str) -> subprocess.CompletedProcess[str]:
    return await run(client.make_url("/"), "compare", *RANGE, *argv)


def asked(*conditions: str) -> list[str]:
    return [word for condition in conditions for word in ("--fail-on", condition)]


def states(told: Any) -> dict[str, str]:
    return {one["condition"]: one["state"] for one in told["verdict"]["conditions"]}


async def test_the_verdict_leads_and_a_table_of_functions_follows(client: Client) -> None:
    done = await compare(client, *SIDES, SHOP)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("B takes 10.0 % ")
    assert "more CPU time than A (95 % interval" in lines[0]
    assert lines[2].startswith("basis: concurrent. Both sides ran 2026-11-21 09:30")
    assert lines[4].startswith(
        'A  {service="shop", version="1"}  2026-11-21T09:00:00Z until 2026-11-21T10:30:00Z'
    )
    assert lines[4].endswith(" samples · 3 pods · 48 windows · 24 min watched")
    assert lines[6].startswith(
        "per pod-second, by samples, 95 % intervals, 3 and 3 pods in 16 blocks of time"
    )
    assert any(re.match(r"The change starts in 3 functions, \d+ % of it, in", line) for line in lines)
    rows = lines[lines.index("millicores per pod, largest difference of self first") + 2 :]
    assert [row.split("  ")[-1].strip() for row in rows] == [
        "function",
        "work (b.py)",
        "gone (c.py)",
        "new (e.py)",
        "same (d.py)",
        "main (a.py)",
    ]
    assert "3 of 3" in rows[1]
    assert "▲ takes more time in B (+5" in rows[1]
    assert "removed in B" in rows[2]
    assert "new in B" in rows[3]


async def test_without_times_and_sides_the_collector_chooses_and_the_text_says_what(client: Client) -> None:
    done = await run(client.make_url("/"), "compare", "--json", '{service="odd"}')
    assert done.returncode == 64
    assert "error: no version ran before" in done.stderr
    done = await run(client.make_url("/"), "compare", *SIDES, SHOP)
    assert done.returncode == 0
    sentence = "Both sides ran 2026-11-21 09:30\N{EN DASH}09:38 UTC."
    assert sentence in done.stdout.splitlines()
    assert sentence not in (await compare(client, *SIDES, SHOP)).stdout.splitlines()
    told = json.loads((await run(client.make_url("/"), "compare", *SIDES, "--json", SHOP)).stdout)
    assert (told["ranges"]["reason"], told["ranges"]["text"]) == ("overlap", sentence)
    done = await run(client.make_url("/"), "compare", "--comparison", "version:2", SHOP)
    assert (
        f'Version "2" is compared with the one before it, "1": {sentence[0].lower()}{sentence[1:]}'
        in done.stdout
    )


async def test_rows_can_be_ordered_by_total_limited_and_kept_to_what_is_beyond_noise(client: Client) -> None:
    done = await compare(client, *SIDES, "--by", "total", "--limit", "1", SHOP)
    assert done.stdout.splitlines()[-1] == "4 more functions: --limit 5 lists all."
    done = await compare(client, *SIDES, "--significant", SHOP)
    assert "same (d.py)" not in done.stdout
    assert "gone (c.py)" in done.stdout


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        (("cpu>+20%", "depth.p95>+5", "function:same>+20%"), 0),
        (("cpu>+3%", "depth.p95>+5"), 1),
        (("function:work>+10%",), 1),
        (("self:work (b.py)>+10%",), 1),
        (("function:new>+1pp", "cpu>+20%"), 1),
        (("function:gone<-50%",), 1),
        (("function:nothing.*>+1%",), 0),
        (("rate>+20%", "rate<-1%"), 0),
    ],
)
async def test_conditions_decide_what_it_ends_with(
    client: Client, conditions: tuple[str, ...], code: int
) -> None:
    done = await compare(client, *SIDES, SHOP, *asked(*conditions))
    assert (done.returncode, done.stderr) == (code, "")
    assert ("regressed" in done.stdout) is (code == 1)


async def test_versions_that_are_alike_are_fine(client: Client) -> None:
    conditions = asked("cpu>+5%", "function:work>+10%", "depth.mean>+1")
    done = await compare(client, "--baseline", "version:1", "--comparison", "version:4", SHOP, *conditions)
    assert done.returncode == 0, done.stdout


async def test_one_short_window_is_not_enough_data(client: Client) -> None:
    sides = ("--baseline", "version:1", "--comparison", "version:5")
    done = await compare(client, *sides, SHOP, *asked("function:work>+3%"))
    assert done.returncode == 2, done.stdout
    assert "inconclusive  function:work>+3%" in done.stdout


async def test_modes_that_are_no_match_are_not_comparable(client: Client) -> None:
    sides = ("--baseline", "version:1", "--comparison", "version:3")
    done = await compare(client, *sides, SHOP, *asked("cpu>+3%"))
    assert done.returncode == 3, done.stdout
    assert "cannot be compared" in done.stdout.splitlines()[0]
    assert "not comparable (mode_differs): " in done.stdout


async def test_a_version_that_nobody_ships_is_no_verdict(client: Client) -> None:
    done = await compare(client, "--baseline=version:1", "--comparison=version:9", SHOP, *asked("cpu>+3%"))
    assert done.returncode == 66
    assert done.stdout.startswith("B has no windows here, so there is nothing to compare.\n")
    assert "error: B matched nothing" in done.stderr


async def test_a_function_that_is_nowhere_is_fine_only_where_both_sides_were_watched(client: Client) -> None:
    for version, state in (("2", "pass"), ("3", "not_comparable"), ("9", "inconclusive")):
        sides = ("--baseline=version:1", f"--comparison=version:{version}")
        done = await compare(client, *sides, SHOP, *asked("function:nothing>+1%"), "--json")
        assert states(json.loads(done.stdout)) == {"function:nothing>+1%": state}


async def test_json_has_the_verdict_and_the_effects_of_every_row(client: Client) -> None:
    told = json.loads((await compare(client, *SIDES, "--json", SHOP)).stdout)
    assert told["verdict"]["direction"] == "increased"
    assert told["outcome"] == ""
    rows = {row["function"]: row for row in told["rows"]}
    work = rows["work"]["self"]
    assert work["baseline"] == pytest.approx(200 / 3000, rel=0.05)
    assert work["comparison"] == pytest.approx(300 / 3000, rel=0.05)
    assert work["low"] < work["delta"] < work["high"]
    directions = {name: row["self"]["direction"] for name, row in rows.items()}
    assert directions.pop("same") in ("unchanged", "inconclusive")
    assert directions.pop("main") == "unchanged"
    assert directions == {"work": "increased", "new": "new", "gone": "removed"}


async def test_junit_and_markdown_say_the_same(client: Client, tmp_path: Any) -> None:
    files = ("--junit", str(tmp_path / "j.xml"), "--markdown", str(tmp_path / "m.md"))
    done = await compare(client, *SIDES, SHOP, *asked("cpu>+3%", "function:same>+20%"), *files)
    assert done.returncode == 1
    cases = Xml.parse(tmp_path / "j.xml").iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == ["cpu>+3%"]
    assert (tmp_path / "m.md").read_text().startswith("### ❌ Sidelight: regressed\n\nB takes 10.0 % ")


async def test_rates_may_be_per_request(client: Client) -> None:
    requests = ("--baseline-requests", "100000", "--comparison-requests", "200000")
    told = json.loads((await compare(client, *SIDES, SHOP, *requests, *asked("cpu<-30%"), "--json")).stdout)
    assert told["verdict"]["method"]["unit"] == "request"
    assert states(told) == {"cpu<-30%": "regressed"}


async def test_sides_may_be_matchers_over_ranges_of_their_own(client: Client) -> None:
    own = ("--baseline", 'version="1"', "--comparison", 'match:version="2"')
    past = ("--comparison-from=-26h", "--comparison-until=2026-11-20T10:00:00Z")
    done = await compare(client, *own, *past)
    assert done.stdout.startswith("B has no windows here, so there is nothing to compare.\n")
    assert (await compare(client, *own)).stdout.startswith("B takes 10.0 % ")


async def test_stacks_can_be_picked(client: Client) -> None:
    told = json.loads((await compare(client, *SIDES, "--function", "new (e.py)", "--json", SHOP)).stdout)
    assert [side["samples"] > 0 for side in told["sides"]] == [False, True]
    assert {row["function"] for row in told["rows"]} == {"main", "new"}


async def test_states_that_a_side_did_not_record_give_no_verdict(client: Client) -> None:
    done = await compare(client, "--baseline", "version:1", "--comparison", "version:3", "--type", "wall")
    assert done.stdout.startswith("Thread time cannot be compared: ")
    assert "B recorded no idle samples" in done.stdout


async def test_no_name_acts_on_a_terminal_and_any_version_can_be_a_side(client: Client) -> None:
    sides = ("--baseline", f"version:{HOSTILE}", "--comparison", "version:1", 'service=~".*"')
    done = await compare(client, *sides)
    assert done.returncode == 0
    assert "\\x1b[31mred (x.py)" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.endswith("\n1 function with too few samples to test one by one.\n")
    told = json.loads((await compare(client, *sides, "--json")).stdout)
    assert told["sides"][0]["samples"] == 501


async def test_a_comparison_of_nothing_is_an_answer_and_not_an_error(client: Client) -> None:
    done = await compare(client, *SIDES, 'service="nobody"')
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Neither A nor B has windows here, so there is nothing to compare.\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--baseline", "version", "--comparison", "version:2"), "hint: A selector is Prometheus matchers"),
        ((*SIDES, "--fail-on", "function:(?=x)>+1%"), "condition"),
        ((*SIDES, "--from", "yesterday"), "hint: "),
    ],
)
async def test_what_the_collector_cannot_read_is_exit_code_64(
    client: Client, argv: tuple[str, ...], said: str
) -> None:
    done = await compare(client, *argv)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


async def test_a_reader_that_has_seen_enough_is_no_failure(client: Client) -> None:
    argv = [sys.executable, "-m", "sidelight.main", "compare", *RANGE, *SIDES, SHOP]

    def piped() -> tuple[int, bytes]:
        environment = {**os.environ, "SIDELIGHT_COLLECTOR": str(client.make_url("/"))}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert process.stdout
        process.stdout.close()
        _, said = process.communicate(timeout=60)
        return process.returncode, said

    assert await asyncio.to_thread(piped) == (0, b"")


async def test_ask_writes_the_answer_of_any_path(client: Client) -> None:
    given = {"query": 'service="shop"', "from": "2026-11-21T09:00:00Z", "until": "2026-11-21T10:30:00Z"}
    params = [f"--param={name}={value}" for name, value in given.items()]
    done = await run(client.make_url("/"), "query", "depth", *params)
    assert json.loads(done.stdout) == await get(client, "depth", **given)
    done = await run(client.make_url("/"), "query", "labels/version/values", *params)
    assert json.loads(done.stdout)["values"] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("argv", [("--param", "from"), ("--param", "=x")])
async def test_a_parameter_without_a_name_or_value_is_refused(argv: tuple[str, ...]) -> None:
    done = await run("http://127.0.0.1:1", "query", "depth", *argv)
    assert done.returncode == 2
    assert "is not NAME=VALUE" in done.stderr


async def test_what_ask_is_refused_is_said(client: Client) -> None:
    done = await run(client.make_url("/"), "query", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is nothing at /api/v1/nowhere" in done.stderr
