"""What came of sampling one program on one Python, and whether it is as it must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.truth.intervals import Bias, bias
from tests.truth.questions import Answer, Program, Question
from tests.truth.sampling import Sampled

LEAST_COVERED = 0.93
SIGMAS = 3.0
# The mode that holds nothing still.
MOVING = "nonblocking"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A question's answers over all windows."""

    runs: int
    covered: float
    truth: float
    seen: float
    bias: Bias
    unit: str
    good: bool

    @staticmethod
    def of(question: Question, answers: list[Answer]) -> Verdict:
        runs = len(answers)
        covered = sum(answer.covered for answer in answers) / runs
        off = bias([answer.off for answer in answers])
        return Verdict(
            runs,
            covered,
            sum(answer.truth for answer in answers) / runs,
            sum(answer.seen for answer in answers) / runs,
            off,
            question.unit,
            covered >= LEAST_COVERED and not off.beyond(question.allowed, SIGMAS),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program on a Python."""

    program: str
    python: str
    mode: str
    reader: str
    samples: int
    attempts: int
    failed: int
    unread: int
    late_share: float
    longest_stop_ns: int
    stopped_ns: int
    # None where any stack is possible.
    impossible: int | None
    verdicts: Mapping[str, Verdict]
    # What CPython's own profiler saw of the program, and the truth, by question.
    profiler: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Like "3.13", or "3.13t" for a free-threaded one."""
        return ".".join(self.python.split(".")[:2]) + ("t" if self.python.endswith("t") else "")

    @property
    def good(self) -> bool:
        return not self.impossible and all(verdict.good for verdict in self.verdicts.values())

    @staticmethod
    def of(program: Program, sampled: Sampled) -> Outcome:
        answers = program.answers(sampled.windows, sampled.told)
        return Outcome(
            program.title,
            sampled.python,
            sampled.mode,
            sampled.reader,
            sampled.samples,
            sampled.attempts,
            sampled.failed,
            sampled.unread,
            sampled.late_share,
            sampled.longest_stop_ns,
            sampled.stopped_ns,
            sum(program.impossible(sampled.windows).values()) if program.legal else None,
            {question.name: Verdict.of(question, answers[question.name]) for question in program.questions},
            program.shares(sampled.profiled, sampled.told) if sampled.profiled else {},
        )

    def and_again(self, other: Outcome) -> Outcome:
        """One outcome of two runs of a program that nothing but its stacks is asked of."""
        samples = self.samples + other.samples
        late = (self.late_share * self.samples + other.late_share * other.samples) / samples
        return replace(
            self,
            samples=samples,
            attempts=self.attempts + other.attempts,
            failed=self.failed + other.failed,
            unread=self.unread + other.unread,
            late_share=late,
            longest_stop_ns=max(self.longest_stop_ns, other.longest_stop_ns),
            stopped_ns=self.stopped_ns + other.stopped_ns,
            impossible=(self.impossible or 0) + (other.impossible or 0),
        )

    @staticmethod
    def load(fields: Mapping[str, Any]) -> Outcome:
        """From what `dataclasses.asdict` made of one."""
        verdicts = {
            name: Verdict(**{**verdict, "bias": Bias(**verdict["bias"])})
            for name, verdict in fields["verdicts"].items()
        }
        return Outcome(**{**fields, "verdicts": verdicts})
