"""`sidelight compare`: what differs between two sides, and whether that is allowed."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from sidelight_cli.collector_api import Client, read_token
from sidelight_cli.compare.compare_client import ask
from sidelight_cli.compare.comparison_model import Verdict, read
from sidelight_cli.compare.exit_codes import OF_STATE, Code, NotWritten, of_error
from sidelight_cli.compare.files import recording
from sidelight_cli.compare.local_comparison import Pair, compare
from sidelight_cli.compare.polling import Progress, Terminated, terminable, wait
from sidelight_cli.compare.reports.formatting import notes
from sidelight_cli.compare.reports.json_report import document
from sidelight_cli.compare.reports.junit import junit
from sidelight_cli.compare.reports.markdown import markdown
from sidelight_cli.compare.reports.text_report import text
from sidelight_cli.compare.sample_counts import count
from sidelight_cli.compare.sampling_noise import Level
from sidelight_cli.compare.settings import STDOUT, CompareSettings
from sidelight_cli.compare.settings import read as read_settings
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.gates import parse as parse_condition
from sidelight_model.gates import worst

NO_VERDICT: Final = "nothing was judged"


def run(argv: Sequence[str]) -> int:
    """Compare once, or once there is enough data; the exit code, which is one of `Code`, whatever happens."""
    try:
        with terminable():
            return _run(read_settings(argv, os.environ))
    except SidelightError as error:
        _say(f"error: {error.message}")
        if error.hint:
            _say(f"hint: {error.hint}")
        return of_error(error)
    except KeyboardInterrupt:
        _say(f"\ninterrupted: {NO_VERDICT}")
        return Code.INTERRUPTED
    except Terminated:
        _say(f"terminated: {NO_VERDICT}")
        return Code.TERMINATED
    except Exception:  # noqa: BLE001 - Python itself would end with 1, which means a regression here
        traceback.print_exc()
        return Code.INTERNAL


def _run(settings: CompareSettings) -> int:
    verdict = of_files(settings) if settings.of_files else of_collector(settings)
    outcome, code = judged(verdict)
    _write(verdict, settings, outcome, code)
    for note in notes(verdict):
        _say(f"warning: {note}")
    if code is Code.NO_SIDE:
        _say(f"error: {' and '.join(verdict.unwatched)} matched nothing, so that no condition can be judged")
        _say("hint: Check the side and its range; --wait SECONDS waits for a deployment that has just begun.")
    return code


def of_collector(settings: CompareSettings) -> Verdict:
    """What the collector says, once there is enough data for it or the time to wait is over."""
    token = read_token(settings.token_file)
    client = Client(settings.collector, token=token, timeout_seconds=settings.timeout_seconds)
    told = Progress(sys.stderr)
    return wait(lambda: ask(client, settings), settings.fail_on, settings.wait, settings.wait_every, told)


def of_files(settings: CompareSettings) -> Verdict:
    """What two files say."""
    kind = ProfileType(settings.type)
    a, b = (count(file, recording(Path(file), kind), kind) for file in (settings.selector, settings.file))
    seconds = (settings.baseline_seconds, settings.comparison_seconds)
    known = (seconds[0], seconds[1]) if seconds[0] and seconds[1] else None
    level = Level(settings.alpha, settings.analysis_index or 0, settings.min_effect)
    conditions = [parse_condition(str(condition)) for condition in settings.fail_on]
    return read(compare(Pair(a, b, kind, known, level), conditions))


def judged(verdict: Verdict) -> tuple[str, Code]:
    """The outcome in a word (empty without conditions), and the exit code."""
    if not verdict.conditions:
        return "", Code.FINE
    if verdict.unwatched:
        return "no_data", Code.NO_SIDE
    state = worst(one.state for one in verdict.conditions)
    return state, OF_STATE[state]


def _write(verdict: Verdict, settings: CompareSettings, outcome: str, code: Code) -> None:
    by, limit, significant = settings.by, settings.limit, settings.significant
    formats: Mapping[str, tuple[str, Callable[[], str]]] = {
        "--json": (
            settings.json,
            lambda: document(verdict, by, limit, significant=significant, outcome=outcome, code=code),
        ),
        "--junit": (settings.junit, lambda: junit(verdict)),
        "--markdown": (settings.markdown, lambda: markdown(verdict, by, limit, significant=significant)),
    }
    for flag, (file, written) in formats.items():
        if file and file != STDOUT:
            try:
                Path(file).write_text(written(), encoding="utf-8")
            except OSError as error:
                raise NotWritten(f"{flag}: cannot write {file}: {error.strerror}") from error
    standard = next((written for file, written in formats.values() if file == STDOUT), None)
    _print(standard() if standard else text(verdict, by, limit, significant=significant))


def _print(what: str) -> None:
    try:
        sys.stdout.write(what)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing must be flushed at exit into what takes no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NotWritten(f"cannot write to standard output: {error.strerror}") from error


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
