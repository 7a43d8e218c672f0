"""What is asked of the collector, for everything that one can say on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight_cli.compare.settings import parse_compare_settings
from tests.cli.compare.compare_runner import SIDES, compare
from tests.cli.compare.verdict_server import answer, answering


def test_all_that_was_said_is_asked() -> None:
    argv = (
        *("--from", "-2h", "--until", "-5m", "--baseline-from", "-1d", "--baseline-until", "-23h"),
        *("--comparison-from=-1h", "--comparison-until", "now", "--type", "wall", "--min-effect", "0.00002"),
        *(
            "--min-coverage",
            "0.95",
            "--alpha",
            "0.01",
            "--analysis-index",
            "3",
            "--baseline-requests",
            "12000",
            "--comparison-requests",
            "1e16",
        ),
        *("--min-depth", "3", "--max-depth", "90", "--function", "f (a.py)", "--focus", "0123456789abcdef.f"),
        *("--endpoint", 'say "hi" (a.py)', "--group-by", "endpoint"),
        *("--basis", "equal_load"),
        *("--fail-on", "cpu > +3 %", "--fail-on", "function:<lambda>>+1%"),
    )
    with answering(answer(("cpu>+3%", None), ("function:f>+1%", None))) as served:
        done = compare(*SIDES, *argv, url=served.url)
    assert done.returncode == 2, done.stderr
    (asked,) = served.asked
    assert asked.pop("limit")
    assert asked == {
        "query": [r'{service="shop", endpoint="say \"hi\" (a.py)"}'],
        "group_by": ["endpoint"],
        "baseline": ['version="1"'],
        "comparison": ['version="2"'],
        "from": ["-2h"],
        "until": ["-5m"],
        "baseline_from": ["-1d"],
        "baseline_until": ["-23h"],
        "comparison_from": ["-1h"],
        "comparison_until": ["now"],
        "type": ["wall"],
        "min_effect": ["0.00002"],
        "alpha": ["0.01"],
        "min_coverage": ["0.95"],
        "analysis_index": ["3"],
        "basis": ["equal_load"],
        "baseline_requests": ["12000"],
        "comparison_requests": ["10000000000000000"],
        "min_depth": ["3"],
        "max_depth": ["90"],
        "function": ["f (a.py)"],
        "focus": ["0123456789abcdef.f"],
        "conditions": ["cpu>+3%", "function:<lambda>>+1%"],
    }


def test_times_and_sides_that_were_not_said_are_not_asked() -> None:
    with answering(answer()) as served:
        assert compare('{service="shop"}', url=served.url).returncode == 0
        assert compare(*SIDES[:2], "--until=-1h", '{service="shop"}', url=served.url).returncode == 0
        assert compare("--baseline=match:", "--comparison=version:2", url=served.url).returncode == 0
    bare, partial, everything = served.asked
    assert set(bare) == {"query", "type", "min_effect", "alpha", "limit"}
    assert set(partial) - set(bare) == {"baseline", "until"}
    assert (everything["baseline"], everything["comparison"]) == (["{}"], ['version="2"'])


def test_what_a_comparison_tests_is_asked_unless_it_is_the_default() -> None:
    """Older collectors refuse parameters that they do not know."""
    newer = ("basis", "min_relevant_share", "min_relevant_depth")
    argv = ("--basis", "composition", "--min-relevant-share", "0.005", "--min-relevant-depth", "0")
    defaults = ("--basis", "auto", "--min-relevant-share", "0.01", "--min-relevant-depth", "0.1")
    with answering(answer()) as served:
        for options in (argv, defaults, ()):
            assert compare(*SIDES, *options, url=served.url).returncode == 0
    found = [{name: asked[name] for name in newer if name in asked} for asked in served.asked]
    assert found == [
        {"basis": ["composition"], "min_relevant_share": ["0.005"], "min_relevant_depth": ["0"]},
        {},
        {},
    ]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--sample-weight", "10"), "--sample-weight is for files"),
        (("--basis", "load"), "'load' is not one of auto, concurrent, per_request, composition, equal_load"),
    ],
)
def test_options_that_do_not_fit_a_collector_are_refused(argv: tuple[str, ...], message: str) -> None:
    done = compare(*SIDES, *argv, url="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (64, "")
    assert message in done.stderr


def test_sides_may_be_variables() -> None:
    variables = {
        "SIDELIGHT_COLLECTOR": "http://x",
        "SIDELIGHT_BASELINE": "version:1",
        "SIDELIGHT_COMPARISON": "version:2",
        "SIDELIGHT_BASELINE_FROM": "-3h",
        "SIDELIGHT_FAIL_ON": "cpu>+3%,idle<-5pp",
    }
    settings = parse_compare_settings([], variables)
    assert (settings.baseline, settings.comparison, settings.baseline_from) == (
        "version:1",
        "version:2",
        "-3h",
    )
    assert [str(one) for one in settings.fail_on] == ["cpu>+3%", "idle<-5pp"]


def test_the_token_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    with answering(answer()) as served:
        assert compare(*SIDES, "--token-file", str(file), url=served.url).returncode == 0
    assert served.headers[0]["Authorization"] == "Bearer secret"
