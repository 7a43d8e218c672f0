"""Counts the windows of a capture that queries find."""

from __future__ import annotations

from functools import partial
from typing import Final

from sidelight_collector.answers.catalog import list_label_values
from sidelight_collector.captures.capture import Capture
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Matcher, Op, Selector

CLOCK_SKEW_SECONDS: Final = 300.0
"""Maximum difference between the clocks of a pod and the collector."""


async def count_queryable_windows(engine: QueryEngine, capture: Capture, until: float) -> int:
    """Count the windows of a capture that a query finds.

    Only windows that began until `until` (Unix seconds) count, with a margin of `CLOCK_SKEW_SECONDS`.
    """
    selector = Selector((Matcher("capture", Op.EQUAL, capture.id),))
    begin, end = capture.created_at - CLOCK_SKEW_SECONDS, until + CLOCK_SKEW_SECONDS
    query = WindowQuery(selector, int(begin * SECOND_NS), int(end * SECOND_NS))
    answer = await engine.run(partial(list_label_values, query=query, name="capture"))
    return answer["basis"]["windows"]
