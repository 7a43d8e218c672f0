"""Structured logs: one event with fields per line, as text or JSON.

Secrets in URLs are masked, and control characters are escaped, in every field.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from sidelight.terminal_output import unwrap_stream
from sidelight_model.errors import mask_urls
from sidelight_model.terminal_width import escape_json, escape_lines, escape_unprintable

# structlog would import rich where it is installed, which takes 60 ms, for tracebacks that no log has.
_modules: dict[str, Any] = sys.modules
_rich = _modules.setdefault("rich", None)
import structlog  # noqa: E402

if _rich is None:
    del _modules["rich"]


def configure(*, json: bool, level: str = "info", **fields: str) -> None:
    """Set up structlog for this process; its entry point calls this once.

    With `json` each line is a JSON object, else text for a terminal. `fields` are added to every event.
    """
    renderers: list[structlog.typing.Processor]
    if json:
        renderers = [structlog.processors.JSONRenderer(ensure_ascii=False), _escape_json_line]
    else:
        colors = sys.stderr.isatty()
        renderers = [_escape_fields, structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0)]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            lambda _logger, _method, event: {**event, **fields},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _mask_fields,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=unwrap_stream(sys.stderr)),
        cache_logger_on_first_use=False,
    )


def _mask_fields(_logger: object, _method: str, event: structlog.typing.EventDict) -> Any:
    return _mask_value(event)


def _mask_value(value: Any) -> Any:
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, dict):
        return {key: _mask_value(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_mask_value(item) for item in value]
    return mask_urls(str(value)) if isinstance(value, BaseException) else value


def _escape_fields(_logger: object, _method: str, event: structlog.typing.EventDict) -> Any:
    # Other values are shown as Python literals, which have no control characters.
    return {
        escape_unprintable(key): (escape_lines if key == "exception" else escape_unprintable)(value)
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }


def _escape_json_line(_logger: object, _method: str, line: Any) -> Any:
    return escape_json(line)
