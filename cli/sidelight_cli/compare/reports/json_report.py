"""Render a verdict as JSON.

The report holds the collector's response, the functions as rows, and the outcome.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from sidelight_cli.compare.comparison_model import ComparisonVerdict, FunctionRow, TestedEffect
from sidelight_cli.compare.reports.formatting import select_rows
from sidelight_model.terminal_width import escape_json

FORMAT: Final = 1


def render_json(
    verdict: ComparisonVerdict, sort_by: str, limit: int, *, significant: bool, outcome: str, code: int
) -> str:
    """Render the report; rates and differences are seconds per `method.unit`."""
    answer = verdict.answer
    rows = select_rows(verdict, sort_by, limit, significant=significant)
    report = {
        "format": FORMAT,
        "type": verdict.type,
        "outcome": outcome,
        "exit_code": code,
        "by": sort_by,
        "verdict": {name: value for name, value in answer["verdict"].items() if name != "functions"},
        "sides": answer["sides"],
        "ranges": answer.get("ranges"),
        "functions_total": verdict.function_count,
        "rows": [_row_to_json(row) for row in rows],
        "basis": answer.get("basis"),
    }
    return escape_json(json.dumps(report, ensure_ascii=False, indent=2)) + "\n"


def _row_to_json(row: FunctionRow) -> Mapping[str, object]:
    columns: dict[str, object] = {"function": row.function, "file": row.file}
    columns["renamed_from"] = row.renamed_from or None
    return columns | {
        "self": _tested_effect_to_json(row.self_effect),
        "total": _tested_effect_to_json(row.total_effect),
    }


def _tested_effect_to_json(tested: TestedEffect) -> Mapping[str, object]:
    return {
        **asdict(tested.effect),
        "q": tested.q_value,
        "pods_agreeing": tested.pods_agreeing,
        "pods_total": tested.pods_total,
    }
