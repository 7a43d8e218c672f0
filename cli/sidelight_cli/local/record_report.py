"""What a person is told about a recording: while it runs, and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidelight_cli.local.formats import WORDS
from sidelight_cli.local.sampling.quality import Ledger, percent
from sidelight_model.aggregate import top
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.frames import unescape
from sidelight_model.profile import Profile
from sidelight_model.terminal_width import visible

_MOST_FUNCTIONS = 8
_MANY_FAILED = 0.05
_MOST_REASONS = 5


def progress(ledger: Ledger, elapsed: float, seconds: float | None) -> str:
    """One line: how far, how much, how well."""
    far = f"{elapsed:.1f} s" if not seconds else f"{elapsed:.1f} of {seconds:g} s"
    return (
        f"{far} · {ledger.samples:,} samples · {ledger.errors_text()} · "
        f"target lost {percent(ledger.lost)} · Ctrl-C ends and writes"
    )


def quality(ledger: Ledger, how: str, asked_hz: float, elapsed: float, cpu: float) -> Iterator[str]:
    """How well it was watched, in two lines.

    `how` says mode, reader and Python; `cpu` is what this whole process took, in seconds.
    """
    threads = f"{ledger.threads} thread{'' if ledger.threads == 1 else 's'}"
    yield (
        f"{how}: {ledger.rate_hz:.1f} of {asked_hz:g} samples/s, {ledger.samples:,} samples of {threads} "
        f"in {elapsed:.1f} s, {ledger.errors_text()}"
    )
    if ledger.stops:
        stops = (
            f"{percent(ledger.lost)} of its time ({ledger.stops:,} stops, the longest "
            f"{ledger.longest_stop_ns / 1e6:.2f} ms)"
        )
    else:
        stops = "no time (it was never stopped)"
    sampling, all_ = (part / elapsed if elapsed > 0 else 0.0 for part in (ledger.sampler_cpu_ns / 1e9, cpu))
    yield f"the target lost {stops}; sampling took {percent(sampling)} of a core, all of this {percent(all_)}"


def losses(refused: Sequence[SidelightError], reasons: Sequence[str]) -> Iterator[str]:
    """Which processes are not in the recording, or not to their end, and why."""
    said = [f"{error.message}. {error.hint}".rstrip() for error in refused] + list(reasons)
    for text in said[:_MOST_REASONS]:
        yield f"warning: not recorded: {text}"
    if len(said) > _MOST_REASONS:
        yield f"warning: and {len(said) - _MOST_REASONS} more"


def functions(profile: Profile, kind: ProfileType) -> Iterator[str]:
    """The functions that most time was spent in themselves, with their shares."""
    total = profile.total().of(kind)
    costs = top([profile.rows(kind, lines=False)])
    heaviest = sorted(costs.items(), key=lambda item: (-item[1][0].self_samples, item[0]))
    own = [(frame, cost.self_samples) for frame, (cost,) in heaviest if cost.self_samples]
    if own:
        yield f"{WORDS[kind]}, most in:"
    for frame, samples in own[:_MOST_FUNCTIONS]:
        yield f"  {100 * samples / total:5.1f} %  {visible(unescape(frame))}"


def remarks(ledger: Ledger, profile: Profile, kind: ProfileType, mode: str, left_out: int) -> Iterator[str]:
    """What must be known about the recording, each as a line with what to do."""
    if mode == "nonblocking":
        yield (
            "warning: mode nonblocking reads a moving target: many of these stacks are wrong, and none says "
            "so; take --mode auto for true ones"
        )
    if ledger.attempts and ledger.failed > _MANY_FAILED * ledger.attempts:
        yield f"warning: {percent(ledger.failed / ledger.attempts)} of the samples failed: shares may be off"
    if ledger.truncated:
        yield f"note: {ledger.truncated:,} samples were cut to --max-depth, which (truncated) shows"
    if ledger.other:
        yield f"note: {ledger.other:,} samples are under (other): there were too many different stacks"
    if left_out:
        yield f"note: the timeline ends early, {left_out:,} samples did not fit: svg and folded have them all"
    total = profile.total()
    if total.wall and not total.of(kind):
        yield f"note: none of {total.wall:,} samples is {WORDS[kind]}: --idle shows where it waited"
