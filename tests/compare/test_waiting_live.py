"""`sidelight compare --wait` on a real collector, while windows of a new deployment arrive."""

from __future__ import annotations

import json
from pathlib import Path

from tests.compare.running import SIDES, compare
from tests.compare.shipping import NEW, OLD, ship
from tests.running import collector, eventually, running, sidelight


def test_a_deployment_that_has_just_begun_is_waited_for_and_judged_once(tmp_path: Path) -> None:
    with collector(tmp_path, str(tmp_path / "store")) as served:
        ship(served.url, "1", OLD)
        told = tmp_path / "told.json"
        argv = (
            "--collector",
            served.url,
            *SIDES,
            "--fail-on",
            "cpu>+5%",
            "--fail-on",
            "function:json.*>+10%",
        )
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
        assert answer["verdict"]["method"]["look"] == 0


def test_when_the_time_is_over_what_there_is_is_judged(tmp_path: Path) -> None:
    with collector(tmp_path, str(tmp_path / "store")) as served:
        ship(served.url, "1", OLD)
        ship(served.url, "2", OLD, pods=1, minutes=[30])
        argv = (*SIDES, "--fail-on", "cpu>+1%", "--wait", "1", "--wait-every", "0.2")
        done = compare(*argv, url=served.url)
        assert done.returncode == 2, done.stderr
        assert "not enough data yet for cpu>+1%" in done.stderr
        nobody = compare("--baseline", "version:1", "--comparison", "version:7", *argv[4:], url=served.url)
        assert nobody.returncode == 66
        assert "B has no windows yet" in nobody.stderr
