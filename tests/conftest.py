"""Hypothesis profiles, and what runs beside what.

`dev` is a quick answer at the desk, `ci` the same answer on every run.

With several workers (`pytest -n`, as in `make test`) each file runs on one of them, beside others. Some tests
measure time, or sample processes that are to have a CPU to themselves: they run at the end, one by one. Those
that need a cluster with a node (`tests/cluster/*node*`) have one worker, so that there is one such cluster.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ALONE = (
    "tests/demo/test_demo.py",
    "tests/demo/test_load.py",
    "tests/demo/test_services.py",
    "tests/e2e/test_verdicts.py",
    "tests/harm/",
    "tests/native/test_shares.py",
    "tests/native/test_stacks.py",
    "tests/native/test_windows.py",
    "tests/truth/test_truth.py",
)


class FilesSideBySide(LoadScopeScheduling):
    """A file at a time for each worker; a node's are one piece of work, and those that run alone the last."""

    def _split_scope(self, nodeid: str) -> str:
        if _on_node(nodeid):
            return "node"
        return "alone" if nodeid.startswith(ALONE) else nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """A test that ended its worker, as one does that hangs, has failed and is not run again."""
        for unit in self.assigned_work[node].values():
            for nodeid, done in unit.items():
                if not done:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        return super().remove_node(node)


def _on_node(nodeid: str) -> bool:
    file = nodeid.partition("::")[0]
    return file.startswith("tests/cluster/") and "node" in file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesSideBySide:
    config.option.loadscopereorder = False
    return FilesSideBySide(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (item.nodeid.startswith(ALONE), not _on_node(item.nodeid)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Whoever runs alone waits for the other workers, and they for it: a lock on the folder of the run."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    folder = os.open(Path(item.config.getoption("basetemp")).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if item.nodeid.startswith(ALONE) else fcntl.LOCK_SH)
        return (yield)
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)
