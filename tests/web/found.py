"""Verdicts as a collector gives them, to be put into a comparison's answer on its way to the page.

For what takes days or a cluster to come about: the real collector's verdicts are in the other tests.
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Error, Page, Route

Json = dict[str, Any]


def effect(a: float, b: float, half: float, direction: str = "", **changes: Any) -> Json:
    """B minus A with an interval of so much on either side; the direction follows unless given."""
    delta = b - a
    way = direction or ("unchanged" if abs(delta) <= half else "increased" if delta > 0 else "decreased")
    relative = [(delta + by) / a if a else None for by in (0, -half, half)]
    names = ("relative", "relative_low", "relative_high")
    return {
        "baseline": a,
        "comparison": b,
        "delta": delta,
        "low": delta - half,
        "high": delta + half,
        **dict(zip(names, relative, strict=True)),
        "p": 0.001,
        "direction": way,
        "min_detectable_effect": 0.03,
        **changes,
    }


def columns(effects: list[Json], agree: list[tuple[int, int]], q: list[float]) -> Json:
    names = list(effect(1, 1, 1))
    found: Json = {name: [one[name] for one in effects] for name in names}
    pods = {"pods_agreeing": [one for one, _ in agree], "pods_total": [of for _, of in agree]}
    return {**found, "q": q, **pods}


def check(name: str, state: str = "match", severity: str = "ok", text: str = "", hint: str = "") -> Json:
    """One thing that makes sides comparable or not."""
    words = {"name": name, "state": state, "severity": severity, "text": text, "hint": hint}
    return {**words, "reason": "", "remedy": None}


def culprit(function: str, file: str) -> Json:
    """A function where 40 ms/s more start."""
    frame = f"{function} ({file})"
    numbers = {"delta": 0.04, "share": 0.8, "relative": 2.0, "low": 0.036, "high": 0.044, "q": 0.0004}
    return {
        "function": function,
        "file": file,
        "folded": [],
        "self_or_total": "self",
        **numbers,
        "direction": "increased",
        "pods_agreeing": 5,
        "pods_total": 6,
        "names": ["main (app.py)", "handle (shop/views.py)", frame],
    }


def verdict(**changes: Any) -> Json:
    """What was found of the shop's two versions, with these parts changed."""
    functions = [("render", "jinja2/runtime.py", 0.02, 0.06), ("query", "shop/db.py", 0.06, 0.06)]
    total = [effect(a, b, 0.004) for _, _, a, b in functions]
    return {
        "summary": "B takes 45.5 % more CPU time than A.",
        "basis": "concurrent",
        "basis_reason": "Both sides ran 2026-11-20 22:41–23:41 UTC.",  # noqa: RUF001
        "available_bases": ["concurrent", "composition"],
        "min_relevant_share": 0.01,
        "min_relevant_depth": 0.1,
        "direction": "increased",
        "rate": effect(0.11, 0.16, 0.01),
        "idle": effect(0.58, 0.62, 0.01),
        "depth": {
            **{name: effect(40.7, 46.1, 0.5) for name in ("mean", "p50", "p95", "p99")},
            "max": [4, 5],
            "gap": {"depth": 3, "gap": 0.375, "low": 0.33, "high": 0.41},
        },
        "loop": None,
        "thread_kinds": [],
        "checks": [
            check("mode", text="gil on both sides"),
            check("load", "unknown", text="requests are not counted"),
        ],
        "culprits": {"share": 0.8, "rows": [culprit("render", "jinja2/runtime.py")]},
        "functions": {
            "function": [name for name, *_ in functions],
            "file": [file for _, file, *_ in functions],
            "renamed_from": [None, None],
            "total": columns(total, [(5, 6), (3, 6)], [0.0004, 0.61]),
            "self": columns(total, [(5, 6), (3, 6)], [0.0004, 0.61]),
        },
        "functions_total": 2,
        "method": {
            "unit": "pod-second",
            "alpha_spent": 0.05,
            "alpha": 0.05,
            "analysis_index": 1,
            "min_effect": 0.05,
            "fdr": 0.05,
            "pods": [4, 16],
            "time_blocks": [10, 10],
            "same_pods": False,
            "rate_source": "samples",
        },
        "required": None,
        "conditions": [],
        **changes,
    }


def judged(
    page: Page, found: Json | None, names: tuple[str, ...] = ("render",), unjudged: tuple[str, ...] = ()
) -> None:
    """Have comparisons answered with this verdict (None: without any), these names outside noise.

    `unjudged` are the names about which it makes no statement.
    """

    def answer(route: Route) -> None:
        try:
            response = route.fetch()
        except Error:
            return  # The page went on, and what it had asked ahead was dropped.
        told = response.json()
        told.pop("changed", None)
        told["verdict"] = found
        if found is not None:
            functions = [str(told["names"][name]).split(" ")[0] for name in told["name"]]
            told["changed"] = [1 if name in names else 2 if name in unjudged else 0 for name in functions]
        route.fulfill(response=response, body=json.dumps(told))

    page.route("**/api/v1/compare?**", answer)
