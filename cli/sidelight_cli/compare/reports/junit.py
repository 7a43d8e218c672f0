"""A verdict as a JUnit report, the XML that CI servers show: one test a condition, and one whether the sides
can be compared.

There is no schema of JUnit's own; this is the part that Jenkins, GitLab and GitHub's actions read alike
(https://github.com/testmoapp/junitxml). What there is not enough data for, or what cannot be compared, is
skipped with the reason: it is neither passed nor failed.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as Xml

from sidelight_cli.compare.comparison_model import Judged, Verdict
from sidelight_cli.compare.reports.formatting import (
    OUTCOMES,
    advised,
    counted,
    method,
    notes,
    said,
    severity,
    span,
)
from sidelight_model.gates import State
from sidelight_model.terminal_width import visible

SUITE: Final = "sidelight compare"


def junit(verdict: Verdict) -> str:
    """The report. Whatever names hold, it is XML 1.0."""
    cases = [_comparable(verdict), *(_case(judged) for judged in verdict.conditions)]
    totals = {"name": SUITE, "tests": str(len(cases)), "errors": "0"}
    for attribute, tag in (("failures", "failure"), ("skipped", "skipped")):
        totals[attribute] = str(sum(case.find(tag) is not None for case in cases))
    root = Xml.Element("testsuites", totals)
    suite = Xml.SubElement(root, "testsuite", totals)
    properties = Xml.SubElement(suite, "properties")
    for letter, side in zip(("baseline", "comparison"), verdict.sides, strict=True):
        told = ", ".join(filter(None, (side.selector, span(side), counted(side))))
        Xml.SubElement(properties, "property", {"name": letter, "value": visible(told)})
    if how := method(verdict):
        Xml.SubElement(properties, "property", {"name": "method", "value": visible(how)})
    suite.extend(cases)
    Xml.SubElement(suite, "system-out").text = visible(verdict.sentence)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _comparable(verdict: Verdict) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE, "name": "the sides can be compared"})
    lines = [
        visible(f"{severity(check)} ({check.reason or check.name}): {advised(check)}")
        for check in said(verdict.checks)
    ]
    lines += [visible(f"warning: {note}") for note in notes(verdict)]
    refused = [check for check in verdict.checks if check.severity == "blocking"]
    if refused or verdict.direction == "not_comparable":
        told = {
            "type": "not_comparable",
            "message": visible(refused[0].text if refused else verdict.sentence),
        }
        Xml.SubElement(case, "failure", told).text = "\n".join(lines)
    elif verdict.unwatched:
        Xml.SubElement(case, "skipped", {"message": visible(verdict.sentence)})
    elif lines:
        Xml.SubElement(case, "system-out").text = "\n".join(lines)
    return case


def _case(judged: Judged) -> Xml.Element:
    case = Xml.Element("testcase", {"classname": SUITE, "name": visible(judged.condition)})
    message = visible(judged.sentence)
    if judged.state is State.REGRESSED:
        Xml.SubElement(case, "failure", {"type": "regressed", "message": message}).text = message
    elif judged.state is State.FINE:
        Xml.SubElement(case, "system-out").text = message
    else:
        Xml.SubElement(case, "skipped", {"message": f"{OUTCOMES[judged.state]}: {message}"})
    return case
