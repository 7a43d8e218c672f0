"""`sidelight capture`: ask sidecars of a service to sample now, and follow what becomes of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.settings import BadSetting, parse, positive, setting, whole
from sidelight_cli.collector_api import Client, Refused, Unreachable, read_token
from sidelight_cli.download import opened, save, saved_as
from sidelight_model.errors import SidelightError

DESCRIPTION: Final = (
    "Ask sidecars of a service to sample now, and wait until the profile can be queried. WHAT is a service, "
    "or one of list, show, stop and delete, of which the last three take the ID of a capture (start SERVICE "
    "is for a service of such a name). Ctrl-C ends a capture early and keeps what was sampled; a second one "
    "leaves it."
)
WORDS: Final = ("start", "list", "show", "stop", "delete")
FINAL: Final = ("ready", "stopped", "failed")
LINE_SECONDS: Final = 10.0
"""Without a terminal a line is written so often, and whenever the state changes."""
AWAY_SECONDS: Final = 120.0
"""A collector that does not answer for so long while a capture goes on is given up."""


def pods(text: str) -> int | str | list[str]:
    """How many, which, or all."""
    if text == "all":
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r} is not a number, names with commas between, or all")
    return names


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """What `sidelight capture` is told."""

    what: str = setting("", "a service, or list, show, stop, delete", positional=True)
    which: str = setting("", "the id of a capture, or a service after start", positional=True, metavar="ID")
    collector: str = setting(
        "", "the collector's address; else that in SIDELIGHT_COLLECTOR", required=True, metavar="URL"
    )
    pods: int | str | list[str] = setting(
        1, "how many, chosen at random; names with commas between; or all", read=pods
    )
    seconds: float = setting(60.0, "how long to sample", read=positive)
    rate: int = setting(100, "samples a second", read=whole)
    mode: str = setting("auto", "how stacks are read: auto, gil, blocking, nonblocking, command or native")
    query: str = setting("", "matchers on the labels of sidecars: 'version=\"2\"'", metavar="MATCHERS")
    timeline: bool = setting(default=True, help="send a timeline recording too: samples in time order")
    attach: bool = setting(default=False, help="give pods without a sidecar one for this capture")
    container: str = setting("", "with --attach: the container to sample", metavar="NAME")
    save: Path | None = setting(
        None,
        "write the profile to a file named .folded, .json (speedscope), .pb.gz, .svg, .html or .csv",
        read=saved_as,
        metavar="FILE",
    )
    open: bool = setting(default=False, help="show the result in a browser")
    detach: bool = setting(default=False, help="do not wait: print the id and the address, and end")
    json: bool = setting(default=False, help="write the capture as JSON to standard output")
    limit: int = setting(20, "list: at most so many", read=whole, metavar="COUNT")
    token_file: Path | None = setting(None, "a file with a bearer token", read=Path, metavar="FILE")
    timeout_seconds: float = setting(30.0, "after which an answer is given up", read=positive)

    def __post_init__(self) -> None:
        if not self.what:
            raise BadSetting("nothing to do", hint="Give a service, or list; see sidelight capture --help.")
        if self.what in ("show", "stop", "delete", "start") and not self.which:
            kind = "a service" if self.what == "start" else "the id of a capture"
            raise BadSetting(f"{self.what} needs {kind}", hint="sidelight capture list shows captures.")
        if self.container and not self.attach:
            raise BadSetting("--container is for --attach", hint="It names what an attached sidecar samples.")
        if self.detach and (self.save or self.open):
            raise BadSetting("--detach does not wait for what --save and --open need")
        if self.which and (self.what not in WORDS or self.what == "list"):
            raise BadSetting(f"nothing may follow {self.what!r}", hint="See sidelight capture --help.")


def run(argv: Sequence[str]) -> int:
    """Do it; 0 when there is a profile to query, 1 when the capture failed. Raises SidelightError."""
    # Of the variables only this one: --rate and --mode must not be what was set for a sidecar.
    address = os.environ.get("SIDELIGHT_COLLECTOR")
    default = [f"--collector={address}"] if address else []
    settings = parse(CaptureSettings, "capture", DESCRIPTION, [*default, *argv], None)
    client = Client(
        settings.collector, token=read_token(settings.token_file), timeout_seconds=settings.timeout_seconds
    )
    if settings.what == "list":
        return _list(client, settings)
    if settings.what in ("show", "stop", "delete"):
        return _one(client, settings)
    return _start(client, settings)


def _start(client: Client, settings: CaptureSettings) -> int:
    wish: dict[str, object] = {
        "service": settings.which if settings.what == "start" else settings.what,
        "query": settings.query,
        "pods": settings.pods,
        "seconds": settings.seconds,
        "rate": settings.rate,
        "mode": settings.mode,
        "timeline": settings.timeline,
    }
    if settings.attach:
        wish |= {"attach": True} | ({"container": settings.container} if settings.container else {})
    capture = client.send("POST", "captures", wish)
    if settings.detach:
        _write(json.dumps(capture) if settings.json else f"{capture['id']}\n{_address(settings, capture)}")
        return 0
    _say(f"{capture['id']}  {_address(settings, capture)}")
    capture = follow(client, capture, Progress(sys.stderr.isatty(), _say))
    status = _ended(capture, settings)
    if status == 0 and settings.save is not None:
        save(client, capture, settings.save)
        _say(f"written to {settings.save}")
    if settings.open and not opened(_address(settings, capture)):
        _say("note: there is no browser here; the address is above")
    return status


def _one(client: Client, settings: CaptureSettings) -> int:
    path = f"captures/{settings.which}"
    if settings.what == "delete":
        client.send("DELETE", path)
        _say(f"{settings.which} is deleted; its windows stay as long as others")
        return 0
    capture = client.send("POST", f"{path}/stop") if settings.what == "stop" else client.get(path, {})
    if settings.json:
        _write(json.dumps(capture))
    else:
        _write("\n".join((*lines(capture), _address(settings, capture))))
    return 1 if capture["state"] == "failed" else 0


def _list(client: Client, settings: CaptureSettings) -> int:
    found = client.get("captures", {"limit": str(max(1, settings.limit))})["captures"]
    if settings.json:
        _write(json.dumps(found))
        return 0
    rows = [("id", "state", "service", "created", "seconds", "pods", "samples")]
    for one in found:
        told = (one["id"], one["state"], one["service"], one["created"][:19] + "Z")
        rows.append((*told, f"{one['seconds']:g}", str(one["pods"]), str(one["samples"])))
    widths = [max(len(_plain(row[at])) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        _write("  ".join(f"{_plain(cell):<{width}}" for cell, width in cells).rstrip())
    if not found:
        _say("note: no captures are kept; sidelight capture SERVICE starts one")
    return 0


def _ended(capture: Mapping[str, Any], settings: CaptureSettings) -> int:
    if settings.json:
        _write(json.dumps(capture))
    for line in lines(capture):
        _say(line)
    if capture["state"] == "failed":
        return 1
    if not settings.json:
        _write(_address(settings, capture))
        _write(export_line(settings.collector, capture))
    return 0


def follow(client: Client, capture: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """The capture once it has ended; the first Ctrl-C ends it, a second one raises KeyboardInterrupt."""
    path, since = f"captures/{capture['id']}", time.monotonic()
    with _interrupts() as interrupted:
        asked = False
        while True:
            try:
                if interrupted() and not asked:
                    capture, asked = client.send("POST", f"{path}/stop"), True
                    progress.note("ending it: what was sampled is kept (again: leave it)")
                else:
                    capture = client.get(path, {})
                since = time.monotonic()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.status < 500 and error.status != 429:
                    raise
                if time.monotonic() - since > AWAY_SECONDS:
                    error.hint = f"The capture goes on without this: sidelight capture show {capture['id']}"
                    raise
                progress.note(f"{error.message}; trying again")
            else:
                progress.show(capture)
                if capture["state"] in FINAL:
                    progress.end()
                    return capture
            until = time.monotonic() + 1.0
            while time.monotonic() < until and (asked or not interrupted()):
                time.sleep(0.05)


class Progress:
    """One line that is written over on a terminal, else a line now and then."""

    def __init__(
        self, terminal: bool, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ):
        self._terminal = terminal
        self._say = say
        self._clock = clock
        self._state = ""
        self._at = 0.0
        self._noted = ""

    def show(self, capture: Mapping[str, Any]) -> None:
        """How far it has come."""
        self._noted = ""
        line = progress_line(capture)
        if self._terminal:
            width = _columns()
            sys.stderr.write("\r\x1b[K" + line[: width - 1])
            sys.stderr.flush()
        elif capture["state"] != self._state or self._clock() - self._at >= LINE_SECONDS:
            self._say(line)
            self._state, self._at = capture["state"], self._clock()

    def note(self, text: str) -> None:
        """Something else to say, once."""
        if text != self._noted:
            self.end()
            self._say(_plain(text))
            self._noted = text

    def end(self) -> None:
        """Nothing more is written over."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_line(capture: Mapping[str, Any]) -> str:
    """How far a capture has come, in one line."""
    state = "ending" if capture.get("stopping") else capture["state"]
    told = [state]
    if capture["state"] in ("sampling", "uploading"):
        told.append(f"{capture['elapsed_seconds']:.0f}/{capture['seconds']:g} s")
        told.append(f"{capture['samples']:,} samples")
    if capture["pods"]:
        told.append(f"{capture['pods']} pod{'s' if capture['pods'] != 1 else ''}")
    own: dict[str, int] = {}
    for part in capture.get("parts", ()):
        for one in part.get("top_functions", ()):
            own[one["function"]] = own.get(one["function"], 0) + one["self_samples"]
    if own:
        most = max(own, key=lambda name: own[name])
        told.append(f"most in {most} ({own[most]:,})")
    return _plain(" · ".join(told))


def lines(capture: Mapping[str, Any]) -> Iterator[str]:
    """What a capture is and became, for people."""
    samples = f"{capture['samples']:,} samples in {capture['elapsed_seconds']:.1f} s"
    yield _plain(f"{capture['id']}  {capture['service']}  {capture['state']}: {samples}")
    for part in capture.get("parts", ()):
        pod = part["labels"].get("pod") or part["agent"]
        kinds = ", ".join(f"{times} {kind}" for kind, times in part.get("errors", {}).items())
        errors = f", failed ticks: {kinds}" if kinds else ""
        attached = f" (attached as {part['ephemeral_container']})" if part.get("ephemeral_container") else ""
        yield _plain(f"  {pod}: {part['state']}, {part.get('samples', 0):,} samples{errors}{attached}")
        if part["problem"]:
            yield _plain(f"    {part['problem']}")
            if part["hint"]:
                yield _plain(f"    hint: {part['hint']}")
    if capture["problem"]:
        yield _plain(f"{'error' if capture['state'] == 'failed' else 'note'}: {capture['problem']}")
        if capture["hint"]:
            yield _plain(f"hint: {capture['hint']}")


def export_line(collector: str, capture: Mapping[str, Any]) -> str:
    """The command that writes its profile."""
    return (
        f"sidelight export --collector {collector} --from {capture['from']} --until {capture['until']} "
        f"--type wall '{{capture=\"{capture['id']}\"}}' > {capture['id']}.folded"
    )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Says whether there was a Ctrl-C; the next one is as always."""
    happened = False

    def first(*_: object) -> None:
        nonlocal happened
        happened = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield lambda: happened
    finally:
        signal.signal(signal.SIGINT, before)


def _address(settings: CaptureSettings, capture: Mapping[str, Any]) -> str:
    return f"{settings.collector.rstrip('/')}/captures/{capture['id']}"


def _plain(text: str) -> str:
    """Text that moves no cursor, whatever a function or a pod is called."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _columns() -> int:
    try:
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns)
    except OSError:
        return 80


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _write(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise SidelightError(f"cannot write to standard output: {error.strerror}") from error
