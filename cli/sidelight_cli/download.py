"""Writes a capture's profile to a file, in the format that its name says, and opens its page."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sidelight_cli.collector_api import NOT_A_COLLECTOR, Client, Unreachable
from sidelight_model.errors import SidelightError

FORMATS: Final = {
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


def saved_as(text: str) -> Path:
    """A file whose name says a format; raises ValueError."""
    if not any(text.endswith(end) for end in FORMATS):
        raise ValueError(f"{text!r} does not end with one of {', '.join(FORMATS)}")
    return Path(text)


def save(client: Client, capture: Mapping[str, Any], file: Path) -> None:
    """Write the profile of a capture that is ready. Raises SidelightError; then there is no such file."""
    wanted = next(word for end, word in FORMATS.items() if file.name.endswith(end))
    given = {
        "query": f'{{capture="{capture["id"]}"}}',
        "from": str(capture["from"]),
        "until": str(capture["until"]),
        "type": "wall",
        "format": wanted,
    }
    part = file.with_name(f".{file.name}.part")
    try:
        with client.stream("export", given) as answer, part.open("wb") as written:
            if "Sidelight-Windows" not in answer.headers:
                raise Unreachable("what answered is no profile", hint=NOT_A_COLLECTOR)
            for chunk in answer.chunks:
                written.write(chunk)
        part.replace(file)
    except OSError as error:
        raise SidelightError(
            f"cannot write {file}: {error.strerror}", hint="The capture is kept: sidelight capture show ID."
        ) from error
    finally:
        part.unlink(missing_ok=True)


def opened(address: str) -> bool:
    """Show a page in a browser of this machine; whether there is one."""
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    # Without a screen only a browser for terminals would be found, in the place of this one.
    return (screen or sys.platform == "darwin") and webbrowser.open(address)
