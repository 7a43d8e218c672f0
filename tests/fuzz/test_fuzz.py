"""The short form of `make fuzz`, and what the fuzzer does with an input that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight_model.errors import SidelightError
from tests.fuzz.__main__ import main
from tests.fuzz.all_targets import TARGETS
from tests.fuzz.fuzzer import fuzz
from tests.fuzz.report import MAX_GROWTH_BYTES, Hang, limit_cpu
from tests.fuzz.targets import Target

INPUTS = 400


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_changed_inputs_raise_nothing_but_errors_of_our_own(target: Target, tmp_path: Path) -> None:
    summary = fuzz(target, 1, INPUTS, 300, tmp_path)
    assert not summary.failures, summary.failures[0]
    assert summary.inputs == INPUTS
    assert summary.new_outcomes > 5, "the seeds are valid, and changes reach errors"


def failing(data: bytes) -> str:
    if b"main" in data:
        raise SidelightError("refused")
    return str({}[data[:1]]) if data[:1] == b"#" else "parsed"


def test_a_failing_input_is_saved_once_with_how_to_run_it_again(tmp_path: Path) -> None:
    summary = fuzz(Target("x", (b"#a", b"main"), failing), 7, 500, 300, tmp_path)
    (failure,) = summary.failures
    assert failure.file.parent == tmp_path
    assert failure.file.read_bytes().startswith(b"#")
    assert "KeyError" in failure.problem
    assert f"--only x --reproduce {failure.file}" in str(failure)


def test_a_seed_tries_the_same_inputs_again(tmp_path: Path) -> None:
    tried: list[list[bytes]] = []
    for seed in (1, 1, 2):
        inputs: list[bytes] = []
        fuzz(Target("x", (b"abc",), lambda data, to=inputs: str(to.append(data))), seed, 50, 300, tmp_path)  # type: ignore[misc]
        tried.append(inputs)
    assert tried[0] == tried[1] != tried[2]


def test_memory_that_grows_with_the_inputs_is_a_failure(tmp_path: Path) -> None:
    sizes = iter([10, 10 + MAX_GROWTH_BYTES + 1])
    summary = fuzz(Target("x", (b"a",), lambda _: ""), 1, 100, 300, tmp_path, lambda: next(sizes))
    assert "MemoryGrowth" in summary.failures[0].problem


def test_an_input_that_never_ends_is_stopped() -> None:
    def wait() -> None:
        with limit_cpu(0.05):
            while True:
                pass

    with pytest.raises(Hang, match="more than"):
        wait()


def test_a_saved_input_runs_again_by_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "input"
    file.write_bytes(b'{service="')
    assert main(["--only", "selectors", "--reproduce", str(file)]) == 0
    assert "bad_selector" in capsys.readouterr().out
