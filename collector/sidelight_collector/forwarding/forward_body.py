"""Windows as a push of Pyroscope's protocol, or as a request of OTLP. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sidelight import __version__
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_model.counts import THREAD_STATES
from sidelight_model.export_formats.otlp_export import OtlpRequestBuilder
from sidelight_model.export_formats.pprof import SAMPLES, ProfileTimes, StateRow, encode_profile
from sidelight_model.export_formats.protobuf_writer import encode_message, encode_text
from sidelight_model.folded import split_stack

_PYROSCOPE_NAMES: Final = {"service": "service_name"}


def encode_push(windows: Sequence[HashedWindow]) -> bytes:
    """Encode a PushRequest of `push.v1.PusherService`.

    Each window is a series with one profile of CPU time and wall time, and has the window's id.
    """
    parts = []
    for row in windows:
        labels = {_PYROSCOPE_NAMES.get(name, name): text for name, text in row.window.labels.items()}
        series = b"".join(
            encode_message(1, encode_text(1, name) + encode_text(2, text))
            for name, text in {"__name__": "process_cpu", **labels}.items()
        )
        content = encode_profile(iter_rows(row), (SAMPLES, "cpu", "wall"), find_times(row))
        profile = encode_message(1, content) + encode_message(2, row.window.id.encode())
        parts.append(encode_message(1, series + encode_message(2, profile)))
    return b"".join(parts)


def encode_otlp(windows: Sequence[HashedWindow]) -> bytes:
    """Encode an ExportProfilesServiceRequest."""
    builder = OtlpRequestBuilder(("sidelight", __version__))
    for row in windows:
        builder.add_window(row.window.id, row.window.labels, iter_rows(row), find_times(row))
    return builder.encode()


def iter_rows(row: HashedWindow) -> Iterator[StateRow]:
    """Yield the stacks of a window by state.

    Asyncio tasks are left out: receivers would add them to the time of threads.
    """
    period_ns = row.window.period_ns
    for at, stack in enumerate(row.stacks):
        frames = split_stack(stack)
        for state, column in zip(THREAD_STATES, row.counts, strict=False):
            if count := column[at]:
                yield StateRow(frames, state, count, count * period_ns)


def find_times(row: HashedWindow) -> ProfileTimes:
    """Return the times of a window."""
    return ProfileTimes(row.window.period_ns, row.window.start_ns, row.window.duration_ns)
