"""A verdict as a JUnit report, the XML that CI servers show: one test a condition, and one whether the sides
can be compared.

There is no schema of JUnit's own; this is the part that Jenkins, GitLab and GitHub's actions read alike
(https://github.com/testmoapp/junitxml). What there is not enough data for, or what cannot be compared, is
skipped with the reason: it is neither passed nor failed.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as Xml

from sidelight_cli.compare.comparison_model import ComparisonVerdict, EvaluatedCondition
from sidelight_cli.compare.reports.formatting import (
    OUTCOME_LABELS,
    format_advice,
    format_counts,
    format_method,
    format_severity,
    format_time_range,
    list_notes,
    select_checks,
)
from sidelight_model.gates import GateStatus
from sidelight_model.terminal_width import escape_unprintable

SUITE_NAME: Final = "sidelight compare"


def render_junit(verdict: ComparisonVerdict) -> str:
    """The report. Whatever names hold, it is XML 1.0."""
    cases = [
        _build_comparability_case(verdict),
        *(_build_condition_case(judged) for judged in verdict.conditions),
    ]
    totals = {"name": SUITE_NAME, "tests": str(len(cases)), "errors": "0"}
    for attribute, tag in (("failures", "failure"), ("skipped", "skipped")):
        totals[attribute] = str(sum(case.find(tag) is not None for case in cases))
    root = Xml.Element("testsuites", totals)
    suite = Xml.SubElement(root, "testsuite", totals)
    properties = Xml.SubElement(suite, "properties")
    for letter, side in zip(("baseline", "comparison"), verdict.sides, strict=True):
        told = ", ".join(filter(None, (side.selector, format_time_range(side), format_counts(side))))
        Xml.SubElement(properties, "property", {"name": letter, "value": escape_unprintable(told)})
    if how := format_method(verdict):
        Xml.SubElement(properties, "property", {"name": "method", "value": escape_unprintable(how)})
    suite.extend(cases)
    Xml.SubElement(suite, "system-out").text = escape_unprintable(verdict.summary)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _build_comparability_case(verdict: ComparisonVerdict) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE_NAME, "name": "the sides can be compared"})
    lines = [
        escape_unprintable(f"{format_severity(check)} ({check.reason or check.name}): {format_advice(check)}")
        for check in select_checks(verdict.checks)
    ]
    lines += [escape_unprintable(f"warning: {note}") for note in list_notes(verdict)]
    refused = [check for check in verdict.checks if check.severity == "blocking"]
    if refused or verdict.direction == "not_comparable":
        told = {
            "type": "not_comparable",
            "message": escape_unprintable(refused[0].text if refused else verdict.summary),
        }
        Xml.SubElement(case, "failure", told).text = "\n".join(lines)
    elif verdict.sides_without_windows:
        Xml.SubElement(case, "skipped", {"message": escape_unprintable(verdict.summary)})
    elif lines:
        Xml.SubElement(case, "system-out").text = "\n".join(lines)
    return case


def _build_condition_case(judged: EvaluatedCondition) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE_NAME, "name": escape_unprintable(judged.condition)})
    message = escape_unprintable(judged.summary)
    if judged.state is GateStatus.REGRESSED:
        Xml.SubElement(case, "failure", {"type": "regressed", "message": message}).text = message
    elif judged.state is GateStatus.PASS:
        Xml.SubElement(case, "system-out").text = message
    else:
        Xml.SubElement(case, "skipped", {"message": f"{OUTCOME_LABELS[judged.state]}: {message}"})
    return case
