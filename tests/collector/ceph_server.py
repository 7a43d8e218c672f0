"""A real Ceph for tests: its S3 server, the Object Gateway, has lifecycles.

The monitor, the disk and the gateway are Debian's packages, a process each. It keeps objects in memory.
Its setting `rgw lc debug interval` makes a day of lifecycle rules take seconds.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.processes import S3Server, eventually, running

DAY_SECONDS = 3
KEYS = ("sidelight-tests", "sidelight-tests-secret")
START_SECONDS = 300.0


def _configuration(folder: Path, cluster: str, monitor: int, gateway: int) -> str:
    values = {
        "fsid": cluster,
        "mon host": f"v1:127.0.0.1:{monitor}",
        "public addr": "127.0.0.1",
        "ms bind msgr2": "false",
        "auth cluster required": "none",
        "auth service required": "none",
        "auth client required": "none",
        "mon data": folder / "monitor",
        "mon allow pool size one": "true",
        "mon data avail crit": 0,
        "osd data": folder / "disk",
        "osd objectstore": "memstore",
        "osd crush chooseleaf type": 0,
        "osd pool default size": 1,
        "osd pool default pg num": 1,
        "osd pool default pg autoscale mode": "off",
        "run dir": folder,
        "admin socket": folder / "$name.socket",
        "log file": folder / "$name.log",
        "rgw frontends": f"beast endpoint=127.0.0.1:{gateway}",
        "rgw lc debug interval": DAY_SECONDS,
    }
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@contextmanager
def ceph_server(folder: Path) -> Iterator[S3Server]:
    """A monitor, a disk and a gateway on free ports; `create_bucket` is not for it."""
    assert shutil.which("radosgw"), "Ceph is missing: run `make ceph`"
    monitor, gateway = _free_ports(2)
    cluster, disk = str(uuid4()), str(uuid4())
    for name in ("monitor", "disk"):
        (folder / name).mkdir(parents=True)
    config = folder / "ceph.conf"
    config.write_text(_configuration(folder, cluster, monitor, gateway))
    env = {"CEPH_CONF": str(config)}

    def do(*argv: str) -> None:
        done = subprocess.run(argv, env={**os.environ, **env}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"

    def answers() -> bool:
        assert rgw.alive(), rgw.said()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", gateway)) == 0

    address = f"[v1:127.0.0.1:{monitor}]"
    do("monmaptool", "--create", "--fsid", cluster, "--addv", "a", address, str(folder / "map"))
    do("ceph-mon", "--mkfs", "--id", "a", "--monmap", str(folder / "map"))
    with ExitStack() as stack:
        stack.enter_context(running(folder / "monitor.log", "ceph-mon", "-f", "--id", "a", env=env))
        do("ceph", "osd", "new", disk)
        do("ceph-osd", "--mkfs", "--id", "0", "--osd-uuid", disk)
        stack.enter_context(running(folder / "disk.log", "ceph-osd", "-f", "--id", "0", env=env))
        rgw = stack.enter_context(
            running(folder / "gateway.log", "radosgw", "-f", "--name", "client.rgw", env=env)
        )
        eventually("the gateway listens", answers, START_SECONDS)
        who = ("--uid", "tests", "--display-name", "tests", "--access-key", KEYS[0], "--secret", KEYS[1])
        do("radosgw-admin", "--name", "client.rgw", "user", "create", *who)
        environment = {
            "AWS_ACCESS_KEY_ID": KEYS[0],
            "AWS_SECRET_ACCESS_KEY": KEYS[1],
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield S3Server(rgw, f"http://127.0.0.1:{gateway}", environment, folder)
