"""Current problems by subject; the parts report them and /readyz shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from sidelight_injector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


@dataclass(frozen=True, slots=True)
class InjectorProblem:
    """A reason word, what happened, and what to do.

    `blocking` means that no pod can be injected.
    """

    reason: Reason
    message: str
    hint: str
    blocking: bool = True


class InjectorHealth:
    """Subjects and their problems.

    Each subject in `pending` has a problem until it is first cleared.
    """

    def __init__(self, metrics: Metrics, pending: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._problems = {
            subject: InjectorProblem(Reason.STARTING, f"{what} is not there yet", "Wait a moment.")
            for subject, what in pending.items()
        }
        self._update_metric()

    @property
    def problems(self) -> Mapping[str, InjectorProblem]:
        return dict(self._problems)

    def clear(self, subject: str) -> None:
        """Remove the problem of this subject."""
        if self._problems.pop(subject, None) is not None:
            _log.info("well", about=subject)
            self._update_metric()

    @property
    def is_ready(self) -> bool:
        """Whether pods can be injected."""
        return not any(problem.blocking for problem in self._problems.values())

    def report(self, subject: str, error: SidelightError, *, blocking: bool = True) -> None:
        """Set the problem of a subject, and log it if it changed."""
        problem = InjectorProblem(error.reason, error.message, error.hint, blocking)
        if self._problems.get(subject) != problem:
            _log.warning(
                "not well", about=subject, error=error.reason, problem=error.message, hint=error.hint
            )
        self._problems[subject] = problem
        self._update_metric()

    def _update_metric(self) -> None:
        self._metrics.problems.clear()
        for problem in self._problems.values():
            self._metrics.problems.labels(problem.reason.value).inc()
