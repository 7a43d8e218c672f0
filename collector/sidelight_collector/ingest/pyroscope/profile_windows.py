"""Turn profiles into windows: one for each label set of their samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.decompress import build_too_large_error, decompress_body
from sidelight_collector.ingest.pyroscope.content_ids import derive_content_id, hash_content
from sidelight_collector.ingest.pyroscope.profile_sums import (
    ENTRY_BYTES,
    MAX_LABEL_SETS,
    BadProfile,
    ProfileLimits,
    SampleGroup,
    read_pprof_header,
    sum_pprof,
)
from sidelight_collector.ingest.pyroscope.profile_types import NotStored, choose_values
from sidelight_collector.ingest.pyroscope.series_labels import (
    PER_REQUEST_LABELS,
    SeriesLabels,
    map_labels,
    name_dropped_label,
)
from sidelight_collector.ingest.validation import (
    SECOND_NS,
    IngestLimits,
    ParsedRequest,
    bind_labels,
    check_clock,
    measure_memory,
)
from sidelight_collector.stack_hashing import HashedWindow, build_hashed_window
from sidelight_collector.storage.tables import DAY_NS
from sidelight_model.counts import OFF_CPU_STATES, THREAD_STATES
from sidelight_model.errors import LimitExceeded
from sidelight_model.import_formats.folded_input import NO_UNREADABLE_LINES
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window, WindowLimits, too_many_windows_error

GZIP_MAGIC: Final = b"\x1f\x8b"
DEFAULT_PERIOD_NS: Final = 10_000_000
DEFAULT_DURATION_NS: Final = 10 * SECOND_NS


@dataclass(frozen=True, slots=True)
class SentProfile:
    """What a request says of a profile besides its samples.

    `content_hash` identifies it. Times (ns) are 0 where the profile itself has to tell them. `has_fixed_time`
    says whether a repeated request would have the same times.
    """

    series: SeriesLabels
    content_hash: bytes
    start_ns: int = 0
    duration_ns: int = 0
    period_ns: int = DEFAULT_PERIOD_NS
    has_fixed_time: bool = True


@dataclass(slots=True)
class WindowBuilder:
    """Builds the windows of one request within its limits.

    `dropped_labels` counts the profiles by the name of a label that they lost, `not_stored` the profiles by
    the kind of values that are not stored.
    """

    limits: IngestLimits
    now_ns: int
    writer: WriterIdentity | None = None
    unpacked_bytes: int = 0
    windows: list[HashedWindow] = field(default_factory=list)
    text_bytes: int = 0
    dropped_labels: dict[str, int] = field(default_factory=dict)
    not_stored: dict[str, int] = field(default_factory=dict)

    @property
    def window_limits(self) -> WindowLimits:
        """The limits of a window; `service` may be missing if the writer has one."""
        limits = self.limits.window_limits
        if self.writer is None:
            return limits
        return replace(limits, labels=replace(limits.labels, allow_missing_service=True))

    @property
    def profile_limits(self) -> ProfileLimits:
        """The limits of the next profile."""
        limits = self.limits.window_limits
        return ProfileLimits(
            entries=self.limits.max_body_bytes // ENTRY_BYTES,
            text_bytes=max(self.limits.max_body_bytes - self.text_bytes, 0),
            stacks=limits.max_stacks,
            depth=limits.max_depth,
            groups=min(MAX_LABEL_SETS, limits.max_windows),
            labels=limits.labels.max_labels,
        )

    def unpack(self, content: bytes) -> bytes:
        """Unpack a profile that may be compressed with gzip.

        Raises BadEncoding, and LimitExceeded if the profiles of the request are larger than a body may be.
        """
        if not content.startswith(GZIP_MAGIC):
            return content
        try:
            unpacked = decompress_body(content, "gzip", self.limits.max_body_bytes - self.unpacked_bytes)
        except LimitExceeded:
            raise build_too_large_error(self.limits.max_body_bytes) from None
        self.unpacked_bytes += len(unpacked)
        return unpacked

    def finish(self, body_bytes: int) -> ParsedRequest:
        """Return the windows of the request, whose decompressed body has this size."""
        return ParsedRequest(
            self.windows,
            max(body_bytes, self.unpacked_bytes),
            min(measure_memory(self.windows), self.limits.max_body_bytes),
            NO_UNREADABLE_LINES,
            dropped_labels=self.dropped_labels,
            not_stored=self.not_stored,
        )

    def add_pprof(self, content: bytes, sent: SentProfile) -> None:
        """Add the windows of an unpacked pprof profile.

        Other values than time are only counted. Raises BadProfile, BadLabel, ClockSkew, LabelMismatch,
        LimitExceeded.
        """
        limits = self.profile_limits
        header = read_pprof_header(content, limits)
        meaning = choose_values(header, sent.series.metric, sent.period_ns)
        self.count_not_stored(meaning.not_stored)
        if meaning.values is None:
            return
        sums = sum_pprof(content, meaning.values, PER_REQUEST_LABELS, limits)
        self.text_bytes += sums.text_bytes
        timed = replace(
            sent,
            start_ns=header.time_ns if header.time_ns > 0 else sent.start_ns,
            duration_ns=header.duration_ns if header.duration_ns > 0 else sent.duration_ns,
            has_fixed_time=sent.has_fixed_time or header.time_ns > 0,
        )
        self.count_dropped_labels(sums.dropped)
        self.add_groups(sums.groups, sums.period_ns, meaning.states, timed)

    def add_groups(
        self, groups: Sequence[SampleGroup], period_ns: int, states: Iterable[int], sent: SentProfile
    ) -> None:
        """Add a window for each group; `states` are those that the sender distinguishes.

        Raises BadProfile, BadLabel, ClockSkew, LabelMismatch, LimitExceeded.
        """
        limits = self.window_limits
        duration_ns = sent.duration_ns if sent.duration_ns > 0 else DEFAULT_DURATION_NS
        if duration_ns > limits.max_duration_ns:
            raise BadProfile(
                f"it covers {duration_ns / SECOND_NS:.0f} s, and a window covers at most "
                f"{limits.max_duration_ns / SECOND_NS:.0f} s",
                hint="Upload more often.",
            )
        start_ns = sent.start_ns if sent.start_ns > 0 else self.now_ns - duration_ns
        is_fixed = sent.has_fixed_time and sent.start_ns > 0
        id_time_ns = start_ns if is_fixed else start_ns // DAY_NS * DAY_NS
        self.count_dropped_labels(sent.series.dropped)
        for number, group in enumerate(groups):
            if len(self.windows) == limits.max_windows:
                raise too_many_windows_error(limits.max_windows)
            content_id = derive_content_id(sent.content_hash, number, id_time_ns)
            stacks = group.stacks
            quality = Quality(
                samples=stacks.samples,
                truncated=stacks.truncated_samples,
                sampler=sent.series.sampler,
                python=sent.series.python,
                missing_states=_list_missing_states(
                    [name for at, name in enumerate(THREAD_STATES) if at in states or any(stacks.counts[at])]
                ),
            )
            labels = Labels.parse({**sent.series.labels, **map_labels(group.labels.items())}, limits.labels)
            window = Window(content_id.window_id, labels, start_ns, duration_ns, period_ns, {}, quality)
            row = replace(build_hashed_window(window, stacks), digest=content_id.digest)
            if self.writer is not None:
                row = bind_labels(row, self.writer)
            check_clock(row.window, self.now_ns, self.limits)
            self.windows.append(row)

    def count_not_stored(self, kinds: Iterable[NotStored]) -> None:
        """Count a profile by the kinds of its values that are not stored."""
        for kind in kinds:
            self.not_stored[kind] = self.not_stored.get(kind, 0) + 1

    def count_dropped_labels(self, names: Iterable[str]) -> None:
        """Count a profile by the labels that its windows do not have."""
        for name in {name_dropped_label(name) for name in names}:
            self.dropped_labels[name] = self.dropped_labels.get(name, 0) + 1


def hash_profile(series: SeriesLabels, profile_id: str, content: bytes) -> bytes:
    """Hash what identifies a profile: its series, the id of its sender, and its bytes."""
    labels = "".join(f"{name}\0{value}\0" for name, value in sorted(series.labels.items()))
    texts = (text.encode("utf-8", "surrogatepass") for text in (labels, series.metric, profile_id))
    return hash_content(*texts, content)


def _list_missing_states(present: Collection[str]) -> tuple[str, ...]:
    """List the states that are not present.

    Idle is not missing where another waiting state is present.
    """
    has_waits = not set(present).isdisjoint(OFF_CPU_STATES)
    return tuple(
        state for state in THREAD_STATES if state not in present and not (state == "idle" and has_waits)
    )
