"""bench/results/support.md, from what the last runs of the matrix found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tests.services.stacks import SERVICES, Service

_NOTHING = "-"
_TOLD_WAIT = 0.01
_HEAD = """\
# What is supported

Does Sidelight profile your Python and server correctly? Each cell with numbers passed.

A cell is the idle share of the service's processes in percent: as sampled/by CPU time. `+4` means that
threads waited 4 % of the time for a core; the sampled share may be lower by that much. {ran} of {all}
combinations ran; the notes say why the others did not.

"""
_PYPY = "PyPy is not supported: readiness says so of each process that runs it."
_METHOD = """
## How they were sampled

`make test-services` writes this page. It runs each service for {seconds:g} seconds at {rate:g} requests a
second, beside a sidecar at 100 Hz, on {machine}.
Each request waits 10 ms, then computes 4 ms in its own function. A service passes if

- the sidecar finds all its processes with their roles, and none of `multiprocessing`;
- most samples that are not idle end in the computing function, with the expected share;
- the idle share of each process matches its CPU time, within four standard deviations and one point;
- at most 5 % of the ticks fail, every request is answered, and no process is left stopped.

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
    pythons = sorted({python for _, python in known}, key=by_version)
    notes: dict[str, int] = {}
    ran = sum(one.state != "missing" for one in known.values())
    every = sum(service.runs_on(python) for service in SERVICES.values() for python in pythons)
    text = _HEAD.format(ran=ran, all=every)
    text += _table(
        ["service", *pythons],
        [
            [name, *(_cell(service, python, known.get((name, python)), notes) for python in pythons)]
            for name, service in SERVICES.items()
        ]
        + [
            [
                "any service on PyPy",
                *([f"{_NOTHING}({notes.setdefault(_PYPY, len(notes) + 1)})"] * len(pythons)),
            ]
        ],
    )
    if notes:
        text += "\n" + "".join(f"{number}. {why}\n" for why, number in notes.items())
    text += _METHOD.format(seconds=seconds, rate=rate, machine=machine) + _how(known.values(), pythons)
    text += "\n## Versions\n\n" + _table(["package", *pythons], _list_versions(known.values(), pythons))
    return text


def _how(results: Iterable[Result], pythons: Sequence[str]) -> str:
    samplers: dict[str, set[str]] = {}
    shares = []
    for one in results:
        if one.state == "ok":
            samplers.setdefault(f"{one.sampler}, mode `{one.mode}`", set()).add(one.python)
            shares.append(one.leaf_share)
    text = "The sampler:\n\n"
    for sampler, used in sorted(samplers.items()):
        which = (
            "every Python" if used == set(pythons) else f"Python {', '.join(sorted(used, key=by_version))}"
        )
        text += f"- {which}: {sampler}\n"
    if shares:
        text += (
            f"\nThe computing function had {min(shares):.0%} to {max(shares):.0%} of the samples that are "
            "not idle; the framework and the server had the rest.\n"
            "\nCode outside Python has no frames of its own:\n\n"
            "- a Cython or C function counts on the line of Python that called it;\n"
            "- the loop of uvloop counts on the frame that entered it;\n"
            "- uWSGI between requests is `(no Python frames)`.\n"
            '\nA native capture (`POST /capture` with `"mode": "native"`) shows these frames. The run checks '
            "this for the modules in\nCython, with lines of the `.pyx`, and in C.\n"
        )
    return text


def _cell(service: Service, python: str, result: Result | None, notes: dict[str, int]) -> str:
    if result is None:
        return "not run" if service.runs_on(python) else ""
    if result.state == "ok":
        waited = f"+{100 * result.waited:.0f}" if result.waited > _TOLD_WAIT else ""
        return f"{100 * result.idle_seen:.1f}/{100 * result.idle_true:.1f}{waited}"
    number = notes.setdefault(result.why.replace("\n", " "), len(notes) + 1)
    return f"{'**wrong**' if result.state == 'wrong' else _NOTHING}({number})"


def _list_versions(results: Iterable[Result], pythons: Sequence[str]) -> list[list[str]]:
    """Return a row for each package; the services share its versions, or the cell has them all."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in results:
        for name, version in one.versions.items():
            found.setdefault(name, {}).setdefault(one.python, set()).add(version)
    return [
        [name, *("<br>".join(sorted(found[name].get(python, ()))) or _NOTHING for python in pythons)]
        for name in sorted(found)
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)


def by_version(python: str) -> tuple[int, int, bool, int]:
    """Like "3.13.5t", which comes after all with a GIL of that version."""
    major, minor, patch = python.removesuffix("t").split(".")
    return int(major), int(minor), python.endswith("t"), int(patch)
