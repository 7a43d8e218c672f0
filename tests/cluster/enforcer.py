"""Keeps the NetworkPolicies of a test's node, whose bridge keeps none: a table in its network namespace.

The table is made anew, in one step, whenever a policy, a pod or a namespace makes another one of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sidelight_kubernetes.kubernetes_client import ClusterError, KubernetesClient
from tests.cluster.node import Node
from tests.cluster.policies import TABLE, Json, held, table

KINDS = ("/apis/networking.k8s.io/v1/networkpolicies", "/api/v1/namespaces", "/api/v1/pods")


@contextmanager
def enforced(node: Node) -> Iterator[None]:
    """Policies are kept on the node, and no longer afterwards."""
    enter = node.place.enter
    # What goes from a pod to another of the same bridge passes the table as well.
    subprocess.run([*enter, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"], check=True)
    program = (sys.executable, "-m", "tests.cluster.enforcer", node.kubeconfig)
    node.programs.start("enforcer", *enter, "nice", "-n", "5", *program)
    try:
        yield
        node.programs.must_run("enforcer")
    finally:
        node.programs.end("enforcer")
        subprocess.run([*enter, "nft", "delete", "table", *TABLE.split()], check=False)


class Seen:
    """The objects of a cluster that policies are about, kept up to date by one thread for each kind."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)
        self._objects: dict[str, dict[str, Json]] = {}
        self._lock = threading.Condition()

    def follow(self, kind: str) -> None:
        """List and watch, for ever; an API server that is away is asked again."""
        while True:
            try:
                cluster = KubernetesClient.open(self._kubeconfig)
                pages = cluster.pages(kind)
                listed = {one["metadata"]["uid"]: one for one in pages}
                self._change(kind, listed)
                for event in cluster.watch(kind, pages.version, timeout_seconds=300):
                    if event.type in ("ADDED", "MODIFIED"):
                        listed[event.object["metadata"]["uid"]] = event.object
                    elif event.type == "DELETED":
                        listed.pop(event.object["metadata"]["uid"], None)
                    self._change(kind, listed)
            except ClusterError as error:
                print(error, file=sys.stderr, flush=True)
                threading.Event().wait(0.5)

    def _change(self, kind: str, objects: Mapping[str, Json]) -> None:
        with self._lock:
            self._objects[kind] = dict(objects)
            self._lock.notify()

    def tables(self) -> Iterator[str]:
        """The table, once all kinds are known, and whenever it is another."""
        last = ""
        while True:
            with self._lock:
                self._lock.wait_for(lambda: len(self._objects) == len(KINDS))
                text = table(held(*(list(self._objects[kind].values()) for kind in KINDS)))
                if text == last:
                    self._lock.wait()
                    continue
            yield (last := text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    seen = Seen(parser.parse_args().kubeconfig)
    for kind in KINDS:
        threading.Thread(target=seen.follow, args=[kind], daemon=True).start()
    for text in seen.tables():
        subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
        print(text, flush=True)


if __name__ == "__main__":
    main()
