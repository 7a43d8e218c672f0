"""The clusters of the tests: `api` is a control plane on loopback, with no node."""

from collections.abc import Iterator

import pytest

from tests.cluster.api import Api
from tests.cluster.control import Place, start
from tests.cluster.programs import Programs, guarded


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A real etcd, kube-apiserver and kube-controller-manager; pods are taken and never run."""
    with guarded(tmp_path_factory.mktemp("cluster") / "api") as folder:
        yield start(Programs(folder), Place())
