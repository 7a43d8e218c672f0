"""Where a deploy's comparison can be seen: addresses of the page and of the API, without prefix."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from sidelight_collector.deploys.deploy import Deploy, TimeRange
from sidelight_collector.deploys.version_discovery import CAPTURE_LABEL, build_version_selector
from sidelight_collector.times import SECOND_NS, format_rfc3339
from sidelight_model.selectors import Matcher, Op


def build_view_link(deploy: Deploy) -> str:
    """The compare page as the last look saw it; before the first the page of the service."""
    service = quote(deploy.service, safe="")
    query = str(Matcher("namespace", Op.EQUAL, deploy.namespace)) if deploy.namespace else ""
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return f"/s/{service}" + (f"?{urlencode({'query': query})}" if query else "")
    kept = str(Matcher(CAPTURE_LABEL, Op.EQUAL, ""))
    given = {
        "from": _format_time(last.comparison.start),
        "until": _format_time(last.comparison.until),
        "query": f"{query}, {kept}" if query else kept,
        "baseline": f"version:{deploy.previous}",
        "comparison": f"version:{deploy.version}",
    }
    if last.baseline != last.comparison:
        given |= _build_range_parameters("baseline", last.baseline)
    return f"/s/{service}/compare?" + urlencode({name: value for name, value in given.items() if value})


def build_api_link(deploy: Deploy) -> str | None:
    """The verdict of the last look, asked anew; None where there was nothing to compare."""
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return None
    base = deploy.namespace, deploy.service
    given: dict[str, str | list[str]] = {
        "baseline": f"{{{', '.join(map(str, build_version_selector(*base, deploy.previous).matchers))}}}",
        "comparison": f"{{{', '.join(map(str, build_version_selector(*base, deploy.version).matchers))}}}",
        **_build_range_parameters("baseline", last.baseline),
        **_build_range_parameters("comparison", last.comparison),
        "type": "cpu",
        "analysis_index": str(last.index),
        "conditions": [str(one["condition"]) for one in last.conditions],
    }
    return "/api/v1/verdict?" + urlencode(given, doseq=True)


def _build_range_parameters(side: str, time_range: TimeRange) -> dict[str, str]:
    return {f"{side}_from": _format_time(time_range.start), f"{side}_until": _format_time(time_range.until)}


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix) * SECOND_NS)
