"""The chart for trying out, on a real kubelet: a directory store, and a sidecar in a service's own chart."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.cluster import images
from tests.cluster.node import Node
from tests.cluster.programs import eventually
from tests.cluster.releases import CHART, Release, helm, image, values

SERVICE = "checkout"


@pytest.fixture(scope="module")
def release(node: Node) -> Iterator[Release]:
    """A collector with a volume; a folder of this machine is what a cluster's storage class would give."""
    folder = node.programs.folder / "volume"
    folder.mkdir()
    os.chown(folder, 10001, 10001)
    with node.namespace() as namespace:
        claim = {"namespace": namespace, "name": "sidelight-collector"}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": namespace},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(folder), "type": "Directory"},
                "claimRef": claim,
            },
        }
        node.apply(volume)
        one = Release(node, namespace)
        one.upgrade(values(kubernetes={"identity": True}))
        yield one
        one.helm("uninstall", "sidelight", "--ignore-not-found", "--wait")
    node.kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")


@pytest.fixture(scope="module")
def shop(node: Node, release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The example service, with the chart as a dependency of its own."""
    chart = tmp_path_factory.mktemp("service") / SERVICE
    shutil.copytree(CHART.parent / "example", chart)
    shutil.copytree(CHART, chart / "charts" / "sidelight")
    sidecar = image(images.SIDECAR)
    given = {
        "image.repository": images.DEMO.rpartition(":")[0],
        "image.tag": "test",
        "sidelight.sidecar.image.repository": sidecar["repository"],
        "sidelight.sidecar.image.tag": sidecar["tag"],
        "sidelight.sidecar.collector": f"http://sidelight-collector.{release.namespace}.svc:8080",
        "sidelight.sidecar.tokenSecret": "",
        "sidelight.sidecar.serviceAccountToken.enabled": "true",
        "sidelight.sidecar.settings.interval_seconds": "2",
        "sidelight.sidecar.settings.window_seconds": "1",
    }
    flags = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    with node.namespace() as namespace:
        helm(node, namespace, "install", SERVICE, chart, *flags, "--wait", "--timeout", "150s")
        yield namespace


def test_a_service_with_the_sidecar_in_its_own_chart_is_seen(node, release, shop):
    eventually("profiles arrive", lambda: release.service(SERVICE), 90)
    path = f"/api/v1/namespaces/{shop}/pods?labelSelector=app={SERVICE}"
    pods = sorted(pod["metadata"]["name"] for pod in node.get(path)["items"])
    assert len(pods) == 3
    eventually("all pods are there", lambda: release.label("pod", SERVICE) == pods)
    assert release.label("namespace", SERVICE) == [shop]
    assert release.label("version", SERVICE) == ["test"]
    eventually("it serves", lambda: "serve (aiohttp_asyncio.py" in release.stacks(SERVICE))


def test_what_was_stored_is_there_after_an_upgrade_and_after_an_uninstall(node, release, shop):
    """A directory store's collector is away while it is upgraded; sidecars keep their windows meanwhile."""
    seen = release.service(SERVICE)["first_seen"]
    given = values(kubernetes={"identity": True}, collector={"podAnnotations": {"tests/revision": "2"}})
    release.upgrade(given)
    assert release.service(SERVICE)["first_seen"] == seen
    release.helm("uninstall", "sidelight", "--wait")
    claims = node.kubectl("-n", release.namespace, "get", "pvc", "-o", "name")
    assert claims.split() == ["persistentvolumeclaim/sidelight-collector"]
    release.upgrade(given)
    before = release.service(SERVICE)
    assert before["first_seen"] == seen
    eventually("new windows arrive", lambda: release.service(SERVICE)["windows"] > before["windows"], 90)
