"""A verdict as JSON: what the collector answered, the functions as rows, and the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from sidelight_cli.compare.comparison_model import Row, Tested, Verdict
from sidelight_cli.compare.reports.formatting import listed

FORMAT: Final = 1


def document(verdict: Verdict, by: str, limit: int, *, significant: bool, outcome: str, code: int) -> str:
    """Everything as JSON; rates and differences are seconds per `method.unit`."""
    told = verdict.told
    rows = listed(verdict, by, limit, significant=significant)
    written = {
        "format": FORMAT,
        "type": verdict.type,
        "outcome": outcome,
        "exit_code": code,
        "by": by,
        "verdict": {name: value for name, value in told["verdict"].items() if name != "functions"},
        "sides": told["sides"],
        "functions_total": verdict.functions,
        "rows": [_row(row) for row in rows],
        "basis": told.get("basis"),
    }
    return json.dumps(written, ensure_ascii=False, indent=2) + "\n"


def _row(row: Row) -> Mapping[str, object]:
    told: dict[str, object] = {"function": row.function, "file": row.file}
    told["renamed_from"] = row.renamed_from or None
    return told | {"self": _tested(row.own), "total": _tested(row.total)}


def _tested(tested: Tested) -> Mapping[str, object]:
    return {**asdict(tested.effect), "q": tested.q, "pods_agreeing": tested.agree, "pods_total": tested.of}
