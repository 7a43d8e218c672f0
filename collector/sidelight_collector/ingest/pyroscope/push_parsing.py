"""Turn a push into windows, or raise the reason to refuse it. Pure."""

from __future__ import annotations

from sidelight_collector.decompress import decompress_body
from sidelight_collector.ingest.pyroscope.profile_windows import SentProfile, WindowBuilder, hash_profile
from sidelight_collector.ingest.pyroscope.push_request import parse_push_json, parse_push_message
from sidelight_collector.ingest.pyroscope.series_labels import PyroscopeClient, map_series_labels
from sidelight_collector.ingest.validation import IngestLimits, ParsedRequest, ReceivedRequest
from sidelight_collector.json_body import JsonLimits

JSON_MEMORY_FACTOR = 2
"""The values of a JSON body may take this many times the size of a body in memory."""


def parse_push(
    request: ReceivedRequest, limits: IngestLimits, client: PyroscopeClient, *, is_json: bool
) -> ParsedRequest:
    """Parse the profiles of a push. Raises the first reason to refuse it."""
    body = decompress_body(request.body, request.encoding, limits.max_body_bytes)
    max_profiles = limits.window_limits.max_windows
    if is_json:
        profiles = parse_push_json(body, build_json_limits(limits), max_profiles)
    else:
        profiles = parse_push_message(body, max_profiles)
    builder = WindowBuilder(limits, request.now_ns, request.writer)
    for profile in profiles:
        series = map_series_labels((*profile.labels, *client.labels), client.name)
        content = builder.unpack(profile.content)
        builder.add_pprof(content, SentProfile(series, hash_profile(series, profile.profile_id, content)))
    return builder.finish(len(body))


def build_json_limits(limits: IngestLimits) -> JsonLimits:
    """Build the limits of a JSON body."""
    return JsonLimits(limits.max_body_bytes, JSON_MEMORY_FACTOR * limits.max_body_bytes)
