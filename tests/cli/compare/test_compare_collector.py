"""`sidelight compare` and `sidelight export` on a real collector, also while windows arrive."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidelight_cli.compare.polling import Clock
from tests.cli.compare.compare_runner import SIDES, compare
from tests.cli.compare.shipped_versions import NEW, OLD, ship
from tests.processes import Collector, collector, eventually, running, sidelight


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector for all tests; each test ships versions of its own."""
    folder = tmp_path_factory.mktemp("collector")
    with collector(folder, str(folder / "store")) as one:
        yield one


def test_a_new_deployment_is_waited_for_and_judged_once(served: Collector, tmp_path: Path) -> None:
    ship(served.url, "1", OLD)
    told = tmp_path / "told.json"
    conditions = ("--fail-on", "cpu>+5%", "--fail-on", "function:json.*>+10%")
    argv = ("--collector", served.url, *SIDES, *conditions)
    waiting = ("--wait", "300", "--wait-every", "0.3", "--json", str(told))
    with running(tmp_path / "log", *sidelight("compare", *argv, *waiting)) as command:
        eventually("B is waited for", lambda: "B has no windows yet" in command.said(), 60)
        ship(served.url, "2", NEW, pods=1, minutes=[30])
        eventually("it is too early", lambda: "not enough data yet for" in command.said(), 60)
        assert command.alive()
        assert not told.exists()
        ship(served.url, "2", NEW, minutes=range(1, 30))
        assert command.process.wait(60) == 1, command.said()
    answer = json.loads(told.read_text())
    assert [one["state"] for one in answer["verdict"]["conditions"]] == ["regressed", "regressed"]
    assert answer["verdict"]["method"]["analysis_index"] == 0


def test_data_is_judged_as_it_is_when_the_wait_is_over(
    served: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only pauses take time: on a busy machine the first answer alone may take longer than the wait."""
    paused: list[float] = []
    clock = Clock(lambda: sum(paused), time.time, paused.append)
    monkeypatch.setattr("sidelight_cli.compare.polling.Clock", lambda: clock)
    ship(served.url, "3", OLD)
    ship(served.url, "4", OLD, pods=1, minutes=[30])
    waiting = ("--wait", "1", "--wait-every", "0.25")
    argv = ('{service="shop"}', "--fail-on", "cpu>+1%", *waiting, "--baseline", "version:3")
    done = compare(*argv, "--comparison", "version:4", url=served.url)
    assert done.returncode == 2, done.stderr
    assert "not enough data yet for cpu>+1%" in done.stderr
    assert paused == [0.25] * 4
    paused.clear()
    nobody = compare(*argv, "--comparison", "version:none", url=served.url)
    assert nobody.returncode == 66
    assert "B has no windows yet" in nobody.stderr
    assert paused == [0.25] * 4


def test_exports_in_both_formats_compare_equally(served: Collector, tmp_path: Path) -> None:
    for version, stacks in (("5", OLD), ("6", NEW)):
        ship(served.url, version, stacks, pods=2, minutes=range(1, 6))
        for format_, end in (("folded", "folded"), ("speedscope", "speedscope.json")):
            selector = f'{{service="shop", version="{version}"}}'
            asked = ("--collector", served.url, "--format", format_, "--type", "cpu")
            argv = sidelight("export", selector, *asked)
            done = subprocess.run(argv, capture_output=True, timeout=120, check=True)
            (tmp_path / f"{version}.{end}").write_bytes(done.stdout)
    pairs = [
        [str(tmp_path / f"{version}.{end}") for version in "56"] for end in ("folded", "speedscope.json")
    ]
    condition = ("--fail-on", "function:json_loads>+20%", "--json", "-")
    told = [compare(*pair, *condition) for pair in pairs]
    assert [one.returncode for one in told] == [1, 1]
    in_text, in_json = (json.loads(one.stdout) for one in told)
    assert in_text["rows"] == in_json["rows"]
    assert [side["samples"] for side in in_text["sides"]] == [side["samples"] for side in in_json["sides"]]
