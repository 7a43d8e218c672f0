"""A tiny server that answers `/api/v1/verdict` as it is told, for what no store can be brought to say."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sidelight_model.gates import evaluate_condition, parse_condition
from tests.loopback_server import LoopbackHandler, serving


def effect(
    a: float = 1.0,
    b: float = 1.0,
    half: float = 0.01,
    direction: str = "unchanged",
    detectable: float | None = 0.014,
) -> dict[str, Any]:
    """An Effect whose interval reaches `half` to both sides of the difference."""
    told: dict[str, Any] = {
        "baseline": a,
        "comparison": b,
        "delta": b - a,
        "low": b - a - half,
        "high": b - a + half,
    }
    for name, value in (("relative", b - a), ("relative_low", b - a - half), ("relative_high", b - a + half)):
        told[name] = value / a if a else None
    return told | {"p": 0.04, "min_detectable_effect": detectable if a else None, "direction": direction}


def columns(*effects: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Effects of functions, with what three pods and a q of 0.01 say."""
    told = {name: [one[name] for one in effects] for name in (effects[0] if effects else ())}
    return told | {
        "q": [0.01] * len(effects),
        "pods_agreeing": [3] * len(effects),
        "pods_total": [3] * len(effects),
    }


def answer(
    *conditions: tuple[str, Mapping[str, Any] | None],
    rate: Mapping[str, Any] | None = None,
    functions: Sequence[tuple[str, str, Mapping[str, Any]]] = (
        ("work", "b.py", effect(0.1, 0.3, 0.02, "increased")),
    ),
    checks: Sequence[Mapping[str, Any]] = (),
    more: Mapping[str, Any] | None = None,
    windows: tuple[int, int] = (6, 6),
    until: float = 4102444800.0,
    **verdict: Any,
) -> dict[str, Any]:
    """An answer about conditions with their effects."""
    judged = []
    for text, found in conditions:
        state, sentence = evaluate_condition(parse_condition(text), found)
        judged.append({"condition": text, "state": state, "summary": sentence, "effect": found})
    told = {
        "summary": "B takes 5.0 % more CPU time than A.",
        "basis": "concurrent",
        "basis_reason": "Both sides ran 2026-11-21 09:30\u201310:30 UTC.",
        "available_bases": ["concurrent", "composition"],
        "direction": "increased",
        "rate": rate or effect(0.35, 0.37, 0.01, "increased"),
        "idle": None,
        "depth": None,
        "loop": None,
        "thread_kinds": [],
        "checks": list(checks),
        "culprits": CULPRITS,
        "functions": {
            "function": [name for name, _, _ in functions],
            "file": [file for _, file, _ in functions],
            "renamed_from": [None] * len(functions),
            "self": columns(*(one for _, _, one in functions)),
            "total": columns(*(one for _, _, one in functions)),
        },
        "functions_total": len(functions),
        "method": METHOD,
        "required": more,
        "conditions": judged,
    }
    sides = [
        {
            "selector": f'{{service="shop", version="{at + 1}"}}',
            "from": 1795253400.0,
            "until": until,
            "samples": 350 * count,
            "seconds": 3.5 * count,
            "windows": count,
            "pods": min(3, count),
            "pod_seconds": 10.0 * count,
        }
        for at, count in enumerate(windows)
    ]
    return {"type": "cpu", "sides": sides, "verdict": told | verdict, "basis": {"unreadable_segments": 0}}


def culprit(function: str, file: str, delta: float, share: float, *folded: str) -> dict[str, Any]:
    """A function where a change starts."""
    interval = {"low": delta - 0.01, "high": delta + 0.01, "relative": None, "q": 0.001}
    return interval | {
        "function": function,
        "file": file,
        "folded": list(folded),
        "self_or_total": "total" if folded else "self",
        "delta": delta,
        "share": share,
        "direction": "increased" if delta > 0 else "decreased",
        "pods_agreeing": 3,
        "pods_total": 3,
        "names": ["main (a.py)", f"{function} ({file})"],
    }


CULPRITS: dict[str, Any] = {
    "share": 0.92,
    "rows": [culprit("work", "b.py", 0.2, 0.8, "loads", "scan"), culprit("new", "e.py", -0.03, 1.0)],
}
METHOD: dict[str, Any] = {
    "alpha": 0.05,
    "analysis_index": 1,
    "alpha_spent": 0.025,
    "min_effect": 0.05,
    "fdr": 0.025,
    "unit": "pod-second",
    "pods": [3, 3],
    "pod_groups": [3, 3],
    "time_blocks": [12, 12],
    "frequencies": 4,
    "paired": "time",
    "same_pods": False,
    "over_dispersion": [2.1, 1.9],
}


def check(severity: str, reason: str = "mode_differs", text: str = "A gil, B command.") -> dict[str, Any]:
    return {
        "name": "mode",
        "state": "mismatch",
        "severity": severity,
        "reason": reason,
        "text": text,
        "hint": "Set --mode alike.",
        "remedy": None,
    }


@dataclass
class Answering:
    """The server: what it answers in turn (the last again and again), and what it was asked."""

    url: str
    answers: list[tuple[int, Any]]
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


@contextmanager
def answering(*answers: Any) -> Iterator[Answering]:
    """Serve these; one that is (status, body) is a refusal, None never answers."""
    told = [one if isinstance(one, tuple) else (200, one) for one in answers]
    served = Answering("", told)
    over = threading.Event()

    class Handler(LoopbackHandler):
        def do_GET(self) -> None:
            served.asked.append(parse_qs(urlsplit(self.path).query))
            served.headers.append(dict(self.headers))
            status, body = served.answers[min(len(served.asked), len(served.answers)) - 1]
            if body is None:
                over.wait()
                return
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.answer(status, content, {"Content-Type": "application/json"})

    with serving(Handler) as port:
        served.url = f"http://127.0.0.1:{port}"
        try:
            yield served
        finally:
            over.set()
