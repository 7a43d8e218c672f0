"""Structured logs: one event with fields per line, as text or JSON."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(*, json: bool, level: str = "info", **fields: str) -> None:
    """Set up structlog for this process; its entry point calls this once.

    With `json` each line is a JSON object, else text for a terminal. `fields` are added to every event.
    """
    renderer: structlog.typing.Processor
    if json:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            lambda _logger, _method, event: {**event, **fields},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
