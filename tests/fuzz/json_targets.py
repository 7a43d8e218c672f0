"""Polls, requests and recordings: JSON that sidecars and users send."""

from __future__ import annotations

from typing import Final

import orjson

from sidelight_collector.captures.agents import AgentRegistry
from sidelight_collector.captures.capture import CapturePolicy
from sidelight_collector.captures.capture_requests import parse_capture_id, parse_capture_request, parse_poll
from sidelight_collector.captures.recordings.loop_blocking import measure_loop_blocking
from sidelight_collector.captures.recordings.recording_files import (
    encode_summary,
    parse_recording,
    render_speedscope,
)
from sidelight_collector.captures.recordings.subsecond_heatmap import (
    CaptureRecordings,
    RecordingFlameOptions,
    StoredRecording,
    build_recording_flame,
    build_subsecond_heatmap,
)
from sidelight_collector.json_body import JsonLimits, parse_json_object
from sidelight_collector.query.query_errors import BadParameter
from sidelight_model.capture_protocol import AgentPoll, AgentPollResponse
from sidelight_model.counts import ProfileType
from tests.collector.fake_sidecars import recording
from tests.fuzz.targets import Target

MEMORY_BYTES: Final = 8 << 20
LIMITS: Final = JsonLimits(256 << 10, MEMORY_BYTES)
_CAPTURE: Final = "c_01M883XB1SK9Y8CVHV1VR54JHX"
_AGENT: Final = "01M7YQVZYKSX6KCDH95ZVGXJS6"
_LABELS: Final = {"service": "shop", "version": "2", "namespace": "n", "pod": "p-1"}

POLL: Final = {
    "v": 1,
    "agent": _AGENT,
    "labels": _LABELS,
    "sampler": "native",
    "sidelight_version": "0.1.0",
    "timeout_seconds": 25,
    "ready": True,
    "problem": "",
    "modes": ["auto", "gil"],
    "max_seconds": 600,
    "max_rate": 1000,
    "processes": [{"pid": 12, "role": "web", "python": "3.11.7", "cmdline": "python app.py"}],
    "reports": [
        {
            "capture": _CAPTURE,
            "state": "sampling",
            "seconds": 2.0,
            "elapsed_seconds": 1.0,
            "samples": 3,
            "windows": 1,
            "recordings": 1,
            "errors": {"late": 3},
            "problem": "",
            "hint": "",
            "processes": [{"pid": 12, "samples": 3, "covered_since": "2026-11-21T09:30:00Z"}],
            "top_functions": [{"function": "f (a.py)", "self_samples": 3}],
        }
    ],
}
REQUEST: Final = {
    "service": "shop",
    "query": 'version=~"2.*"',
    "pods": ["p-1", "p-2"],
    "seconds": 60,
    "rate": 100,
    "mode": "gil",
    "timeline": True,
    "attach": True,
    "container": "app",
    "native": False,
    "id": _CAPTURE,
}


def run_poll(data: bytes) -> str:
    poll = parse_poll(parse_json_object(data, LIMITS))
    registry = AgentRegistry(10)
    registry.record_poll(poll, 1.0)
    assert 0 < registry.size_bytes < MEMORY_BYTES
    # What was accepted can be sent on to other collectors, and read there.
    again = orjson.loads(orjson.dumps({**poll.status.to_json(), "reports": []}))
    assert AgentPoll.parse(again).status == poll.status
    return f"{len(poll.reports)} reports, {len(poll.status.processes)} processes, {poll.status.ready}"


def run_poll_response(data: bytes) -> str:
    response = AgentPollResponse.parse(parse_json_object(data, LIMITS))
    assert AgentPollResponse.parse(orjson.loads(orjson.dumps(response.to_json()))) == response
    return f"{len(response.capture_jobs)} jobs"


def run_capture_request(data: bytes) -> str:
    raw = parse_json_object(data, LIMITS)
    request = parse_capture_request(raw, CapturePolicy())
    return f"{request.mode} {request.pods!r:.20} {bool(parse_capture_id(raw))}"


def run_recording(data: bytes) -> str:
    """A recording that is accepted can be shown in every way."""
    parsed = parse_recording(data, MEMORY_BYTES)
    stored = StoredRecording(
        "a-12", orjson.loads(encode_summary(parsed, "a-12", 1, parsed.labels)), lambda: parsed
    )
    found = CaptureRecordings.select(_CAPTURE, [stored])
    orjson.loads(render_speedscope(parsed, "title", 1000))
    shown = 0
    for kind in ProfileType:
        try:
            build_subsecond_heatmap(found, kind, 20, max_cells=10_000)
            options = RecordingFlameOptions(100, by_line=True, by_state=True, includes_outside=True)
            build_recording_flame(found, kind, 0, 2**40, options)
            shown += 1
        except BadParameter:
            continue
    measure_loop_blocking(found, 10)
    return f"{len(parsed.threads)} threads, {min(parsed.sample_count, 9)} samples, shown {shown} times"


_RECORDING: Final = {
    **recording(_CAPTURE, _AGENT, {key: value for key, value in _LABELS.items() if value}, 12),
    "periods": [[0, 10_000], [20_000, 5_000]],
}
_LOOP: Final = {
    **_RECORDING,
    "frames": [
        "main (a.py:1)",
        "run_forever (asyncio/base_events.py:600)",
        "_run_once (asyncio/base_events.py:1900)",
        "_run (asyncio/events.py:80)",
        "f (a.py:3)",
        "select (selectors.py:450)",
    ],
    "stacks": [[0, 1, 2, 5], [0, 1, 2, 3, 4]],
}
_RESPONSE: Final = {
    "capture_jobs": [
        {
            "capture": _CAPTURE,
            "seconds": 60,
            "rate": 100,
            "mode": "auto",
            "timeline": True,
            "max_recording_bytes": 1,
        }
    ],
    "stop_captures": [_CAPTURE],
    "retry_seconds": 1,
}

TARGETS: Final = (
    Target("polls", (orjson.dumps(POLL),), run_poll),
    Target("poll-responses", (orjson.dumps(_RESPONSE),), run_poll_response),
    Target(
        "capture-requests",
        (orjson.dumps(REQUEST), b'{"selector":"{service=\\"shop\\"}"}'),
        run_capture_request,
    ),
    Target("recordings", (orjson.dumps(_RECORDING), orjson.dumps(_LOOP)), run_recording),
)
