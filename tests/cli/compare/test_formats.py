"""What a verdict looks like as text, JSON, JUnit and Markdown, also where names are hostile."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.compare.comparison_model import parse_verdict
from sidelight_cli.compare.reports.json_report import render_json
from sidelight_cli.compare.reports.junit import render_junit
from sidelight_cli.compare.reports.markdown import escape_text, format_code, render_markdown
from sidelight_cli.compare.reports.text_report import render_text
from sidelight_cli.compare.settings import parse_compare_settings
from sidelight_model.terminal_width import escape_unprintable
from tests.cli.compare.compare_runner import SIDES, compare
from tests.cli.compare.verdict_server import CULPRITS, METHOD, answer, answering, check, culprit, effect

CONDITIONS: tuple[tuple[str, Any], ...] = (
    ("cpu>+3%", effect(b=1.05, direction="increased")),
    ("function:<lambda>>+1%", None),
    ("idle<-5pp", effect(a=0.5, b=0.47, half=0.1, direction="inconclusive", detectable=0.3)),
    ("gil>+3%", {"direction": "not_comparable"}),
)
FUNCTIONS = (
    ("work", "b.py", effect(0.1, 0.3, 0.02, "increased", 0.2)),
    ("new", "e.py", effect(0.0, 0.06, 0.02, "new")),
    ("same", "d.py", effect(0.2, 0.203, 0.02, "unchanged", 0.04)),
)
HOSTILE = (
    "\x1b[31m<b>&\"']]> | @octocat #1 [x](http://evil) `x` ![](http://evil) \x00 \ud800 \u202e www.evil.com"
)
texts = st.one_of(st.just(HOSTILE), st.text(max_size=30))


def test_the_text_leads_with_the_sentence_and_says_what_it_stands_on() -> None:
    told = answer(
        *CONDITIONS,
        functions=FUNCTIONS,
        checks=[check("warn"), check("ok")],
        more={"minutes": 5.2, "pods": None},
    )
    assert render_text(parse_verdict(told), "self", 20, significant=False).splitlines() == [
        "B takes 5.0 % more CPU time than A.",
        "CPU: 350 → 370 m/pod, +5.7 % (+2.9 % to +8.6 %)",
        "basis: concurrent. Both sides ran 2026-11-21 09:30\u201310:30 UTC.",
        "To see a change of 5 %: about 6 minutes more.",
        "",
        'A  {service="shop", version="1"}  2026-11-21T09:30:00Z until 2100-01-01T00:00:00Z  '
        "2,100 samples · 3 pods · 6 windows · 1 min watched",
        'B  {service="shop", version="2"}  2026-11-21T09:30:00Z until 2100-01-01T00:00:00Z  '
        "2,100 samples · 3 pods · 6 windows · 1 min watched",
        "per pod-second, by samples, 97.5 % intervals, 3 and 3 pods in 12 blocks of time, "
        "the same time on both sides, "
        "samples scatter 2.10 and 1.90 times as much as counting alone would",
        "",
        "warning (mode_differs): A gil, B command.",
        "  Set --mode alike.",
        "",
        "regressed       cpu>+3%                CPU time: +5.0 % (+4.0 % to +6.0 %), beyond +3 %.",
        "pass            function:<lambda>>+1%  time of <lambda>: on neither side.",
        "inconclusive    idle<-5pp              idle share: \u22123.00 points (\u221213.0 points to +7.00 "
        "points): not enough data to distinguish it from \u22125 points.",
        "not comparable  gil>+3%                GIL time: the sides are not comparable.",
        "",
        "The change starts in 2 functions, 92 % of it, in millicores per pod:",
        "   +200   80 %  work (b.py) › loads › scan",  # noqa: RUF001
        "  \u221230.0  100 %  new (e.py)",
        "",
        "millicores per pod, largest difference of self first",
        "",
        "self A  self B  Δ self        interval  pods agree      q  total A  total B  Δ total  "
        "self, in words                     function",
        "   100     300    +200    +180 to +220      3 of 3  0.010      100      300     +200  "
        "▲ takes more time in B (+200.0 %)  work (b.py)",
        "     0    60.0   +60.0  +40.0 to +80.0      3 of 3  0.010        0     60.0    +60.0  "
        "new in B                           new (e.py)",
        "   200     203   +3.00  \u221217.0 to +23.0      3 of 3  0.010      200      203    +3.00  "
        "unchanged                          same (d.py)",
    ]


def test_rows_can_be_ordered_limited_and_kept_to_what_is_beyond_noise() -> None:
    told = answer(functions=FUNCTIONS)
    for of, change in zip(("self", "total"), (1, -1), strict=True):
        columns = told["verdict"]["functions"][of]
        columns["delta"] = [change * value for value in (3, 2, 1)] if of == "self" else [1, 2, 3]
    verdict = parse_verdict(told)
    assert render_text(verdict, "self", 1, significant=False).splitlines()[-3:][0].endswith("work (b.py)")
    lines = render_text(verdict, "total", 1, significant=False).splitlines()
    assert lines[-3].endswith("same (d.py)")
    assert lines[-1] == "2 more functions: --limit 3 lists all."
    assert "same (d.py)" not in render_text(verdict, "self", 20, significant=True)


def test_a_function_that_was_renamed_says_what_it_was() -> None:
    told = answer(functions=FUNCTIONS)
    told["verdict"]["functions"]["renamed_from"] = ["labour (b.py)", None, None]
    assert "work (b.py), was labour (b.py)" in render_text(parse_verdict(told), "self", 20, significant=False)


def test_several_formats_may_be_asked_for_at_once(tmp_path: Path) -> None:
    files = {flag: tmp_path / flag for flag in ("json", "junit", "markdown")}
    argv = [word for flag, file in files.items() for word in (f"--{flag}", str(file))]
    asked = [word for condition, _ in CONDITIONS for word in ("--fail-on", condition)]
    with answering(answer(*CONDITIONS, functions=FUNCTIONS)) as served:
        done = compare(*SIDES, *asked, *argv, url=served.url)
    assert done.returncode == 1
    assert done.stdout.startswith("B takes 5.0 % more CPU time than A.\n")
    told = json.loads(files["json"].read_text())
    assert (told["format"], told["outcome"], told["exit_code"], told["type"]) == (1, "regressed", 1, "cpu")
    assert [one["state"] for one in told["verdict"]["conditions"]] == [
        "regressed",
        "pass",
        "inconclusive",
        "not_comparable",
    ]
    assert told["rows"][0]["self"]["delta"] == pytest.approx(0.2)
    assert told["rows"][0]["total"]["pods_agreeing"] == 3
    assert "functions" not in told["verdict"]
    assert Xml.parse(files["junit"]).getroot().tag == "testsuites"
    assert files["markdown"].read_text().startswith("### ❌ Sidelight: regressed\n")


@pytest.mark.parametrize("flag", ["json", "junit", "markdown"])
def test_a_format_on_standard_output_takes_the_place_of_the_text(flag: str) -> None:
    with answering(answer()) as served:
        done = compare(*SIDES, f"--{flag}", "-", url=served.url)
        assert not done.stdout.startswith("B takes")
        assert done.stdout.startswith({"json": "{", "junit": "<?xml", "markdown": "### "}[flag])


@pytest.mark.parametrize(
    "argv", [("--json", '{service="shop"}'), ('{service="shop"}', "--json"), ("--json", "--limit=1")]
)
def test_json_without_a_file_is_standard_output(argv: tuple[str, ...]) -> None:
    with answering(answer()) as served:
        done = compare("--baseline=version:1", "--comparison=version:2", *argv, url=served.url)
    assert json.loads(done.stdout)["verdict"]["direction"] == "increased"


def cases(told: Any) -> dict[str, Xml.Element]:
    root = Xml.fromstring(render_junit(parse_verdict(told)))
    return {str(case.get("name")): case for case in root.iter("testcase")}


def test_junit_has_a_test_for_each_condition_and_one_for_comparability() -> None:
    told = answer(*CONDITIONS, checks=[check("warn")])
    found = cases(told)
    assert list(found) == ["the sides can be compared", *(text for text, _ in CONDITIONS)]
    failure = found["cpu>+3%"].find("failure")
    assert failure is not None
    assert failure.attrib == {
        "type": "regressed",
        "message": "CPU time: +5.0 % (+4.0 % to +6.0 %), beyond +3 %.",
    }
    assert [child.tag for child in found["function:<lambda>>+1%"]] == ["system-out"]
    skipped = [found[name].find("skipped") for name in ("idle<-5pp", "gil>+3%")]
    assert [one is not None and str(one.get("message")).partition(":")[0] for one in skipped] == [
        "inconclusive",
        "not comparable",
    ]
    assert [child.tag for child in found["the sides can be compared"]] == ["system-out"]
    suite = Xml.fromstring(render_junit(parse_verdict(told))).find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "5",
        "failures": "1",
        "skipped": "2",
        "errors": "0",
    }


def test_sides_that_cannot_be_compared_fail_that_test_with_the_reason() -> None:
    told = answer(
        ("cpu>+3%", {"direction": "not_comparable"}), checks=[check("blocking")], direction="not_comparable"
    )
    failure = cases(told)["the sides can be compared"].find("failure")
    assert failure is not None
    assert failure.get("message") == "A gil, B command."
    assert "Set --mode alike." in str(failure.text)


def test_a_side_without_windows_skips_that_test() -> None:
    told = answer(("cpu>+3%", {"direction": "no_data"}), windows=(6, 0), direction="no_data")
    found = cases(told)
    assert {name: [child.tag for child in case] for name, case in found.items()} == {
        "the sides can be compared": ["skipped"],
        "cpu>+3%": ["skipped"],
    }


def hostile(word: str) -> dict[str, Any]:
    """An answer in which everything that comes from elsewhere is this word."""
    told = answer(
        ("cpu>+3%", effect(b=1.05, direction="increased")),
        functions=[(word, word, effect(0.1, 0.3, 0.02, "increased", 0.2))],
        checks=[check("warn", word, word)],
        sentence=word,
    )
    told["verdict"]["conditions"][0] |= {"condition": word, "summary": word}
    told["verdict"]["functions"]["renamed_from"] = [word]
    for side in told["sides"]:
        side["selector"] = word
    told["verdict"]["basis"] = told["verdict"]["basis_reason"] = word
    told["verdict"]["checks"][0]["remedy"] = {"label": word, "parameters": {"query": word, "baseline": word}}
    told["verdict"]["culprits"] = {"share": 1.0, "rows": [culprit(word, word, 0.2, 1.0, word)]}
    return told


@given(texts)
def test_a_report_is_xml_and_says_names_as_they_are_whatever_they_hold(word: str) -> None:
    root = Xml.fromstring(render_junit(parse_verdict(hostile(word))))
    names = [case.get("name") for case in root.iter("testcase")]
    assert names == ["the sides can be compared", escape_unprintable(word)]


@given(texts)
def test_no_name_acts_on_a_terminal(word: str) -> None:
    shown = render_text(parse_verdict(hostile(word)), "self", 20, significant=False)
    assert all(letter.isprintable() or letter in "\n\u200c\u200d" for letter in shown)


@given(texts)
def test_markdown_from_elsewhere_can_be_read_and_does_nothing(word: str) -> None:
    for written in (escape_text(word), format_code(word)):
        bare = re.sub(r"</?code>|<!-- -->", "", written)
        assert unescape(bare).strip() == escape_unprintable(word).strip()
        assert not re.search(r"[\\`*_\[\]<>|~@!:$]|#(?![0-9]+;)|&(?!#[0-9]+;)|www\.", bare, re.IGNORECASE)
        assert not re.match(r"[-+=]|[0-9][.)]\s", bare)


@given(texts)
def test_each_row_of_a_markdown_table_has_as_many_cells_as_its_head(word: str) -> None:
    cells = 0
    for line in render_markdown(parse_verdict(hostile(word)), "self", 20, significant=False).split("\n"):
        if line.startswith("|"):
            cells = cells or line.count("|")
            assert line.count("|") == cells
        else:
            cells = 0


def test_a_mention_in_markdown_pings_nobody() -> None:
    assert escape_text("by @octocat in #12") == "by &#64;<!-- -->octocat in &#35;<!-- -->12"


def test_markdown_is_a_summary() -> None:
    told = answer(*CONDITIONS[:1], functions=FUNCTIONS, checks=[check("warn")])
    lines = render_markdown(parse_verdict(told), "self", 20, significant=False).splitlines()
    assert lines[0] == "### ❌ Sidelight: regressed"
    assert lines[2] == "B takes 5.0 % more CPU time than A."
    assert lines[4] == "CPU&#58; 350 → 370 m/pod, +5.7 % (+2.9 % to +8.6 %)"
    assert lines[6] == "basis&#58; concurrent. Both sides ran 2026-11-21 09&#58;30\u201310&#58;30 UTC."
    assert "| ❌ regressed | <code>cpu&#62;+3%</code> |" in lines[10]
    assert "The change starts in 2 functions, 92 % of it:" in lines
    assert any(line.startswith("- **warning**: A gil, B command.") for line in lines)
    assert any(
        line.startswith("| <code>work (b.py)</code> | 100 | 300 | +180 to +220 | 3 of 3 |") for line in lines
    )
    assert lines[-1].startswith("<sub>per pod-second")


@pytest.mark.parametrize(
    ("measured", "said"), [("clock", "the whole by the kernel's clock"), ("samples", "by samples")]
)
def test_every_report_says_what_the_whole_is_measured_by(measured: str, said: str) -> None:
    told = answer(*CONDITIONS)
    told["verdict"]["method"] = {**told["verdict"]["method"], "rate_source": measured}
    verdict = parse_verdict(told)
    assert f"per pod-second, {said}, 97.5 % intervals" in render_text(verdict, "self", 20, significant=False)
    assert f"per pod-second, {said}, 97.5 % intervals" in render_markdown(
        verdict, "self", 20, significant=False
    )
    assert f'value="per pod-second, {said}, 97.5 % intervals' in render_junit(verdict)
    written = render_json(verdict, "self", 20, significant=False, outcome="pass", code=0)
    assert json.loads(written)["verdict"]["method"]["rate_source"] == measured


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"minutes": None, "pods": 7}, "about 7 pods of each side; time alone does not do."),
        ({"minutes": 4000.0, "pods": 7}, "about 3 days more, or 7 pods of each side."),
        ({"minutes": None, "pods": None}, ""),
    ],
)
def test_what_would_do_is_said_in_pods_and_in_time(more: dict[str, Any], said: str) -> None:
    lines = render_text(
        parse_verdict(answer(*CONDITIONS, more=more)), "self", 20, significant=False
    ).splitlines()
    assert lines[3] == (f"To see a change of 5 %: {said}" if said else "")


def make_composition(**verdict: Any) -> dict[str, Any]:
    """An answer by composition: shares of functions, and a total that is not judged."""
    total = effect(0.071, 0.077, 0.01, "not_judged") | dict.fromkeys(
        ("low", "high", "relative_low", "relative_high", "p", "min_detectable_effect")
    )
    functions = (
        ("work", "b.py", effect(0.1, 0.3, 0.02, "increased", 0.2)),
        ("small", "c.py", effect(0.002, 0.006, 0.001, "minor")),
        ("rare", "d.py", effect(0.002, 0.001, 0.01, "inconclusive")),
        ("other", "e.py", effect(0.002, 0.0015, 0.01, "not_judged")),
    )
    remedy = {
        "action": "compare_overlap",
        "label": "Compare 22:41\u201323:41, while both ran",
        "parameters": {"from": "2026-11-21T22:41:00Z", "until": "2026-11-21T23:41:00Z"},
    }
    checks = [check("warn") | {"remedy": remedy}]
    return answer(
        rate=total,
        functions=functions,
        checks=checks,
        basis="composition",
        basis_reason="They ran at different times and request counts are unknown.",
        culprits={**CULPRITS, "share": None},
        method={**METHOD, "unit": "share"},
        direction="not_judged",
        **verdict,
    )


def test_by_composition_shares_are_percent_and_the_total_may_be_load() -> None:
    lines = render_text(parse_verdict(make_composition()), "self", 20, significant=False).splitlines()
    assert lines[1] == "CPU: 71.0 → 77.0 m/pod, may be load"
    reason = "They ran at different times and request counts are unknown."
    assert lines[2] == f"basis: composition (shares of the profile). {reason}"
    assert lines[6].startswith("shares of the profile, by samples, 97.5 % intervals")
    options = "--from 2026-11-21T22:41:00Z --until 2026-11-21T23:41:00Z"
    assert f"  Compare 22:41\u201323:41, while both ran: sidelight compare … {options}" in lines
    assert "2 functions changed, in % of the profile:" in lines
    assert "  +20.0   80 %  work (b.py) › loads › scan" in lines  # noqa: RUF001
    assert "% of the profile, largest difference of self first" in lines
    table = {line.rpartition("  ")[2]: line for line in lines[-4:]}
    assert "10.0    30.0" in table["work (b.py)"]
    for function, words in (
        ("work (b.py)", "▲ larger share in B (+200.0 %)"),
        ("small (c.py)", "minor (+200.0 %)"),
        ("rare (d.py)", "not judged"),
        ("other (e.py)", "not judged"),
    ):
        assert f"  {words}  " in f"{table[function]}  "


@pytest.mark.parametrize(
    ("between_runs", "words"),
    [(0.0, "counting noise alone"), (0.153, "counting noise, and functions differ by 15.3 % between runs")],
)
def test_files_name_the_noise_of_their_intervals(between_runs: float, words: str) -> None:
    method = {"alpha_spent": 0.05, "unit": "share", "noise": "counting", "between_runs": between_runs}
    lines = render_text(parse_verdict(answer(method=method)), "self", 20, significant=False).splitlines()
    assert f"shares of the profile, 95 % intervals, {words}" in lines


def test_every_report_has_the_basis_the_total_and_the_remedy() -> None:
    verdict = parse_verdict(make_composition())
    text = "They ran at different times and request counts are unknown."
    remedy = "--from 2026-11-21T22:41:00Z --until 2026-11-21T23:41:00Z"
    markdown = unescape(render_markdown(verdict, "self", 20, significant=False))
    junit = unescape(render_junit(verdict))
    for report in (markdown, junit):
        assert text in report
        assert remedy in report
        assert "CPU: 71.0 → 77.0 m/pod, may be load" in report
    report = json.loads(render_json(verdict, "self", 20, significant=False, outcome="", code=0))
    assert (report["verdict"]["basis"], report["verdict"]["basis_reason"]) == ("composition", text)
    assert report["verdict"]["culprits"]["rows"][0]["function"] == "work"
    assert report["verdict"]["checks"][0]["remedy"]["action"] == "compare_overlap"


@pytest.mark.parametrize(
    ("profile_type", "unit", "line", "table"),
    [
        ("cpu", "pod-second", "CPU: 350 → 370 m/pod", "millicores per pod"),
        ("gil", "pod-second", "GIL: 350 → 370 m/pod", "millicores per pod"),
        ("wall", "pod-second", "wall time: 0.350 → 0.370 threads/pod", "threads per pod"),
        ("wall", "request", "wall time: 350 → 370 ms/request", "milliseconds per request"),
        ("cpu", "second", "CPU: 0.350 → 0.370 samples/s", "samples per second"),
    ],
)
def test_each_quantity_has_one_unit(profile_type: str, unit: str, line: str, table: str) -> None:
    verdict = parse_verdict(answer(method={**METHOD, "unit": unit}) | {"type": profile_type})
    lines = render_text(verdict, "self", 20, significant=False).splitlines()
    assert lines[1].startswith(line)
    assert f"{table}, largest difference of self first" in lines


REMEDIES = [
    (
        {"baseline_from": "2026-11-25T22:41:00Z", "comparison_until": "2026-11-25T23:41:00Z"},
        "--baseline-from 2026-11-25T22:41:00Z --comparison-until 2026-11-25T23:41:00Z",
    ),
    (
        {"baseline_requests": "", "comparison_requests": ""},
        "--baseline-requests COUNT --comparison-requests COUNT",
    ),
    ({"comparison_from": "a b;c"}, "--comparison-from 'a b;c'"),
    ({"basis": "composition"}, "--basis composition"),
    ({"basis": "equal_load"}, "--basis equal_load"),
    ({"type": "cpu"}, "--type cpu"),
    ({"from": "", "until": ""}, "--from TIME --until TIME"),
    (
        {"baseline": '{service="shop", version="1", pod!="a0"}'},
        """--baseline '{service="shop", version="1", pod!="a0"}'""",
    ),
]


@pytest.mark.parametrize(("parameters", "options"), REMEDIES)
def test_a_warning_names_the_command_that_answers_it(parameters: dict[str, str], options: str) -> None:
    remedy = {"action": "compare_overlap", "label": "Compare while both ran", "parameters": parameters}
    told = parse_verdict(answer(checks=[check("warn") | {"remedy": remedy}]))
    command = f"sidelight compare … {options}"
    text = render_text(told, "self", 20, significant=False)
    assert f"  Compare while both ran: {command}\n" in text
    (line,) = (
        line
        for line in render_markdown(told, "self", 20, significant=False).splitlines()
        if line.startswith("- **warning**")
    )
    assert line.endswith(f" Compare while both ran: {format_code(command)}")
    sides = ["--collector", "http://collector", "--baseline", "version:1", "--comparison", "version:2"]
    given = options.replace("COUNT", "7").replace("TIME", "-1h")
    assert parse_compare_settings(["{}", *sides, *shlex.split(given)], {})


def test_a_warning_that_no_option_answers_names_no_command() -> None:
    remedy = {"action": "change_deployment", "label": "Make both sides alike", "parameters": {}}
    told = parse_verdict(answer(checks=[check("warn") | {"remedy": remedy}]))
    for text in (
        render_text(told, "self", 20, significant=False),
        render_markdown(told, "self", 20, significant=False),
    ):
        assert "Make both sides alike" not in text
        assert "sidelight compare …" not in text


def test_an_older_collector_has_no_remedies() -> None:
    warning = check("warn")
    del warning["remedy"]
    assert parse_verdict(answer(checks=[warning])).checks[0].remedy is None
