"""Whether the windows of a capture can be queried."""

from __future__ import annotations

from functools import partial
from typing import Final

from sidelight_collector.answers.catalog import list_label_values
from sidelight_collector.captures.capture import Capture
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Matcher, Op, Selector

CLOCK_SKEW_SECONDS: Final = 300.0
"""The clock of a pod may be so far from the collector's."""


async def count_queryable_windows(engine: QueryEngine, capture: Capture, until: float) -> int:
    """How many windows of a capture a query finds that began by this moment (Unix seconds)."""
    selector = Selector((Matcher("capture", Op.EQUAL, capture.id),))
    begin, end = capture.created_at - CLOCK_SKEW_SECONDS, until + CLOCK_SKEW_SECONDS
    question = WindowQuery(selector, int(begin * SECOND_NS), int(end * SECOND_NS))
    answer = await engine.run(partial(list_label_values, query=question, name="capture"))
    return answer["basis"]["windows"]
