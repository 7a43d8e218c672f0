"""A real Trino for tests: a coordinator and workers, each in a JVM of its own, over a real S3 server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import trino

from sidelight_collector.settings.engine import TrinoUrl
from sidelight_collector.storage.trino_ddl import build_trino_ddl
from tests.processes import ROOT, Running, S3Server, eventually, running

WORKERS = 2
START_SECONDS = 600.0
MIN_JAVA = 24
JVM_FLAGS = (
    *("-Xmx420m", "-XX:MaxMetaspaceSize=220m", "-XX:ReservedCodeCacheSize=96m", "-XX:TieredStopAtLevel=1"),
    *("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djdk.attach.allowAttachSelf=true"),
    *("-Dfile.encoding=UTF-8", "--add-modules=jdk.incubator.vector"),
)
CONFIG = {
    "node-scheduler.include-coordinator": "false",
    "node.internal-address": "127.0.0.1",
    "node.environment": "test",
    "query.max-memory": "300MB",
    "query.max-memory-per-node": "150MB",
    "memory.heap-headroom-per-node": "120MB",
    "retry-policy": "QUERY",
    "query.remote-task.max-error-duration": "10s",
}
CATALOG = {
    "connector.name": "hive",
    "hive.metastore": "file",
    "hive.metastore.catalog.dir": "local:///metastore",
    "hive.recursive-directories": "true",
    "fs.native-local.enabled": "true",
    "fs.native-s3.enabled": "true",
    "s3.region": "us-east-1",
    "s3.path-style-access": "true",
}


@dataclass
class TrinoCluster:
    """A running cluster; it has one schema for each store."""

    url: TrinoUrl
    nodes: Sequence[Running]
    _schemas: dict[str, str] = field(default_factory=dict)

    @property
    def workers(self) -> Sequence[Running]:
        return self.nodes[1:]

    def url_of(self, store: str) -> TrinoUrl:
        if store not in self._schemas:
            schema = f"store_{len(self._schemas) + 1}"
            for statement in build_trino_ddl(store, self.url.catalog, schema):
                self.run(statement)
            self._schemas[store] = schema
        return replace(self.url, schema=self._schemas[store])

    def active_workers(self) -> int:
        (counted,) = self.run("SELECT count(*) FROM system.runtime.nodes WHERE NOT coordinator")
        return int(counted[0])

    def run(self, statement: str) -> list[Any]:
        cursor = trino.dbapi.connect(host=self.url.host, port=self.url.port, user="test").cursor()
        return list(cursor.execute(statement).fetchall())

    def ask(self, path: str) -> Any:
        """Ask the coordinator's REST API."""
        request = urllib.request.Request(
            f"http://{self.url.host}:{self.url.port}/v1/{path}", headers={"X-Trino-User": "test"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def trino_cluster(folder: Path, s3: S3Server) -> Iterator[TrinoCluster]:
    """A coordinator and its workers on loopback, with credentials of their own for S3."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    catalog = CATALOG | {
        "local.location": str(folder),
        "s3.endpoint": s3.endpoint,
        "s3.aws-access-key": s3.environment["AWS_ACCESS_KEY_ID"],
        "s3.aws-secret-key": s3.environment["AWS_SECRET_ACCESS_KEY"],
    }
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(_node(folder / name, name == "coordinator", port, catalog))
            for name in ("coordinator", *(f"worker{number}" for number in range(WORKERS)))
        ]
        cluster = TrinoCluster(TrinoUrl("127.0.0.1", port, user="test", catalog="profiles"), nodes)

        def is_complete() -> bool:
            for node in nodes:
                assert node.alive(), node.said()[-4000:]
            try:
                return not cluster.ask("info")["starting"] and cluster.active_workers() == WORKERS
            except (OSError, trino.exceptions.Error, trino.exceptions.HttpError):
                return False

        eventually("Trino has all its workers", is_complete, START_SECONDS)
        yield cluster


@contextmanager
def _node(folder: Path, is_coordinator: bool, port: int, catalog: Mapping[str, str]) -> Iterator[Running]:
    home = next((ROOT / ".tools").glob("trino-server-*/"), Path()).resolve()
    assert (home / "plugin").exists(), ".tools has no trino-server: run `make test-trino`"
    config = CONFIG | {
        "coordinator": str(is_coordinator).lower(),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "http-server.http.port": str(port if is_coordinator else 0),
        "node.id": folder.name,
        "plugin.dir": str(home / "plugin"),
        "catalog.config-dir": str(folder / "catalog"),
    }
    (folder / "catalog").mkdir(parents=True)
    (folder.parent / "metastore").mkdir(exist_ok=True)
    _write_properties(folder / "config.properties", config)
    _write_properties(folder / "catalog" / "profiles.properties", catalog)
    argv = [_find_java(), *JVM_FLAGS, "-cp", f"{home}/lib/*", f"-Dconfig={folder}/config.properties"]
    with running(folder / "log", *argv, "io.trino.server.TrinoServer", cwd=folder) as process:
        yield process


def _write_properties(file: Path, values: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))


def _find_java() -> str:
    """The first Java that is new enough; fails the test if there is none."""
    for java in ("java", *map(str, sorted(Path("/usr/lib/jvm").glob("*/bin/java")))):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', said)
        if version and int(version[1]) >= MIN_JAVA:
            return java
    raise AssertionError(f"Trino needs Java {MIN_JAVA} or later: install a JDK into /usr/lib/jvm")
