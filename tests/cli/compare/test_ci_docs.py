"""docs/ci.md: its YAML is what each tool reads, and its commands do what it says on a real collector."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as Xml

import pytest
import yaml

from sidelight.settings import format_flag
from sidelight_cli.compare.exit_codes import ExitCode
from sidelight_cli.compare.settings import CompareSettings, parse_condition_option
from sidelight_model.gates import DEPTH_SUBJECTS, FUNCTION_SUBJECTS, TIME_SUBJECTS
from tests.cli.compare.shipped_versions import CANARY, NEW, OLD, STABLE, ship
from tests.processes import ROOT, Collector, collector
from tests.tools.site import read_page

PAGE = (ROOT / "docs" / "ci.md").read_text()
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"\n```yaml\n(.*?)\n```\n", PAGE, re.DOTALL)]


def block(kind: str, part: str = "") -> Any:
    """The YAML of a kind that holds a word."""
    (found,) = [one for one in BLOCKS if one.get("kind", "") == kind and part in json.dumps(one, default=str)]
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    folder = tmp_path_factory.mktemp("collector")
    with collector(folder, str(folder / "store")) as one:
        ship(one.url, "1", OLD)
        ship(one.url, "2", NEW)
        yield one


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with `sidelight` as a command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "sidelight"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sidelight.main "$@"\n')
    program.chmod(0o755)
    return folder


def shell(script: str, bin_folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a CI runner does, in a folder of its own."""
    work = bin_folder.parent / "work"
    work.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SIDELIGHT_")}
    path = f"{bin_folder}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environment, **variables, "PATH": path, "PYTHONPATH": str(ROOT)},
    )


def test_the_first_command_finds_what_grew(served: Collector, bin_folder: Path) -> None:
    command = re.search(r"^    (sidelight compare --collector .*(?:\\\n.*)+)$", PAGE, re.MULTILINE)
    assert command
    done = shell(command[1], bin_folder, COLLECTOR=served.url)
    assert done.returncode == ExitCode.REGRESSED, done.stderr
    assert re.search(r"^regressed +function:json\.\*>\+1%", done.stdout, re.MULTILINE)
    assert re.search(r"^regressed +cpu>\+3%", done.stdout, re.MULTILINE)
    assert re.search(r"^pass +depth\.p95>\+5", done.stdout, re.MULTILINE)


def test_a_load_test_of_one_version_after_the_other_assumes_equal_load(
    tmp_path: Path, bin_folder: Path
) -> None:
    part = PAGE.partition("## One after the other")[2]
    command = re.search(r"^    (sidelight compare (?:.*\\\n)+.*)$", part, re.MULTILINE)
    assert command
    with collector(tmp_path, str(tmp_path / "store")) as one:
        ship(one.url, "1", OLD, minutes=range(14, 25))
        ship(one.url, "2", NEW, minutes=range(1, 10))
        said = shell(command[1], bin_folder, SIDELIGHT_COLLECTOR=one.url)
        untold = shell(command[1].replace("--basis equal_load ", ""), bin_folder, SIDELIGHT_COLLECTOR=one.url)
    assert said.returncode == ExitCode.REGRESSED, said.stderr
    assert "equal load assumed" in said.stdout
    assert untold.returncode == ExitCode.INCONCLUSIVE, untold.stderr
    assert "basis: composition (shares of the profile). The sides ran at different times" in untold.stdout
    assert re.search(
        r"^inconclusive +cpu>\+3% +CPU time: not judged\. The sides ran", untold.stdout, re.MULTILINE
    )


@pytest.mark.parametrize(("old", "new", "code"), [("1", "2", 1), ("1", "9", 66)])
def test_the_github_job_runs(served: Collector, bin_folder: Path, old: str, new: str, code: int) -> None:
    (workflow,) = [one for one in BLOCKS if "jobs" in one]
    assert set(workflow) == {"name", True, "jobs"}  # YAML 1.1 reads `on` as true
    assert set(workflow[True]["workflow_dispatch"]["inputs"]) == {"old", "new"}
    (job,) = workflow["jobs"].values()
    assert {"runs-on", "steps", "timeout-minutes"} == set(job)
    (step,) = job["steps"]
    assert set(step) == {"name", "env", "run"}
    assert "${{" not in step["run"]  # nothing from outside is put into the script
    script = step["run"].replace("--wait 1800", "--wait 1")
    summary = bin_folder.parent / "summary.md"
    variables = {"SIDELIGHT_COLLECTOR": served.url, "OLD": old, "NEW": new}
    assert set(step["env"]) == set(variables)
    done = shell(script, bin_folder, **variables, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == code, done.stderr
    assert summary.read_text().startswith("### ")
    assert Xml.parse(bin_folder.parent / "work" / "verdict.xml").getroot().tag == "testsuites"


def test_not_enough_data_is_a_warning_of_the_github_job(bin_folder: Path) -> None:
    (workflow,) = [one for one in BLOCKS if "jobs" in one]
    (job,) = workflow["jobs"].values()
    unclear = bin_folder / "sidelight"
    unclear.write_text("#!/bin/sh\nexit 2\n")
    variables = {"OLD": "1", "NEW": "2", "GITHUB_STEP_SUMMARY": "x"}
    done = shell(job["steps"][0]["run"], bin_folder, **variables)
    assert (done.returncode, done.stdout) == (0, "::warning::not enough data for a verdict\n")
    unclear.write_text("#!/bin/sh\nexit 0\n")
    assert shell(job["steps"][0]["run"], bin_folder, **variables).returncode == 0


def test_the_gitlab_job_runs(served: Collector, bin_folder: Path) -> None:
    (found,) = [one for one in BLOCKS if "profile" in one]
    job = found["profile"]
    assert set(job) == {"stage", "image", "variables", "script", "allow_failure", "artifacts"}
    assert set(job["image"]) == {"name", "entrypoint"}
    assert job["allow_failure"] == {"exit_codes": [ExitCode.INCONCLUSIVE]}
    assert set(job["artifacts"]) == {"when", "paths", "reports"}
    (line,) = job["script"]
    line = line.replace("--wait 1800", "--wait 1")
    done = shell(line, bin_folder, SIDELIGHT_COLLECTOR=served.url, OLD="1", NEW="2")
    assert done.returncode == ExitCode.REGRESSED, done.stderr
    work = bin_folder.parent / "work"
    report = Xml.parse(work / job["artifacts"]["reports"]["junit"])
    names = {case.get("name") for case in report.iter("testcase")}
    assert names == {"the sides can be compared", "cpu>+3%", "idle<-5pp", "function:json.*>+1%"}
    assert all((work / path).is_file() for path in job["artifacts"]["paths"])


METRIC = {
    *("name", "interval", "initialDelay", "count", "successCondition", "failureCondition", "failureLimit"),
    *("inconclusiveLimit", "consecutiveErrorLimit", "consecutiveSuccessLimit", "provider"),
}
"""Fields of argoproj.io/v1alpha1 AnalysisTemplate, spec.metrics (Argo Rollouts 1.8's manifests)."""
WEB = {
    "url",
    "method",
    "body",
    "jsonBody",
    "headers",
    "jsonPath",
    "timeoutSeconds",
    "insecure",
    "authentication",
}


@pytest.mark.parametrize("part", ['"job"', '"web"'])
def test_an_analysis_template_has_the_fields_of_its_schema(part: str) -> None:
    template = block("AnalysisTemplate", part)
    assert template["apiVersion"] == "argoproj.io/v1alpha1"
    assert set(template) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(template["spec"]) == {"args", "metrics"}
    for one in template["spec"]["args"]:
        assert set(one) <= {"name", "value", "valueFrom"}
        assert set(one.get("valueFrom", {})) <= {"secretKeyRef", "fieldRef"}
    (metric,) = template["spec"]["metrics"]
    assert {"name", "provider"} <= set(metric) <= METRIC
    assert len(metric["provider"]) == 1


def given(text: str, url: str = "") -> str:
    """A template's text with the arguments that the rollout hands over."""
    filled = text.replace("{{args.stable}}", STABLE).replace("{{args.canary}}", CANARY)
    filled = filled.replace("{{args.token}}", "secret")
    assert "{{" not in filled
    return filled.replace("http://sidelight-collector.profiling:8080", url)


def test_the_rollout_hands_over_what_the_templates_take() -> None:
    steps = block("Rollout")["spec"]["strategy"]["canary"]["steps"]
    (analysis,) = [step["analysis"] for step in steps if "analysis" in step]
    names = {one["templateName"] for one in analysis["templates"]}
    handed = {one["name"] for one in analysis["args"]}
    assert [one["valueFrom"] for one in analysis["args"]] == [
        {"podTemplateHashValue": "Stable"},
        {"podTemplateHashValue": "Latest"},
    ]
    for part in ('"job"', '"web"'):
        template = block("AnalysisTemplate", part)
        assert {template["metadata"]["name"]} == names
        assert {one["name"] for one in template["spec"]["args"] if "valueFrom" not in one} == handed


def test_the_analysis_job_runs(served: Collector, bin_folder: Path) -> None:
    job = block("AnalysisTemplate", '"job"')["spec"]["metrics"][0]["provider"]["job"]
    assert set(job) <= {"metadata", "spec"}
    (container,) = job["spec"]["template"]["spec"]["containers"]
    argv = [given(word, served.url).replace("--wait=1800", "--wait=1") for word in container["args"]]
    done = shell(shlex.join(["sidelight", *argv]), bin_folder)
    assert done.returncode == ExitCode.REGRESSED, done.stderr
    assert re.search(r"^regressed +function:json\.\*>\+1%", done.stdout, re.MULTILINE)


def test_the_web_metric_asks_what_it_means_and_gets_what_its_conditions_read(served: Collector) -> None:
    metric = block("AnalysisTemplate", '"web"')["spec"]["metrics"][0]
    web = metric["provider"]["web"]
    assert {"url"} <= set(web) <= WEB
    assert [set(one) for one in web["headers"]] == [{"key", "value"}]
    url = given(web["url"], served.url)
    assert urlsplit(url).path == "/api/v1/verdict"
    assert " " not in url
    with urllib.request.urlopen(url, timeout=60) as answered:
        answer = json.load(answered)
    assert web["jsonPath"] == "{$.verdict}"
    result = answer["verdict"]
    assert [one["condition"] for one in result["conditions"]] == ["cpu>+3%", "function:json.*>+1%"]
    states = re.findall(r'(all|any)\(result\.conditions, {\.state == "(\w+)"}\)', str(metric))
    assert states == [("all", "pass"), ("any", "regressed")]
    assert [one["state"] for one in result["conditions"]] == ["regressed", "regressed"]
    assert [side["pods"] for side in answer["sides"]] == [3, 3]


def test_two_recordings_are_compared_as_the_page_says(bin_folder: Path) -> None:
    work = bin_folder.parent / "work"
    work.mkdir()
    (work / "bench.py").write_text(
        "import json, time\n"
        "text = json.dumps(list(range(3000)))\n"
        "while time.process_time() < 0.8:\n"
        "    json.loads(text)\n"
    )
    section = (ROOT / "docs" / "recordings.md").read_text()
    commands = [line.strip() for line in section.splitlines() if line.startswith("    sidelight ")]
    assert len(commands) == 3, "two recordings and their comparison"
    for command in commands[:2]:
        recorded = shell(command.replace("--seconds 60", ""), bin_folder)
        assert recorded.returncode == 0, recorded.stderr
    done = shell(commands[2], bin_folder)
    assert done.returncode in (ExitCode.PASS, ExitCode.REGRESSED, ExitCode.INCONCLUSIVE), done.stderr
    assert "few_pods" in done.stdout


def test_every_code_and_every_condition_of_the_page_is_one() -> None:
    rows = re.findall(r"^\|([\d, ]+)\|", PAGE, re.MULTILINE)
    assert {int(one) for row in rows for one in row.split(", ")} == set(ExitCode)
    table = PAGE.partition("## Conditions")[2].partition("- **regressed**")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|`")]
    read = [parse_condition_option(text) for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert {one.subject for one in read} | {"rate"} == {
        *TIME_SUBJECTS,
        "idle",
        *DEPTH_SUBJECTS,
        *FUNCTION_SUBJECTS,
    }


def test_every_option_that_pages_name_is_one() -> None:
    known = {format_flag(field) for field in fields(CompareSettings)}
    named = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--body-file"}
    assert named <= known
    export = read_page(ROOT / "docs" / "export.md").partition("## `sidelight compare`")[2]
    documented = re.findall(r"^\| `(--[a-z-]+)` \| .*? \| (.*) \|$", export, re.MULTILINE)
    declared = {format_flag(field): field.metadata["help"] for field in fields(CompareSettings)}
    assert dict(documented) == {name: text for name, text in declared.items() if name.startswith("--")}
