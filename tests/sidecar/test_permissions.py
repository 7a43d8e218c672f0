from __future__ import annotations

import os
import shutil

import pytest

from sidelight_sidecar.samplers.permissions import read_own_rights
from tests.processes import eventually
from tests.sidecar.conftest import Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector


def test_own_rights_are_those_of_this_process() -> None:
    assert read_own_rights().uid == os.geteuid()


needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)
WITHOUT = ("setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace")


@needs_setpriv
@pytest.mark.parametrize("mode", ["auto", "command"])
def test_a_process_that_may_not_be_read_is_reported_and_the_others_go_on(
    mode: str, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """User 0 without SYS_PTRACE, as in a container that was not given it, reads only its equals."""
    hidden, open_one = start("unprivileged"), start("spin", wrapper=WITHOUT)
    sidecar = start_sidecar(
        "--pid", str(hidden.pid), "--pid", str(open_one.pid), "--mode", mode,
        wrapper=WITHOUT,
    )  # fmt: skip
    eventually("the other is sampled", lambda: collector.taken)
    told = eventually("the refusal is reported", lambda: sidecar.get("/readyz")[1]["problems"])
    (problem,) = told
    assert (problem["about"], problem["error"]) == (f"process {hidden.pid}", "ptrace_denied")
    assert "SYS_PTRACE" in problem["hint"]
    assert sidecar.get("/readyz")[0] == 503
    assert sidecar.get("/livez")[0] == 200
    assert {window.quality.pid for window in collector.taken} == {open_one.pid}
    eventually("it is tried again", lambda: sidecar.metric("attach_failures_total") >= 2)
    hidden.end()
    eventually("it is ready once that process is gone", lambda: sidecar.get("/readyz")[0] == 200)


@needs_setpriv
def test_a_sidecar_that_samples_only_for_captures_says_beforehand_that_it_may_not(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    hidden = start("unprivileged")
    sidecar = start_sidecar("--pid", str(hidden.pid), "--on-demand", wrapper=WITHOUT)

    def denied() -> bool:
        return [problem["error"] for problem in sidecar.get("/readyz")[1]["problems"]] == ["ptrace_denied"]

    eventually("the refusal is reported", denied)
    assert collector.requests == []
