"""Pages of a partial run have what was run, and say what was not."""

from tests.truth.intervals import Bias
from tests.truth.outcomes import MOVING, Outcome, Verdict
from tests.truth.page import pages


def outcome(program, python, impossible=None, runs=(), mode="gil"):
    verdicts = {
        f"share {n}": Verdict(count, 0.95, 0.5, 0.51, Bias(0.01, 0.02), "%", True)
        for n, count in enumerate(runs)
    }
    return Outcome(
        program, python, mode, "own", 1000, 100, 0, 0, 0.0, 2_000_000, 4_000_000, impossible, verdicts
    )


def test_each_page_has_its_programs_and_a_dash_where_one_was_not_run():
    written = pages(
        [
            outcome("tasks 10", "3.15.0", 0, runs=[480, 480]),
            outcome("waits", "3.8.18", runs=[40]),
            outcome("waits", "3.15.0", runs=[120]),
            outcome("calls threads", "3.13.5t", 0),
            outcome("calls threads", "3.13.5t", 70, mode=MOVING),
        ]
    )
    assert set(written) == {"waits.md", "free_threaded.md"}
    lines = written["waits.md"].splitlines()
    assert lines[0] == "# What threads and tasks wait for: results"
    assert "- 0 of 1,000 stacks are impossible." in lines
    assert "- Mean errors of shares are at most 1.00 percentage points." in lines
    assert "| program | 3.8.18 | 3.15.0 |" in lines
    assert "| tasks 10 | – | 0 of 1,000 |" in lines  # noqa: RUF001
    assert "| program: share | windows | 3.8.18 | 3.15.0 |" in lines
    assert "| tasks 10: share 1 | 480 | – | 95%; +1.00 ± 3.92 |" in lines  # noqa: RUF001
    assert "| waits: share 0 | 40 to 120 | 95%; +1.00 ± 3.92 | 95%; +1.00 ± 3.92 |" in lines
    assert "| samples | 1,000 | 2,000 |" in lines
    lines = written["free_threaded.md"].splitlines()
    assert "| calls threads | 7.0% |" in lines
    assert "| time that the threads of `calls threads` lost a tick | 40 µs |" in lines
    assert "## Shares of time" not in lines
