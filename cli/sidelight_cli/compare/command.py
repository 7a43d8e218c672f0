"""`sidelight compare`: compare two sides and evaluate the conditions on them."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from sidelight.file_output import write_output_file
from sidelight.terminal_output import write_standard_output
from sidelight_cli.collector_api import CollectorApiClient, read_token
from sidelight_cli.compare.compare_client import fetch_verdict
from sidelight_cli.compare.comparison_model import ComparisonVerdict, parse_verdict
from sidelight_cli.compare.exit_codes import EXIT_CODES, ExitCode, OutputNotWritable, choose_exit_code
from sidelight_cli.compare.polling import Terminated, VerdictProgressLine, raise_on_sigterm, wait_for_verdict
from sidelight_cli.compare.reports.formatting import list_notes
from sidelight_cli.compare.reports.json_report import render_json
from sidelight_cli.compare.reports.junit import render_junit
from sidelight_cli.compare.reports.markdown import render_markdown
from sidelight_cli.compare.reports.text_report import render_text
from sidelight_cli.compare.settings import STDOUT, CompareSettings
from sidelight_cli.compare.settings import parse_compare_settings as read_settings
from sidelight_model.change import RelevantSizes
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.gates import combine_statuses, parse_condition
from sidelight_model.terminal_width import escape_unprintable

NO_VERDICT_MESSAGE: Final = "there is no verdict"


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code, one of `ExitCode`, whatever happens.

    With `--wait`, the comparison happens once there is enough data or the time is over.
    """
    try:
        with raise_on_sigterm():
            return _compare_once(read_settings(argv, os.environ))
    except SidelightError as error:
        _print_status(f"error: {escape_unprintable(error.message)}")
        if error.hint:
            _print_status(f"hint: {escape_unprintable(error.hint)}")
        return choose_exit_code(error)
    except KeyboardInterrupt:
        _print_status(f"\ninterrupted: {NO_VERDICT_MESSAGE}")
        return ExitCode.INTERRUPTED
    except Terminated:
        _print_status(f"terminated: {NO_VERDICT_MESSAGE}")
        return ExitCode.TERMINATED
    except Exception:  # noqa: BLE001 - Python itself would end with 1, which means a regression here
        traceback.print_exc()
        return ExitCode.INTERNAL


def _compare_once(settings: CompareSettings) -> int:
    verdict = compare_files(settings) if settings.is_file_comparison else compare_on_collector(settings)
    outcome, code = determine_outcome(verdict)
    _write_reports(verdict, settings, outcome, code)
    for note in list_notes(verdict):
        _print_status(f"warning: {note}")
    if code is ExitCode.NO_INPUT:
        _print_status(
            f"error: {' and '.join(verdict.sides_without_windows)} matched nothing, so no "
            "condition can be evaluated"
        )
        _print_status(
            "hint: Check the side and its range; --wait SECONDS waits for a deployment that has just begun."
        )
    return code


def compare_on_collector(settings: CompareSettings) -> ComparisonVerdict:
    """Fetch the collector's verdict, waiting for enough data as the settings allow."""
    token = read_token(settings.token_file)
    client = CollectorApiClient(
        settings.collector, token=token, timeout_seconds=settings.timeout_seconds, ca_file=settings.ca_file
    )
    progress = VerdictProgressLine(sys.stderr)
    return wait_for_verdict(
        lambda: fetch_verdict(client, settings),
        settings.fail_on,
        settings.wait,
        settings.wait_every,
        progress,
        is_open_ended=settings.is_open_ended,
    )


def compare_files(settings: CompareSettings) -> ComparisonVerdict:
    """Compare two recordings."""
    # A comparison on a collector needs no parsers and statistics of profile files.
    from sidelight_cli.compare.files import read_recording_file
    from sidelight_model.recordings.local_comparison import compare_recordings
    from sidelight_model.recordings.recording_pair import RecordingPair
    from sidelight_model.recordings.sample_counts import count_samples
    from sidelight_model.recordings.sampling_noise import SignificanceLevel

    kind = ProfileType(settings.type)
    files = settings.selector, settings.file
    recordings = [read_recording_file(Path(file), kind, settings.sample_weight) for file in files]
    a, b = (
        count_samples(file, recording.stacks, kind) for file, recording in zip(files, recordings, strict=True)
    )
    seconds = (settings.baseline_seconds, settings.comparison_seconds)
    recorded_seconds = (seconds[0], seconds[1]) if seconds[0] and seconds[1] else None
    level = SignificanceLevel(settings.alpha, settings.analysis_index or 0, settings.min_effect)
    min_relevant = RelevantSizes(settings.min_relevant_share, settings.min_relevant_depth)
    conditions = [parse_condition(str(condition)) for condition in settings.fail_on]
    pair = RecordingPair(a, b, kind, recorded_seconds, level, min_relevant)
    return parse_verdict(compare_recordings(pair, conditions, recordings=recordings))


def determine_outcome(verdict: ComparisonVerdict) -> tuple[str, ExitCode]:
    """Return the outcome as one word (empty without conditions) and the exit code."""
    if not verdict.conditions:
        return "", ExitCode.PASS
    if verdict.sides_without_windows:
        return "no_data", ExitCode.NO_INPUT
    state = combine_statuses(condition.state for condition in verdict.conditions)
    return state, EXIT_CODES[state]


def _write_reports(
    verdict: ComparisonVerdict, settings: CompareSettings, outcome: str, code: ExitCode
) -> None:
    by, limit, significant = settings.by, settings.limit, settings.significant
    formats: Mapping[str, tuple[str, Callable[[], str]]] = {
        "--json": (
            settings.json,
            lambda: render_json(verdict, by, limit, significant=significant, outcome=outcome, code=code),
        ),
        "--junit": (settings.junit, lambda: render_junit(verdict)),
        "--markdown": (
            settings.markdown,
            lambda: render_markdown(verdict, by, limit, significant=significant),
        ),
    }
    for flag, (file, render) in formats.items():
        if file and file != STDOUT:
            try:
                write_output_file(Path(file), render().encode())
            except OSError as error:
                raise OutputNotWritable(f"{flag}: cannot write {file}: {error.strerror}") from error
    render_stdout = next((render for file, render in formats.values() if file == STDOUT), None)
    # Documents are UTF-8 whatever the terminal's encoding is.
    write_standard_output(
        render_stdout().encode()
        if render_stdout
        else render_text(verdict, by, limit, significant=significant)
    )


def _print_status(line: str) -> None:
    sys.stderr.write(f"{line}\n")
