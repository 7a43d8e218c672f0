"""What is wrong now: a board the parts write on and /readyz reads from."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.stacks.errors import Reason, SidelightError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing an operator may have to mend."""

    reason: Reason
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: SidelightError) -> Problem:
        return cls(error.reason, error.message, error.hint)


class Board:
    """Problems by what they are about ("collector", "process 12"); a problem stands until cleared."""

    def __init__(self) -> None:
        self._problems: dict[str, Problem] = {}

    def report(self, subject: str, problem: Problem) -> bool:
        """Put up a problem; true when it is news."""
        news = self._problems.get(subject) != problem
        self._problems[subject] = problem
        return news

    def clear(self, subject: str) -> bool:
        """Take a subject's problem down; true when there was one."""
        return self._problems.pop(subject, None) is not None

    @property
    def problems(self) -> dict[str, Problem]:
        return dict(sorted(self._problems.items()))
