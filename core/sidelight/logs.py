"""Logs are events with fields: one line each, as text for a terminal or JSON for a collector of logs."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(*, json: bool, level: str = "info", **fields: str) -> None:
    """Set up structlog for this process, with fields for every event; called once, by its entry point."""
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
