"""docs/support.md, from what the last runs of the matrix found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.services.stacks import SERVICES

_NOTHING = "-"
_TOLD_WAIT = 0.01
_HEAD = """\
# What is supported

Written by `make test-services`: each service below was run for {seconds:g} seconds under {rate:g} requests a
second (each waits 10 ms, then computes 4 ms in a function of its own), beside a real sidecar at 100 Hz, on
{machine}. A service is supported when

- every process of it was found, each with its role (a master and two workers, or one process alone), and what
  belongs to `multiprocessing` and not to the service was not;
- of the samples that are not idle, most end in the function that computes, and its share is what it took;
- the idle share of each process is the one that its CPU time tells, within four standard deviations and one
  point; time in which it waited for a core of this machine may count as running;
- at most 5 % of the ticks failed, every request was answered, and nothing was left stopped.

A cell is the idle share of the service, the mean of its processes, in percent: as sampled / by their CPU
time, and what their threads waited for a core meanwhile, where that was more than a percent: by so much the
first may be lower. {ran} of {all} were run; what was not says so.

"""


@dataclass(frozen=True, slots=True)
class Result:
    """One service on one interpreter; `state` is "ok", "wrong" or "missing", and `why` says why."""

    service: str
    python: str
    state: str
    why: str = ""
    idle_seen: float = 0.0
    idle_true: float = 0.0
    waited: float = 0.0
    leaf_share: float = 0.0
    mode: str = ""
    sampler: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def told(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def page(results: Iterable[Result], *, seconds: float, rate: float, machine: str) -> str:
    """The page, with a column for each interpreter that was tried."""
    known = {(one.service, one.python): one for one in results}
    pythons = sorted({python for _, python in known}, key=_by_version)
    services = list(SERVICES)
    notes: dict[str, int] = {}
    ran = sum(one.state != "missing" for one in known.values())
    every = len(services) * len(pythons)
    text = _HEAD.format(seconds=seconds, rate=rate, machine=machine, ran=ran, all=every)
    text += _table(
        ["service", *pythons],
        [[name, *(_cell(known.get((name, python)), notes) for python in pythons)] for name in services],
    )
    if notes:
        text += "\n" + "".join(f"{number}. {why}\n" for why, number in notes.items())
    text += _how(known.values(), pythons)
    text += "\n## Versions\n\n" + _table(
        ["service", *pythons],
        [[name, *(_versions(known.get((name, python))) for python in pythons)] for name in services],
    )
    return text


def _how(results: Iterable[Result], pythons: Sequence[str]) -> str:
    by_python: dict[str, set[str]] = {python: set() for python in pythons}
    shares = []
    for one in results:
        if one.state == "ok":
            by_python[one.python].add(f"{one.sampler}, mode `{one.mode}`")
            shares.append(one.leaf_share)
    rows = [[python, "; ".join(sorted(by_python[python])) or "nothing ran"] for python in pythons]
    text = "\n## How they were sampled\n\n" + _table(["Python", "sampler"], rows)
    if shares:
        text += (
            f"\nThe function that computes had {min(shares):.0%} to {max(shares):.0%} of the samples that "
            "are not idle; the rest is the framework and the server.\n"
            "\nWhat runs outside Python has no frames: computing in a Cython or C function is counted on the "
            "line of Python that called it, the loop of uvloop on the frame that entered it, and what uWSGI "
            "does between requests on `(no Python frames)`. A native capture (`POST /capture` with "
            '`"mode": "native"`) has those frames; of the modules in Cython and in C it was checked that it '
            "has, Cython's with lines of the `.pyx`.\n"
        )
    return text


def _cell(result: Result | None, notes: dict[str, int]) -> str:
    if result is None:
        return "not run"
    if result.state == "ok":
        waited = f", waited {100 * result.waited:.0f}" if result.waited > _TOLD_WAIT else ""
        return f"{100 * result.idle_seen:.1f} / {100 * result.idle_true:.1f}{waited}"
    number = notes.setdefault(result.why.replace("\n", " "), len(notes) + 1)
    return f"{'**wrong**' if result.state == 'wrong' else _NOTHING} ({number})"


def _versions(result: Result | None) -> str:
    if result is None or not result.versions:
        return _NOTHING
    return "<br>".join(f"{name} {version}" for name, version in result.versions.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _by_version(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split("."))
