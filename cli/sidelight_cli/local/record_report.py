"""Terminal output about a recording: its progress, and a summary at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidelight_cli.local.formats import TYPE_DESCRIPTIONS
from sidelight_cli.local.sampling.quality import SamplingQuality, format_percent
from sidelight_model.aggregate import rank_functions
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.frames import unescape_frame
from sidelight_model.profile import Profile
from sidelight_model.terminal_width import escape_unprintable

_MAX_FUNCTIONS = 8
_FAILED_WARNING_SHARE = 0.05
_MAX_REASONS = 5


def format_progress(sampling_quality: SamplingQuality, elapsed: float, seconds: float | None) -> str:
    """Format elapsed time, samples and quality in one line; times are in seconds."""
    progress_text = f"{elapsed:.1f} s" if not seconds else f"{elapsed:.1f} of {seconds:g} s"
    return (
        f"{progress_text} · {sampling_quality.samples:,} samples · {sampling_quality.format_errors()} · "
        f"target lost {format_percent(sampling_quality.stopped_share)} · Ctrl-C ends and writes"
    )


def format_quality(
    sampling_quality: SamplingQuality, reader_text: str, target_hz: float, elapsed: float, cpu_seconds: float
) -> Iterator[str]:
    """Describe the quality of sampling in two lines.

    `reader_text` names mode, reader and Python version. `elapsed` is in seconds, `cpu_seconds` is the CPU
    time of this whole process.
    """
    threads = f"{sampling_quality.threads} thread{'' if sampling_quality.threads == 1 else 's'}"
    yield (
        f"{reader_text}: {sampling_quality.rate_hz:.1f} of {target_hz:g} samples/s, "
        f"{sampling_quality.samples:,} samples of {threads} "
        f"in {elapsed:.1f} s, {sampling_quality.format_errors()}"
    )
    if sampling_quality.stops:
        stops = (
            f"{format_percent(sampling_quality.stopped_share)} of its time "
            f"({sampling_quality.stops:,} stops, the longest "
            f"{sampling_quality.longest_stop_ns / 1e6:.2f} ms)"
        )
    else:
        stops = "no time (it was never stopped)"
    sampling, all_ = (
        part / elapsed if elapsed > 0 else 0.0
        for part in (sampling_quality.sampler_cpu_ns / 1e9, cpu_seconds)
    )
    yield (
        f"the target lost {stops}; sampling took {format_percent(sampling)} of a core, all of this "
        f"{format_percent(all_)}"
    )


def format_losses(attach_errors: Sequence[SidelightError], end_reasons: Sequence[str]) -> Iterator[str]:
    """List processes that are missing or incomplete in the recording, and why."""
    problems = [f"{error.message}. {error.hint}".rstrip() for error in attach_errors] + list(end_reasons)
    for text in problems[:_MAX_REASONS]:
        yield f"warning: not recorded: {text}"
    if len(problems) > _MAX_REASONS:
        yield f"warning: and {len(problems) - _MAX_REASONS} more"


def format_functions(profile: Profile, profile_type: ProfileType) -> Iterator[str]:
    """List the functions with the most self time and their shares."""
    total = profile.total().for_type(profile_type)
    costs = rank_functions([profile.rows(profile_type, lines=False)])
    heaviest = sorted(costs.items(), key=lambda item: (-item[1][0].self_samples, item[0]))
    self_samples = [(frame, cost.self_samples) for frame, (cost,) in heaviest if cost.self_samples]
    if self_samples:
        yield f"{TYPE_DESCRIPTIONS[profile_type]}, most in:"
    for frame, samples in self_samples[:_MAX_FUNCTIONS]:
        yield f"  {100 * samples / total:5.1f} %  {escape_unprintable(unescape_frame(frame))}"


def format_remarks(
    sampling_quality: SamplingQuality,
    profile: Profile,
    profile_type: ProfileType,
    mode: str,
    dropped_samples: int,
) -> Iterator[str]:
    """Return warnings and notes about the recording, each with advice.

    `dropped_samples` is the number of samples that are missing in the timeline.
    """
    if mode == "nonblocking":
        yield (
            "warning: mode nonblocking reads a moving target: many of these stacks are wrong, and none says "
            "so; take --mode auto for true ones"
        )
    if (
        sampling_quality.attempts
        and sampling_quality.failed_ticks > _FAILED_WARNING_SHARE * sampling_quality.attempts
    ):
        yield (
            f"warning: {format_percent(sampling_quality.failed_ticks / sampling_quality.attempts)} "
            "of the samples failed: shares may be off"
        )
    if sampling_quality.truncated:
        yield f"note: {sampling_quality.truncated:,} samples were cut to --max-depth, which (truncated) shows"
    if sampling_quality.other:
        yield (
            f"note: {sampling_quality.other:,} samples are under (other): there were too many "
            "different stacks"
        )
    if dropped_samples:
        yield (
            f"note: the timeline ends early, {dropped_samples:,} samples did not fit: svg and "
            "folded have them all"
        )
    total = profile.total()
    if total.wall and not total.for_type(profile_type):
        yield (
            f"note: none of {total.wall:,} samples is {TYPE_DESCRIPTIONS[profile_type]}: --idle "
            "shows where it waited"
        )
