"""What is asked of each program: numbers that the sampler estimates, and whose truth the program tells.

Samples that could not be read are left out of both sides of a share: were it not luck which ones fail,
what is left would be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.truth import legal
from tests.truth.diaries import Diary, Spent, TaskDiary
from tests.truth.intervals import mean_is_covered, share_is_covered
from tests.truth.sampling import Row, Window

Counted = tuple[int, int]


WAKING: Final = 0.02
"""How much of a share of `gil_wait` may be `cpu_wait`: a thread that is given the GIL is woken first. By the
kernel's clocks it sleeps until it is in the queue for a CPU; in samples it waits for a CPU from the start.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """One window: what was seen, what was true, and whether the 95 % interval around the first holds it."""

    seen: float
    truth: float
    covered: bool
    samples: int

    @property
    def off(self) -> float:
        return self.seen - self.truth


@dataclass(frozen=True, slots=True)
class Told:
    """What a program did in one window: by thread and phase."""

    spent: Mapping[str, Mapping[str, Spent]]
    seconds_ns: float
    stopped_ns: float

    def wall(self, *phases: str, thread: str = "main") -> float:
        return math.fsum(self.spent[thread][phase].wall for phase in phases)

    def cpu(self, *phases: str, thread: str = "main") -> float:
        return math.fsum(self.spent[thread][phase].cpu for phase in phases)

    def queued(self, *phases: str, thread: str = "main") -> float:
        return math.fsum(self.spent[thread][phase].queued for phase in phases)

    def asleep(
        self,
        *phases: str,
        of: Sequence[str],
        threads: Sequence[str] = ("main",),
        wakes: Sequence[str] = (),
    ) -> tuple[float, float]:
        """The share of the phases `of` that threads slept in some of them, least and most.

        A woken thread may count as asleep until it has a CPU. The queue time of the phases `wakes`, which
        follow, is from before it fell asleep or after it was woken.
        """
        wall = math.fsum(self.wall(*of, thread=thread) for thread in threads)
        asleep = math.fsum(self.wall(*phases, thread=one) - self.cpu(*phases, thread=one) for one in threads)
        queued, woken = (
            math.fsum(self.queued(*of, thread=thread) for thread in threads)
            for of in ((*phases, *wakes), wakes)
        )
        return max(asleep - queued, 0.0) / wall, (asleep + woken) / wall


class Question:
    """A number with a known truth. To be off by more than `allowed` is a defect, on any number of samples."""

    name: str
    allowed: float
    unit: str

    def answer(self, rows: Sequence[Row], told: Told) -> Answer | None:
        """None where the window has no sample that the question is about."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Share(Question):
    """`count` gives, of a row, the samples that are in the share and those that it is a share of.

    Where the program cannot tell more, the truth is a range, and what was seen is held to its nearest point.
    An interval also covers the truth if it holds a share that is smaller by at most `waking`.
    """

    name: str
    count: Callable[[Row], Counted]
    truth: Callable[[Told], float | tuple[float, float]]
    waking: float = 0.0
    unit: str = "%"

    @property
    def allowed(self) -> float:  # type: ignore[override]
        return self.waking or 0.005

    def answer(self, rows: Sequence[Row], told: Told) -> Answer | None:
        counted = [self.count(row) for row in rows if not row.unread]
        hits, samples = sum(hit for hit, _ in counted), sum(of for _, of in counted)
        if not samples:
            return None
        truth = self.truth(told)
        if isinstance(truth, tuple):
            truth = min(max(hits / samples, truth[0]), truth[1])
        nearest = min(max(hits / samples, truth - self.waking), truth)
        return Answer(hits / samples, truth, share_is_covered(hits, samples, nearest), samples)


@dataclass(frozen=True, slots=True)
class MeanDepth(Question):
    """The mean number of calls of `descend` below `bottom`."""

    name: str
    depths: Sequence[int]
    allowed: float = 0.5
    unit: str = "frames"

    def answer(self, rows: Sequence[Row], told: Told) -> Answer | None:
        seen = [(row.functions.count("descend"), row.samples) for row in rows if "bottom" in row.functions]
        samples = sum(count for _, count in seen)
        if not samples:
            return None
        spent = {depth: told.wall(f"depth_{depth}") for depth in self.depths}
        whole = math.fsum(spent.values())
        truth = math.fsum(depth * wall for depth, wall in spent.items()) / whole
        variance = math.fsum((depth - truth) ** 2 * wall for depth, wall in spent.items()) / whole
        mean = sum(depth * count for depth, count in seen) / samples
        return Answer(mean, truth, mean_is_covered(mean, samples, truth, variance), samples)


@dataclass(frozen=True, slots=True)
class Program:
    """A program, what is asked of it, and the stacks it can have."""

    name: str
    variant: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    legal: Callable[[Sequence[str]], bool] | None = None
    # Other than the plan's, where the program needs it.
    rate_hz: float | None = None
    # It is about asyncio tasks, not threads.
    is_of_tasks: bool = False
    # The first minor version that it runs on.
    oldest: int = 8
    # Its questions are about the GIL, or about tasks, which no free-threaded Python has or shows.
    needs_gil: bool = False

    @property
    def title(self) -> str:
        return " ".join((self.name, *self.variant))

    def runs_on(self, version: str) -> bool:
        """Whether it runs on a version like "3.13", or "3.13t" for a free-threaded one."""
        minor = int(version.removesuffix("t").removeprefix("3."))
        return minor >= self.oldest and not (self.needs_gil and version.endswith("t"))

    def impossible(self, windows: Sequence[Window]) -> dict[tuple[str, ...], int]:
        """The stacks that this program never had, with their samples."""
        found: dict[tuple[str, ...], int] = {}
        if self.legal:
            for row in (row for window in windows for row in window.rows if not row.unread):
                if not self.legal(row.functions):
                    found[row.functions] = found.get(row.functions, 0) + row.samples
        return found

    def shares(self, window: Window, told: Mapping[str, Diary | TaskDiary]) -> dict[str, tuple[float, float]]:
        """By question, what was seen in one window, and the truth."""
        answers = self.answers([window], told)
        return {name: (answer.seen, answer.truth) for name, [answer] in answers.items()}

    def answers(
        self, windows: Sequence[Window], told: Mapping[str, Diary | TaskDiary]
    ) -> dict[str, list[Answer]]:
        """By question, the answers of all windows that have one."""
        answers: dict[str, list[Answer]] = {question.name: [] for question in self.questions}
        for window in windows:
            spent = {name: diary.spent(window.start_ns, window.end_ns) for name, diary in told.items()}
            truth = Told(spent, window.end_ns - window.start_ns, window.batch.stopped_ns)
            for question in self.questions:
                if answer := question.answer(window.rows, truth):
                    answers[question.name].append(answer)
        return answers


def within(*functions: str) -> Callable[[Row], bool]:
    return lambda row: any(function in row.functions for function in functions)


def part(function: str, *of: str) -> Callable[[Row], Counted]:
    """The samples in a function, of those in any of these (or, if there are none, of all)."""

    def count(row: Row) -> Counted:
        total = row.samples if not of or within(*of)(row) else 0
        return (total if function in row.functions else 0), total

    return count


def state(letter: str, *of: str) -> Callable[[Row], Counted]:
    """The samples in a state (off_cpu: any waiting state), of those in any of these functions (or of all)."""

    def count(row: Row) -> Counted:
        if of and not within(*of)(row):
            return 0, 0
        return getattr(row.counts, letter), row.samples

    return count


def shares(spec: str) -> Program:
    parts = [f"part_{share}" for share in spec.split("/")]

    def question(name: str) -> Share:
        return Share(
            f"{name.removeprefix('part_')} %",
            part(name, *parts),
            lambda told: told.wall(name) / told.wall(*parts),
        )

    # Of two shares that add up, one says all.
    asked = parts[:1] if len(parts) == 2 else parts
    return Program("shares", (spec,), tuple(map(question, asked)))


def lockstep(period_seconds: float) -> Program:
    halves = ("part_first", "part_second")
    question = Share(
        "first half", part(halves[0], *halves), lambda told: told.wall(halves[0]) / told.wall(*halves)
    )
    return Program("lockstep", (str(period_seconds),), (question,), rate_hz=1 / period_seconds)


def idle(percent: int) -> Program:
    """Asleep until it has a CPU again; one that loses its CPU at work is not idle."""

    def truth(told: Told) -> float:
        return (told.wall("rest") - told.cpu("rest")) / told.wall("rest", "work")

    return Program("idle", (str(percent),), (Share("idle", state("off_cpu", "rest", "work"), truth),))


def depths() -> Program:
    levels = [3, 10, 25, 60, 120]
    phases = [f"depth_{level}" for level in levels]

    def question(level: int) -> Share:
        def count(row: Row) -> Counted:
            total = row.samples if "bottom" in row.functions else 0
            return (total if row.functions.count("descend") == level else 0), total

        return Share(f"depth {level}", count, lambda told: told.wall(f"depth_{level}") / told.wall(*phases))

    def possible(functions: Sequence[str]) -> bool:
        return "bottom" not in functions or functions.count("descend") in levels

    return Program("depths", (), (*map(question, levels), MeanDepth("mean depth", levels)), possible)


def chains(kind: str) -> Program:
    def truth(told: Told) -> float:
        return told.wall("deep") / told.wall("deep", "shallow")

    share = Share("deep", part("deep", "deep", "shallow"), truth)
    return Program("chains", (kind,), (_last_name(share),), legal.chain_is_legal)


def _last_name(share: Share) -> Share:
    """Functions by the last part of their names: 3.11 and later give the whole path to a nested one."""

    def count(row: Row) -> Counted:
        names = tuple(function.rpartition(".")[2] for function in row.functions)
        return share.count(replace(row, functions=names))

    return Share(share.name, count, share.truth)


def threads() -> Program:
    def busy(thread: str) -> Callable[[Told], tuple[float, float]]:
        def truth(told: Told) -> tuple[float, float]:
            # While the holder of the GIL stands still for the sampler, no tick can see what the others do.
            wall = told.wall("work", "rest", thread=thread) * (1 - told.stopped_ns / told.seconds_ns)
            # In the queue for a CPU it is idle if it comes from waiting for the GIL, else not.
            cpu = told.cpu("work", "rest", thread=thread)
            return cpu / wall, (cpu + told.queued("work", thread=thread)) / wall

        return truth

    def holding(told: Told) -> tuple[float, float]:
        cpu, most = (
            [told.cpu("work", thread=thread) + queued(thread) for thread in ("often", "seldom")]
            for queued in (lambda _thread: 0, lambda thread: told.queued("work", thread=thread))
        )
        return cpu[0] / (cpu[0] + most[1]), most[0] / (most[0] + cpu[1])

    def gil(row: Row) -> Counted:
        total = row.counts.gil if within("often", "seldom")(row) else 0
        return (total if "often" in row.functions else 0), total

    def not_idle(function: str) -> Callable[[Row], Counted]:
        def count(row: Row) -> Counted:
            asked = function in row.functions and within("work", "rest", "work_in_c")(row)
            return (row.counts.cpu, row.samples) if asked else (0, 0)

        return count

    questions = (
        Share("GIL: often of both", gil, holding),
        *(
            Share(f"{thread} not idle", not_idle(thread), busy(thread))
            for thread in ("often", "seldom", "digest")
        ),
        Share("waiting idle", state("off_cpu", "waiting"), lambda _told: 1.0),
    )
    return Program("threads", (), questions, rate_hz=200, needs_gil=True)


def released() -> Program:
    phases = ("python", "released", "rest")

    def share(
        name: str, count: Callable[[Row], Counted], truth: Callable[[Told], tuple[float, ...]]
    ) -> Share:
        def part(told: Told) -> tuple[float, float]:
            least, most = truth(told)
            return least / told.wall(*phases), most / told.wall(*phases)

        return Share(name, count, part)

    # A thread that the sampler displaces has a CPU for the sampler, and none for the kernel.
    questions = (
        share("gil", state("gil", *phases), lambda told: (told.cpu("python"), told.wall("python"))),
        share(
            "running",
            state("running", *phases),
            lambda told: (told.cpu("released", "rest"), told.wall("released") + told.cpu("rest")),
        ),
        share("waits for a CPU", state("cpu_wait", *phases), lambda told: (0.0, told.queued(*phases))),
        share(
            "idle",
            state("off_cpu", *phases),
            lambda told: (
                told.wall("rest") - told.cpu("rest") - told.queued("rest"),
                told.wall("rest") - told.cpu("rest"),
            ),
        ),
    )
    return Program("released", (), questions, needs_gil=True)


def spinners(count: int) -> Program:
    """Threads that compute sleep for nothing but the GIL."""
    threads = [f"compute{number}" for number in range(count)]

    def truth(told: Told) -> tuple[float, float]:
        return told.asleep("compute", of=("compute",), threads=threads)

    share = Share(f"gil_wait ({count - 1}/{count})", state("gil_wait", "compute"), truth, WAKING)
    return Program("spinners", (str(count),), (share,), rate_hz=200, needs_gil=True)


def waits() -> Program:
    phases = ("lock", "receive", "read", "sleep", "compute")

    def share(name: str, *waits: str) -> Share:
        """A state in the functions that wait so."""

        def count(row: Row) -> Counted:
            hits, samples = state(name, *phases)(row)
            return (hits if within(*waits)(row) else 0), samples

        title = f"{name} in {' and '.join(waits)}"
        waking = WAKING if name == "gil_wait" else 0.0
        return Share(title, count, lambda told: told.asleep(*waits, of=phases), waking)

    questions = (
        share("lock", "lock"),
        share("io", "receive"),
        share("io", "read"),
        share("sleep", "sleep"),
        share("gil_wait", "compute"),
    )
    return Program("waits", (), questions, needs_gil=True)


def gthread(load: str) -> Program:
    """In a request, a thread without a CPU waits for the GIL, unless it waits for the database."""
    threads = [f"thread{number}" for number in range(4)]
    phases = ("waits", "begins", "queries", "resumes", "works")

    def share(name: str, *waits: str, wakes: Sequence[str] = ()) -> Share:
        def truth(told: Told) -> tuple[float, float]:
            return told.asleep(*waits, of=phases, threads=threads, wakes=wakes)

        return Share(name, state(name, "_worker"), truth, WAKING if name == "gil_wait" else 0.0)

    def on_cpu(told: Told) -> tuple[float, float]:
        wall, cpu, queued = (
            math.fsum(of(*phases, thread=thread) for thread in threads)
            for of in (told.wall, told.cpu, told.queued)
        )
        return cpu / wall, (cpu + queued) / wall

    questions = (
        share("lock", "waits", wakes=("begins",)),
        share("io", "queries", wakes=("resumes",)),
        share("gil_wait", "begins", "resumes", "works"),
        Share("cpu", state("cpu", "_worker"), on_cpu),
    )
    return Program("gthread", (load,), questions, rate_hz=200, oldest=10, needs_gil=True)


def tasks(count: int) -> Program:
    paths = ("query", "fetch", "retry", "update")

    def share(path: str) -> Share:
        def truth(told: Told) -> float:
            return told.wall(path, thread="tasks") / told.wall(*paths, thread="tasks")

        return Share(path, part(path, *paths), truth)

    return Program(
        "tasks",
        (str(count),),
        tuple(map(share, paths)),
        legal.await_is_legal,
        {10: 400, 1000: 100, 10_000: 60}[count],
        is_of_tasks=True,
        oldest=11,
        needs_gil=True,
    )


def calls(kind: str) -> Program:
    return Program("calls", (kind,), (), legal.call_is_legal(kind), rate_hz=2000)


CALLS = [calls(kind) for kind in legal.BELOW]
TRUTHS = [
    shares("70/30"),
    shares("1/3/10/30/56"),
    lockstep(0.0025),
    *(idle(percent) for percent in (10, 50, 90)),
    depths(),
    chains("generators"),
    chains("coroutines"),
    threads(),
    released(),
    *(spinners(count) for count in (2, 4, 8)),
    waits(),
    *map(gthread, ("light", "medium", "overload")),
    *map(tasks, (10, 1000, 10_000)),
]
