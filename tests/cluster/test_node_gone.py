"""A cluster with a node leaves the machine as it was, also when whoever started it is killed."""

import os
import subprocess
import sys

import pytest

from tests.cluster import place as places
from tests.cluster.node import FOLDER, SHIM, commands, why_not
from tests.cluster.programs import ROOT, Programs, eventually, started_at

STARTER = """
import sys, time
from pathlib import Path
from tests.cluster import images
from tests.cluster.node import start
from tests.cluster.programs import eventually, guarded
with guarded(Path(sys.argv[1]), "tests.cluster.node") as folder:
    node = start(folder, [images.DEMO, images.PAUSE])
    container = {"name": "app", "image": images.DEMO, "imagePullPolicy": "Never"}
    pod = {"metadata": {"name": "one"}, "spec": {"containers": [container]}}
    node.apply({"apiVersion": "v1", "kind": "Pod", **pod})
    path = "/api/v1/namespaces/default/pods/one"
    eventually("the pod runs", lambda: node.get(path)["status"]["phase"] == "Running", 90)
    (folder / "runs").touch()
    time.sleep(600)
"""


@pytest.fixture
def starter():
    if reason := why_not():
        pytest.skip(f"NO KUBELET HERE: {reason}")
    name = f"tests-{os.getpid()}-crash"
    folder = FOLDER / name
    process = subprocess.Popen([sys.executable, "-c", STARTER, str(folder)], cwd=ROOT)
    yield process, folder
    process.kill()
    process.wait()


def test_a_node_whose_starter_is_killed_leaves_no_trace(starter):
    process, folder = starter

    def runs() -> bool:
        assert process.poll() is None, "the starter has ended"
        return (folder / "runs").exists()

    settings = dict(places.settings())
    alone = not places.LEDGER.exists()
    eventually("a pod runs on the node", runs, 420)
    place = places.of(folder)
    programs = Programs(folder)
    pids = [programs.pid(name) for name in programs.names()] + places.processes(place)
    assert len(pids) >= 9
    process.kill()
    process.wait()
    eventually("the guard has done its work", lambda: not folder.exists(), 90)
    assert [pid for pid in pids if started_at(pid)] == []
    assert places.left(place, folder) == []
    assert not [words for _, words in commands(SHIM) if str(folder) in " ".join(words)]
    if alone and not places.LEDGER.exists():
        assert settings == dict(places.settings())
