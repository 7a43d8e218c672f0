"""What `sidelight compare` ends with: 0 to 3 are verdicts, and no error can be taken for one."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from sidelight_cli.compare.exit_codes import ExitCode
from tests.cli.compare.compare_runner import SIDES, compare
from tests.cli.compare.verdict_server import answer, answering, check, effect

FINE = ("cpu>+30%", effect(b=1.01))
REGRESSED = ("cpu>+3%", effect(b=1.05, direction="increased"))
UNCLEAR = ("cpu>+3%", effect(b=1.05, half=0.2, direction="inconclusive", detectable=0.3))
INCOMPARABLE = ("cpu>+3%", {"direction": "not_comparable"})


@pytest.mark.parametrize(
    ("conditions", "code"),
    [
        ([FINE], 0),
        ([FINE, REGRESSED, UNCLEAR], 1),
        ([FINE, UNCLEAR], 2),
        ([INCOMPARABLE], 3),
    ],
)
def test_conditions_decide(conditions: list[Any], code: int) -> None:
    with answering(answer(*conditions)) as served:
        asked = [word for text, _ in conditions for word in ("--fail-on", text)]
        done = compare(*SIDES, *asked, "--json", "-", url=served.url)
    assert (done.returncode, done.stderr) == (code, "")
    assert json.loads(done.stdout)["exit_code"] == code


def test_without_conditions_the_code_is_0_whatever_the_difference() -> None:
    refused = answer(checks=[check("blocking")], direction="not_comparable")
    for told in (answer(), refused, answer(windows=(0, 0), direction="no_data")):
        with answering(told) as served:
            assert compare(*SIDES, url=served.url).returncode == 0


def test_a_side_without_windows_is_an_error_of_its_own() -> None:
    told = answer(("cpu>+3%", {"direction": "no_data"}), windows=(6, 0), direction="no_data")
    with answering(told) as served:
        done = compare(*SIDES, "--fail-on", "cpu>+3%", "--json", "-", url=served.url)
    assert done.returncode == ExitCode.NO_INPUT == 66
    assert "error: B matched nothing, so no condition can be evaluated" in done.stderr
    assert "--wait" in done.stderr
    assert json.loads(done.stdout)["outcome"] == "no_data"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--fail-on", "cpu>3"), "condition 'cpu>3', position 5: % or pp or ms or s was expected"),
        (("--fail-on", "nothing>+3%"), "'nothing' is not one of rate, cpu"),
        (("--by", "name"), "--by: 'name' is not one of self, total"),
        (("--limit", "-1"), "--limit"),
        (("--alpha", "0.5"), "--alpha: '0.5' is not below 0.5"),
        (("--analysis-index", "0"), "--analysis-index: '0' is not 1 or more"),
        (("--nonsense",), "unrecognized arguments: --nonsense"),
        (("--json", "-", "--junit", "-"), "only one of --json, --junit and --markdown can be -"),
        (("--baseline-requests", "10"), "belong together"),
        (("--baseline-seconds", "10", "--comparison-seconds", "10"), "are for files"),
        (("--collector", "shop:80"), "is not the address of a collector"),
        (("--token-file", "/nowhere"), "cannot read the token"),
    ],
)
def test_what_cannot_be_asked_is_64(argv: tuple[str, ...], said: str) -> None:
    done = compare(*SIDES, *argv, url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert said in done.stderr
    assert "hint: " in done.stderr


def test_a_missing_collector_is_64() -> None:
    done = compare(*SIDES)
    assert done.returncode == 64
    assert "--collector is required" in done.stderr
    assert "SIDELIGHT_COLLECTOR" in done.stderr


@pytest.mark.parametrize("name", ["collector", "baseline", "comparison"])
def test_an_empty_option_is_64_because_a_shell_variable_may_be_unset(name: str) -> None:
    given = {"collector": "http://127.0.0.1:1", "baseline": "version:1", "comparison": "version:2"}
    empty = compare(*(f"--{one}={'' if one == name else value}" for one, value in given.items()))
    assert empty.returncode == 64
    assert f"--{name} is " in empty.stderr


def _refusal(status: int, word: str) -> tuple[int, dict[str, str]]:
    return status, {"error": word, "message": "it will not", "hint": "do otherwise"}


@pytest.mark.parametrize(
    ("refusal", "code", "hint"),
    [
        (_refusal(400, "bad_selector"), 64, "do otherwise"),
        (_refusal(400, "bad_parameter"), 64, "do otherwise"),
        (_refusal(401, "unauthorized"), 77, "do otherwise"),
        (_refusal(403, "forbidden"), 77, "do otherwise"),
        (_refusal(404, "not_found"), 69, "The collector is older than this command"),
        (_refusal(503, "overloaded"), 69, "do otherwise"),
        (_refusal(504, "query_timeout"), 69, "do otherwise"),
        ((502, b"<html>bad gateway</html>"), 69, "does not look like a Sidelight collector"),
        ((200, {"some": "thing"}), 69, "does not look like a Sidelight collector"),
        ((200, [1, 2]), 69, "does not look like a Sidelight collector"),
        ((200, b"not json"), 69, "does not look like a Sidelight collector"),
    ],
)
def test_what_a_collector_refuses_or_cannot_do_is_no_verdict(refusal: Any, code: int, hint: str) -> None:
    with answering(refusal) as served:
        done = compare(*SIDES, "--fail-on", "cpu>+3%", url=served.url)
    assert (done.returncode, done.stdout) == (code, "")
    assert hint in done.stderr


def test_no_collector_is_69() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        done = compare(*SIDES, "--fail-on", "cpu>+3%", url=f"http://127.0.0.1:{closed.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (69, "")
    assert "Check the address, that the collector runs" in done.stderr


@pytest.mark.parametrize("flag", ["--json", "--junit", "--markdown"])
def test_a_result_that_cannot_be_written_is_73(tmp_path: Path, flag: str) -> None:
    with answering(answer(FINE)) as served:
        nowhere = tmp_path / "nowhere" / "result"
        done = compare(*SIDES, "--fail-on", "cpu>+30%", flag, str(nowhere), url=served.url)
    assert done.returncode == 73
    assert f"{flag}: cannot write {nowhere}" in done.stderr


def test_help_tells_every_code() -> None:
    done = compare("--help")
    text = " ".join(done.stdout.split())
    assert done.returncode == 0
    for code in (64, 65, 66, 69, 73, 77):
        assert f" {code} " in text
    assert "Exits with 0 when nothing of that is so, 1 when something is, 2 when there is not enough" in text
    assert "version:VERSION" in text
