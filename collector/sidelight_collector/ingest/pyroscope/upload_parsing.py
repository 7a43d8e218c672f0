"""Turn an upload to `/ingest` into windows. Pure."""

from __future__ import annotations

import re
from typing import Final

from sidelight_collector.decompress import decompress_body
from sidelight_collector.ingest import parsing
from sidelight_collector.ingest.pyroscope.multipart_form import parse_form
from sidelight_collector.ingest.pyroscope.profile_sums import (
    BadProfile,
    SampleGroup,
    WeighedSample,
    sum_weighed_samples,
    too_much_text,
)
from sidelight_collector.ingest.pyroscope.profile_types import STATE_OF_TYPE, NotStored
from sidelight_collector.ingest.pyroscope.profile_windows import SentProfile, WindowBuilder, hash_profile
from sidelight_collector.ingest.pyroscope.push_parsing import build_json_limits
from sidelight_collector.ingest.pyroscope.series_labels import PyroscopeClient, map_series_labels
from sidelight_collector.ingest.pyroscope.upload_query import parse_upload_query
from sidelight_collector.ingest.validation import (
    IngestLimits,
    ParsedRequest,
    ReceivedRequest,
    check_lines,
)
from sidelight_collector.json_body import parse_json_object
from sidelight_collector.stack_hashing import HashedStacks
from sidelight_model.counts import STATE_FRAMES, STATES, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import join_frames, split_stack
from sidelight_model.frames import NO_FRAMES, truncate_stack
from sidelight_model.import_formats.folded_input import EmptyProfile, decode_byte_order_mark
from sidelight_model.import_formats.pprof_profile import is_pprof
from sidelight_model.import_formats.speedscope_profile import (
    NS_PER_UNIT,
    TooMuchText,
    iter_weighted_stacks,
)

_REFUSED_FORMATS: Final = ("jfr", "trie", "tree")
_FORM: Final = "multipart/form-data"
_COUNT_ALONE: Final = re.compile(rb"^[ \t]*([0-9]+)(\r?)$", re.MULTILINE)
_LINE_END: Final = re.compile(rb"(?<=[^\r\n])(\r?)$", re.MULTILINE)
_RUNNING: Final = STATES.index("running")


class UnsupportedFormat(SidelightError):
    """A profile in a format that the collector does not read."""

    reason = Reason.UNSUPPORTED_TYPE


def parse_upload(
    request: ReceivedRequest, limits: IngestLimits, client: PyroscopeClient, content_type: str
) -> ParsedRequest:
    """Parse the profile of an upload. Raises the first reason to refuse it."""
    upload = parse_upload_query(request.query, request.now_ns)
    file_format = _find_format(upload.format, content_type)
    body = decompress_body(request.body, request.encoding, limits.max_body_bytes)
    builder = WindowBuilder(limits, request.now_ns, request.writer)
    content = body
    if content_type.lower().startswith(_FORM):
        fields = parse_form(body, content_type)
        if "profile" not in fields:
            raise BadProfile("the form has no field `profile`", "Send the profile in the field `profile`.")
        content = fields["profile"]
    content = builder.unpack(content)
    is_binary = file_format == "pprof" or (not file_format and is_pprof(content))
    app = upload.name if is_binary else upload.app
    pairs = (("service_name", app), ("pyroscope_spy", upload.spy), *upload.labels, *client.labels)
    series = map_series_labels(pairs, client.name)
    duration_ns = (upload.until_ns or 0) - (upload.from_ns or 0) if upload.from_ns else 0
    times = "\0".join((upload.suffix, request.query.get("from", ""), request.query.get("until", "")))
    sent = SentProfile(
        series,
        # Uploads have no id: two replicas with the same labels may send equal profiles of the same seconds.
        hash_profile(series, f"{client.address}\0{times}", content),
        start_ns=upload.from_ns or 0,
        duration_ns=max(duration_ns, 0),
        period_ns=upload.period_ns,
        has_fixed_time=not upload.is_relative,
    )
    if is_binary:
        builder.add_pprof(content, sent)
    elif (kind := upload.time_type) is None:
        builder.count_not_stored([upload.not_stored])
    elif file_format == "speedscope":
        _add_speedscope(builder, content, sent, kind)
    else:
        _add_folded(builder, content, sent, kind, has_counts=file_format != "lines")
    return builder.finish(len(body))


def _find_format(name: str, content_type: str) -> str:
    """Return `pprof`, `lines`, `speedscope`, or "" for folded text.

    Raises UnsupportedFormat.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type.startswith("binary/octet-stream+"):
        name = name or media_type.partition("+")[2]
    if name in _REFUSED_FORMATS:
        raise UnsupportedFormat(
            f"profiles in the format {name} are not read here",
            hint="Send format=pprof, or folded text: one line `frame;frame;frame COUNT` for each stack.",
        )
    if media_type == _FORM and not name:
        return "pprof"
    return name if name in ("pprof", "lines", "speedscope") else ""


def _add_folded(
    builder: WindowBuilder, content: bytes, sent: SentProfile, kind: ProfileType, *, has_counts: bool
) -> None:
    text = decode_byte_order_mark(content)
    check_lines(text, builder.limits.max_body_bytes)
    builder.text_bytes += len(text)
    if has_counts:
        text = _COUNT_ALONE.sub(NO_FRAMES.encode() + rb" \1\2", text)
    else:
        text = _LINE_END.sub(rb" 1\1", text)
    try:
        stacks = parsing.parse_folded_profile(text, builder.limits.window_limits).stacks
    except EmptyProfile:
        return
    if kind is not ProfileType.CPU and not any(any(stacks.counts[at]) for at in _other_states()):
        stacks = _move_running(stacks, STATE_OF_TYPE[kind])
    builder.add_groups([SampleGroup({}, stacks)], sent.period_ns, [STATE_OF_TYPE[kind]], sent)


def _other_states() -> list[int]:
    return [state for state in range(len(STATES)) if state != _RUNNING]


def _move_running(stacks: HashedStacks, state: int) -> HashedStacks:
    """Count the samples without a state in another one."""
    counts = list(stacks.counts)
    counts[_RUNNING], counts[state] = counts[state], counts[_RUNNING]
    return HashedStacks(stacks.hashes, tuple(counts), stacks.stacks, stacks.samples, stacks.truncated_samples)


def _add_speedscope(builder: WindowBuilder, content: bytes, sent: SentProfile, kind: ProfileType) -> None:
    document = parse_json_object(content, build_json_limits(builder.limits))
    limits = builder.profile_limits
    state, samples = STATE_OF_TYPE[kind], list[WeighedSample]()
    try:
        units = {profile["unit"] for profile in document["profiles"]}
        if units - NS_PER_UNIT.keys():
            builder.count_not_stored([NotStored.OTHER if "bytes" not in units else NotStored.MEMORY])
            return
        scale = sent.period_ns if units == {"none"} else 1
        for entry in iter_weighted_stacks(document, limits.text_bytes):
            builder.text_bytes += len(entry.stack)
            ns = [0] * len(STATES)
            ns[STATE_FRAMES.index(entry.state) if entry.state else state] = round(entry.weight * scale)
            frames = truncate_stack(split_stack(entry.stack), limits.depth)
            samples.append(((), join_frames(frames), ns))
    except TooMuchText as error:
        raise too_much_text(limits) from error
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise BadProfile(
            f"it is not a speedscope profile ({error})", "Send a file that speedscope.app opens."
        ) from error
    groups, period_ns = sum_weighed_samples(samples, 0, sent.period_ns, limits)
    builder.add_groups(groups, period_ns, [state], sent)
