"""The clusters of the tests: `api` is a control plane on loopback alone, `node` one with a real kubelet."""

from collections.abc import Generator, Iterator

import pytest

from tests.cluster.api import Api
from tests.cluster.control import Where, start
from tests.cluster.node import Node, folder_of_tests, sweep, why_not
from tests.cluster.node import start as start_node
from tests.cluster.programs import Programs, guarded


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what the pods said when a test on a node fails: they are gone afterwards."""
    report = yield
    node = getattr(item, "funcargs", {}).get("node")
    if report.failed and isinstance(node, Node):
        report.sections.append(("the cluster", node.told()))
    return report


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A real etcd, kube-apiserver and kube-controller-manager; pods are taken and never run."""
    with guarded(tmp_path_factory.mktemp("cluster") / "api") as folder:
        yield start(Programs(folder), Where())


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A cluster with a node that runs pods: a real kubelet, containerd, and the images of this checkout."""
    if reason := why_not():
        pytest.skip(f"NO KUBELET HERE, so nothing was run in a pod: {reason}")
    sweep()
    with guarded(folder_of_tests(), "tests.cluster.node") as folder:
        yield start_node(folder)
