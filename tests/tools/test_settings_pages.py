"""The tables of docs/settings have each setting of each program, with the chart's value for it."""

import dataclasses
import re
from pathlib import Path

import pytest
from yaml import safe_load

from deploy import settings_pages
from deploy.settings_pages import AGENT, CHART, COLLECTOR, DOCTOR, INJECTOR, PAGES, SIDECAR, Page
from sidelight.settings import format_flag, format_variable

ROOT = Path(__file__).resolve().parents[2]
CHART_FOLDER = ROOT / "deploy" / "helm" / "sidelight"

each_program = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.program)


def rows(page: Page) -> list[list[str]]:
    """Cells of the tables of a page."""
    lines = [line for line in settings_pages.render(page).splitlines() if line.startswith("|`")]
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]


@each_program
def test_the_page_takes_the_tables_of_its_program(page):
    text = (ROOT / "docs" / "settings" / f"{page.program}.md").read_text(encoding="utf-8")
    assert f"<!-- settings: {page.program} -->" in text


@each_program
def test_every_setting_has_one_row_with_its_option_variable_and_purpose(page):
    fields = {format_flag(field): field for field in dataclasses.fields(page.settings)}
    found = {names.strip("`").split("`")[0].split()[0]: (names, purpose) for names, _, purpose in rows(page)}
    assert len(rows(page)) == len(fields)
    assert found.keys() == fields.keys()
    for flag, (names, purpose) in found.items():
        assert (f"`{format_variable(fields[flag])}`" in names) is bool(page.chart_settings)
        assert purpose == fields[flag].metadata["help"].replace("*", "\\*")


@pytest.mark.parametrize(
    ("page", "option", "default"),
    [
        (COLLECTOR, "store", "required"),
        (COLLECTOR, "listen", "`127.0.0.1:8080`"),
        (COLLECTOR, "max-body-bytes", "32M"),
        (COLLECTOR, "flush-seconds", "1 s"),
        (COLLECTOR, "retention-raw-days", "14 days"),
        (COLLECTOR, "deploy-fail-on", "`cpu>+5%`"),
        (COLLECTOR, "links", "on"),
        (COLLECTOR, "tls-cert-file", ""),
        (SIDECAR, "rate", "100 Hz"),
        (SIDECAR, "budget-cpu-percent", "1 %"),
        (SIDECAR, "max-stacks", "50000"),
        (DOCTOR, "price-per-gb-month", "0.023"),
        (INJECTOR, "exclude-namespace", "`kube-system`<br>`kube-public`<br>`kube-node-lease`"),
    ],
)
def test_a_default_has_the_form_that_users_write_and_its_unit(page, option, default):
    [found] = [cells[1] for cells in rows(page) if cells[0].startswith(f"`--{option}`")]
    assert found == default


@pytest.mark.parametrize(
    ("page", "template", "pattern"),
    [
        (COLLECTOR, "_collector.tpl", r"define \"sidelight.collector.own\" -}}(.*?)toJson"),
        (SIDECAR, "_sidecar.tpl", r"\$own := list(.*?)}}"),
        (AGENT, "agent-daemonset.yaml", r"\$own := list(.*?)}}"),
        (INJECTOR, "injector-deployment.yaml", r"\$set := list(.*?)}}"),
    ],
    ids=lambda value: value.program if isinstance(value, Page) else "",
)
def test_settings_that_the_chart_sets_have_the_value_that_decides_them(page, template, pattern):
    text = (CHART_FOLDER / "templates" / template).read_text(encoding="utf-8")
    [refused] = re.findall(pattern, text, re.DOTALL)
    assert set(re.findall(r"\"(\w+)\"", refused)) == page.chart_values.keys()
    values = safe_load((CHART_FOLDER / "values.yaml").read_text(encoding="utf-8"))
    for path in {page.chart_settings, *page.chart_values.values()} - {CHART}:
        value = values
        for part in path.split("."):
            assert part in value, path
            value = value[part]


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ({"All but one": "(?!listen$).*"}, "listen is in 0 groups of the injector"),
        ({"All": ".*", "Again": "listen"}, "listen is in 2 groups of the injector"),
    ],
)
def test_a_setting_must_be_in_one_group(groups, problem):
    with pytest.raises(ValueError, match=problem):
        settings_pages.render(dataclasses.replace(INJECTOR, groups=groups))
