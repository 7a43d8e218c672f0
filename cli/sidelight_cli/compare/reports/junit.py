"""Render a verdict as a JUnit report, the XML that CI servers show.

The report has one test case per condition, and one for the comparability of the sides. JUnit has no official
schema; the report uses the subset that Jenkins, GitLab and GitHub actions all read
(https://github.com/testmoapp/junitxml). A condition that is inconclusive or not comparable is skipped with
the reason: it neither passed nor failed.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as Xml

from sidelight_cli.compare.comparison_model import ComparisonVerdict, EvaluatedCondition
from sidelight_cli.compare.reports.formatting import (
    OUTCOME_LABELS,
    format_advice,
    format_basis,
    format_counts,
    format_method,
    format_remedy,
    format_severity,
    format_time_range,
    format_total,
    list_notes,
    select_checks,
)
from sidelight_model.gates import GateStatus
from sidelight_model.terminal_width import escape_unprintable

SUITE_NAME: Final = "sidelight compare"


def render_junit(verdict: ComparisonVerdict) -> str:
    """Render the report as valid XML 1.0, whatever characters names contain."""
    cases = [
        _build_comparability_case(verdict),
        *(_build_condition_case(condition) for condition in verdict.conditions),
    ]
    totals = {"name": SUITE_NAME, "tests": str(len(cases)), "errors": "0"}
    for attribute, tag in (("failures", "failure"), ("skipped", "skipped")):
        totals[attribute] = str(sum(case.find(tag) is not None for case in cases))
    root = Xml.Element("testsuites", totals)
    suite = Xml.SubElement(root, "testsuite", totals)
    properties = Xml.SubElement(suite, "properties")
    for letter, side in zip(("baseline", "comparison"), verdict.sides, strict=True):
        text = ", ".join(filter(None, (side.selector, format_time_range(side), format_counts(side))))
        Xml.SubElement(properties, "property", {"name": letter, "value": escape_unprintable(text)})
    for name, text in (
        ("total", format_total(verdict)),
        ("basis", format_basis(verdict)),
        ("method", format_method(verdict)),
    ):
        if text:
            Xml.SubElement(properties, "property", {"name": name, "value": escape_unprintable(text)})
    suite.extend(cases)
    Xml.SubElement(suite, "system-out").text = escape_unprintable(verdict.summary)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _build_comparability_case(verdict: ComparisonVerdict) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE_NAME, "name": "the sides can be compared"})
    lines = [
        escape_unprintable(
            f"{format_severity(check)} ({check.reason or check.name}): {format_advice(check)} "
            f"{': '.join(filter(None, format_remedy(check)))}".rstrip()
        )
        for check in select_checks(verdict.checks)
    ]
    lines += [escape_unprintable(f"warning: {note}") for note in list_notes(verdict)]
    refused = [check for check in verdict.checks if check.severity == "blocking"]
    if refused or verdict.direction == "not_comparable":
        attributes = {
            "type": "not_comparable",
            "message": escape_unprintable(refused[0].text if refused else verdict.summary),
        }
        Xml.SubElement(case, "failure", attributes).text = "\n".join(lines)
    elif verdict.sides_without_windows:
        Xml.SubElement(case, "skipped", {"message": escape_unprintable(verdict.summary)})
    elif lines:
        Xml.SubElement(case, "system-out").text = "\n".join(lines)
    return case


def _build_condition_case(condition: EvaluatedCondition) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE_NAME, "name": escape_unprintable(condition.condition)})
    message = escape_unprintable(condition.summary)
    if condition.state is GateStatus.REGRESSED:
        Xml.SubElement(case, "failure", {"type": "regressed", "message": message}).text = message
    elif condition.state is GateStatus.PASS:
        Xml.SubElement(case, "system-out").text = message
    else:
        Xml.SubElement(case, "skipped", {"message": f"{OUTCOME_LABELS[condition.state]}: {message}"})
    return case
