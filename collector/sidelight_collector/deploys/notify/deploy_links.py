"""Links to the comparison of a deploy, in the UI and the API.

They have no path prefix.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from sidelight_collector.deploys.deploy import Deploy, TimeRange
from sidelight_collector.deploys.version_discovery import CAPTURE_LABEL, build_version_selector
from sidelight_collector.times import SECOND_NS, format_rfc3339
from sidelight_model.selectors import Matcher, Op


def build_view_link(deploy: Deploy) -> str:
    """Build the link to the compare page with the sides of the last analysis.

    Before the first analysis it leads to the page of the service.
    """
    service = quote(deploy.service, safe="")
    query = str(Matcher("namespace", Op.EQUAL, deploy.namespace)) if deploy.namespace else ""
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return f"/s/{service}" + (f"?{urlencode({'query': query})}" if query else "")
    no_capture = str(Matcher(CAPTURE_LABEL, Op.EQUAL, ""))
    parameters = {
        "from": _format_time(last.comparison.start),
        "until": _format_time(last.comparison.until),
        "query": f"{query}, {no_capture}" if query else no_capture,
        "baseline": f"version:{deploy.previous}",
        "comparison": f"version:{deploy.version}",
    }
    if last.baseline != last.comparison:
        parameters |= _build_range_parameters("baseline", last.baseline)
    return f"/s/{service}/compare?" + urlencode({name: value for name, value in parameters.items() if value})


def build_api_link(deploy: Deploy) -> str | None:
    """Build the link that computes the verdict of the last analysis again.

    None if there was nothing to compare.
    """
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return None
    labels = deploy.namespace, deploy.service
    parameters: dict[str, str | list[str]] = {
        "baseline": f"{{{', '.join(map(str, build_version_selector(*labels, deploy.previous).matchers))}}}",
        "comparison": f"{{{', '.join(map(str, build_version_selector(*labels, deploy.version).matchers))}}}",
        **_build_range_parameters("baseline", last.baseline),
        **_build_range_parameters("comparison", last.comparison),
        "type": "cpu",
        "analysis_index": str(last.index),
        "conditions": [str(condition["condition"]) for condition in last.conditions],
    }
    return "/api/v1/verdict?" + urlencode(parameters, doseq=True)


def _build_range_parameters(side: str, time_range: TimeRange) -> dict[str, str]:
    return {f"{side}_from": _format_time(time_range.start), f"{side}_until": _format_time(time_range.until)}


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix) * SECOND_NS)
