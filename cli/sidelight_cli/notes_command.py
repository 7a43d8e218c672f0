"""`sidelight notes`: list, add and remove notes on a service."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sidelight.settings import BadSetting, join_negative_times, parse_positive_float, parse_settings, setting
from sidelight.terminal_output import write_standard_output
from sidelight_cli.collector_api import CA_FILE_HELP, CollectorApiClient, read_token
from sidelight_model.terminal_width import escape_unprintable

DESCRIPTION: Final = (
    "Notes on a service, as its pages show them: list SERVICE, add SERVICE TEXT, and remove ID. A note marks "
    "a time range, a function, or both; without either, it marks this moment."
)
OPERANDS: Final = {
    "list": (("the service",), "For instance: sidelight notes list shop."),
    "add": (("the service", "the text"), "For instance: sidelight notes add shop 'Cache on'."),
    "remove": (("the id of a note",), "sidelight notes list SERVICE prints the ids."),
}
FILTERS: Final = ("namespace", "from", "until")
FIELDS: Final = (*FILTERS, "function")


@dataclass(frozen=True, slots=True)
class NotesSettings:
    """Settings of `sidelight notes`."""

    action: str = setting("", "list, add or remove", positional=True)
    subject: str = setting("", "a service, or the id of a note to remove", positional=True)
    text: str = setting("", "text of a new note, up to 1,000 characters", positional=True)
    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    from_: str = setting("", "start of the range: RFC 3339, Unix seconds, now, or -15m", metavar="TIME")
    until: str = setting("", "end of the range; otherwise a new note marks the moment --from", metavar="TIME")
    function: str = setting("", "function of a new note: 'render (shop/views.py)'")
    namespace: str = setting("", "namespace of the service")
    json: bool = setting(default=False, help="write JSON to standard output")
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(30.0, "timeout of the request", parse=parse_positive_float)

    def __post_init__(self) -> None:
        if self.action not in OPERANDS:
            raise BadSetting(f"{self.action!r} is not list, add or remove", hint=OPERANDS["list"][1])
        names, hint = OPERANDS[self.action]
        given = [word for word in (self.subject, self.text) if word]
        if len(given) < len(names):
            raise BadSetting(f"{self.action} needs {names[len(given)]}", hint=hint)
        if len(given) > len(names):
            raise BadSetting(f"{self.text!r} is one word too many", hint=hint)


def run(argv: Sequence[str]) -> int:
    """Send one request and print its result. Raises SidelightError."""
    # No other environment variable applies: SIDELIGHT_NAMESPACE and the like are for sidecars.
    variables = {"--collector": "SIDELIGHT_COLLECTOR", "--ca-file": "SIDELIGHT_CA_FILE"}
    default = [f"{flag}={os.environ[name]}" for flag, name in variables.items() if os.environ.get(name)]
    words = join_negative_times([*default, *argv])
    settings = parse_settings(NotesSettings, "notes", DESCRIPTION, words, None)
    client = CollectorApiClient(
        settings.collector,
        token=read_token(settings.token_file),
        timeout_seconds=settings.timeout_seconds,
        ca_file=settings.ca_file,
    )
    if settings.action == "remove":
        client.send("DELETE", f"notes/{quote(settings.subject, safe='')}")
        sys.stderr.write(f"{escape_unprintable(settings.subject)} is removed\n")
    elif settings.action == "add":
        fields = {"service": settings.subject, "text": settings.text, **_list_given(settings, FIELDS)}
        _print_notes(settings, client.send("POST", "notes", fields))
    else:
        parameters = {"service": settings.subject, **_list_given(settings, FILTERS)}
        _print_notes(settings, *client.get("notes", parameters)["notes"])
    return 0


def _list_given(settings: NotesSettings, names: Sequence[str]) -> dict[str, str]:
    values = {name: getattr(settings, "from_" if name == "from" else name) for name in names}
    return {name: text for name, text in values.items() if text}


def _print_notes(settings: NotesSettings, *notes: Mapping[str, Any]) -> None:
    if settings.json:
        document = notes[0] if settings.action == "add" else notes
        write_standard_output(f"{json.dumps(document)}\n")
        return
    for note in notes:
        write_standard_output(f"{format_note(note)}\n")
    if not notes:
        sys.stderr.write("note: there are no notes; sidelight notes add SERVICE TEXT writes one\n")


def format_note(note: Mapping[str, Any]) -> str:
    """Format a note as lines: id, author, what it marks, and its text, indented."""
    ends = [note["from"]] if note["from"] == note["until"] else [note["from"], note["until"]]
    heading = [
        note["id"],
        note["namespace"],
        note["author"],
        note["function"],
        " to ".join(filter(None, ends)),
    ]
    lines = ["  ".join(filter(None, heading)), *(f"  {line}" for line in note["text"].splitlines())]
    return "\n".join(map(escape_unprintable, lines))
