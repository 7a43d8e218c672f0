"""Writes a capture's profile to a file, in the format that its name says, and opens its page."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sidelight_cli.collector_api import NOT_A_COLLECTOR_HINT, CollectorApiClient, CollectorUnreachable
from sidelight_model.errors import SidelightError

FORMATS_BY_SUFFIX: Final = {
    ".folded": "folded",
    ".txt": "folded",
    ".json": "speedscope",
    ".pb.gz": "pprof",
    ".pprof": "pprof",
    ".svg": "svg",
    ".html": "html",
    ".csv": "csv",
}
"""The format that the end of a file's name stands for."""


def parse_output_path(text: str) -> Path:
    """A file whose name says a format; raises ValueError."""
    if not any(text.endswith(end) for end in FORMATS_BY_SUFFIX):
        raise ValueError(f"{text!r} does not end with one of {', '.join(FORMATS_BY_SUFFIX)}")
    return Path(text)


def save_profile(client: CollectorApiClient, capture: Mapping[str, Any], file: Path) -> None:
    """Write the profile of a capture that is ready. Raises SidelightError; then there is no such file."""
    format_name = next(word for end, word in FORMATS_BY_SUFFIX.items() if file.name.endswith(end))
    parameters = {
        "query": f'{{capture="{capture["id"]}"}}',
        "from": str(capture["from"]),
        "until": str(capture["until"]),
        "type": "wall",
        "format": format_name,
    }
    partial_file = file.with_name(f".{file.name}.part")
    try:
        with client.stream("export", parameters) as answer, partial_file.open("wb") as written:
            if "Sidelight-Windows" not in answer.headers:
                raise CollectorUnreachable("what answered is no profile", hint=NOT_A_COLLECTOR_HINT)
            for chunk in answer.chunks:
                written.write(chunk)
        partial_file.replace(file)
    except OSError as error:
        raise SidelightError(
            f"cannot write {file}: {error.strerror}", hint="The capture is kept: sidelight capture show ID."
        ) from error
    finally:
        partial_file.unlink(missing_ok=True)


def open_in_browser(address: str) -> bool:
    """Show a page in a browser of this machine; whether there is one."""
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    # Without a screen only a browser for terminals would be found, in the place of this one.
    return (has_display or sys.platform == "darwin") and webbrowser.open(address)
