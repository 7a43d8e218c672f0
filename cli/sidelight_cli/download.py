"""Write a capture's profile to a file, and open its page in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sidelight_cli.collector_api import CollectorApiClient
from sidelight_cli.collector_errors import NOT_A_COLLECTOR_HINT, CollectorUnreachable
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
"""Export format by suffix of the file name."""


def parse_output_path(text: str) -> Path:
    """Parse a file name; raises ValueError if its suffix has no format."""
    if not any(text.endswith(suffix) for suffix in FORMATS_BY_SUFFIX):
        raise ValueError(f"{text!r} does not end with one of {', '.join(FORMATS_BY_SUFFIX)}")
    return Path(text)


def save_profile(client: CollectorApiClient, capture: Mapping[str, Any], file: Path) -> None:
    """Write the profile of a finished capture, in the format of the file's suffix.

    Raises SidelightError; then the file is not written.
    """
    format_name = next(name for suffix, name in FORMATS_BY_SUFFIX.items() if file.name.endswith(suffix))
    parameters = {
        "query": f'{{capture="{capture["id"]}"}}',
        "from": str(capture["from"]),
        "until": str(capture["until"]),
        "type": "wall",
        "format": format_name,
    }
    partial_file = file.with_name(f".{file.name}.part")
    try:
        with client.stream("export", parameters) as response, partial_file.open("wb") as output:
            if "Sidelight-Windows" not in response.headers:
                raise CollectorUnreachable("what answered is no profile", hint=NOT_A_COLLECTOR_HINT)
            for chunk in response.chunks:
                output.write(chunk)
        partial_file.replace(file)
    except OSError as error:
        raise SidelightError(
            f"cannot write {file}: {error.strerror}", hint="The capture is kept: sidelight capture show ID."
        ) from error
    finally:
        partial_file.unlink(missing_ok=True)


def open_in_browser(address: str) -> bool:
    """Open a page in a local browser; returns whether there is one."""
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    # Without a display, `webbrowser` would start a text browser in this terminal.
    return (has_display or sys.platform == "darwin") and webbrowser.open(address)
