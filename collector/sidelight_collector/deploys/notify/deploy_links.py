"""Where a deploy's comparison can be seen: addresses of the page and of the API, without prefix."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from sidelight_collector.deploys.deploy import Deploy, Range
from sidelight_collector.deploys.version_discovery import CAPTURE, of_version
from sidelight_collector.times import SECOND_NS, rfc3339
from sidelight_model.selectors import Matcher, Op


def view_link(deploy: Deploy) -> str:
    """The compare page as the last look saw it; before the first the page of the service."""
    service = quote(deploy.service, safe="")
    query = str(Matcher("namespace", Op.EQUAL, deploy.namespace)) if deploy.namespace else ""
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return f"/s/{service}" + (f"?{urlencode({'query': query})}" if query else "")
    kept = str(Matcher(CAPTURE, Op.EQUAL, ""))
    given = {
        "from": _moment(last.comparison.start),
        "until": _moment(last.comparison.until),
        "query": f"{query}, {kept}" if query else kept,
        "baseline": f"version:{deploy.previous}",
        "comparison": f"version:{deploy.version}",
    }
    if last.baseline != last.comparison:
        given |= _edges("baseline", last.baseline)
    return f"/s/{service}/compare?" + urlencode({name: value for name, value in given.items() if value})


def api_link(deploy: Deploy) -> str | None:
    """The verdict of the last look, asked anew; None where there was nothing to compare."""
    last = deploy.analyses[-1] if deploy.analyses else None
    if last is None or last.baseline is None or last.comparison is None:
        return None
    base = deploy.namespace, deploy.service
    given: dict[str, str | list[str]] = {
        "baseline": f"{{{', '.join(map(str, of_version(*base, deploy.previous).matchers))}}}",
        "comparison": f"{{{', '.join(map(str, of_version(*base, deploy.version).matchers))}}}",
        **_edges("baseline", last.baseline),
        **_edges("comparison", last.comparison),
        "type": "cpu",
        "analysis_index": str(last.index),
        "conditions": [str(one["condition"]) for one in last.conditions],
    }
    return "/api/v1/verdict?" + urlencode(given, doseq=True)


def _edges(side: str, one: Range) -> dict[str, str]:
    return {f"{side}_from": _moment(one.start), f"{side}_until": _moment(one.until)}


def _moment(unix: float) -> str:
    return rfc3339(round(unix) * SECOND_NS)
