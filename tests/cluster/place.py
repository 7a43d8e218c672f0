"""Where a node is on this machine: a network namespace with a link to it, its addresses and its cgroup."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.programs import eventually

CGROUPS = Path("/sys/fs/cgroup")
NETNS = Path("/run/netns")
DNS = "169.254.20.10"
"""Where the node's DNS listens: on the node's network, as NodeLocal DNSCache does."""
LEDGER = Path("/run/sidelight-cluster")
SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet sets for the whole machine."""


@dataclass(frozen=True, slots=True)
class Place:
    """The addresses of one cluster: `number` keeps those of several on one machine apart."""

    name: str
    number: int

    @property
    def host(self) -> str:
        """This machine's end of the link: servers of tests listen here for pods."""
        return f"172.31.{self.number}.1"

    @property
    def node(self) -> str:
        return f"172.31.{self.number}.2"

    @property
    def pods(self) -> str:
        return f"10.244.{self.number}.0/24"

    @property
    def services(self) -> str:
        return f"10.97.{self.number}.0/24"

    @property
    def first_service(self) -> str:
        return f"10.97.{self.number}.1"

    @property
    def enter(self) -> tuple[str, ...]:
        """What runs a program in the network of the node."""
        return ("nsenter", f"--net={NETNS / self.name}")


def of(folder: Path) -> Place | None:
    """The place that was made for a cluster's folder."""
    try:
        return Place(**json.loads((folder / "place").read_text()))
    except FileNotFoundError:
        return None


def make(folder: Path) -> Place:
    """A network namespace that reaches this machine and nothing else, and routes to its pods and services."""
    name = f"sidelight-{hashlib.sha256(str(folder).encode()).hexdigest()[:5]}"
    taken = _run("ip", "route").split() + _run("ip", "-o", "addr").split()
    number = next(n for n in range(10, 250) if not any(word.startswith(f"172.31.{n}.") for word in taken))
    place = Place(name, number)
    (folder / "place").write_text(json.dumps({"name": name, "number": number}))
    _remember(name)
    _run("ip", "netns", "add", name)
    _run("ip", "link", "add", name, "type", "veth", "peer", "name", "up0", "netns", name)
    _run("ip", "addr", "add", f"{place.host}/30", "dev", name)
    _run("ip", "link", "set", name, "up")
    inside = ("ip", "-n", name)
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "addr", "add", f"{DNS}/32", "dev", "lo")
    _run(*inside, "addr", "add", f"{place.node}/30", "dev", "up0")
    _run(*inside, "link", "set", "up0", "up")
    _run(*inside, "route", "add", "default", "via", place.host)
    for network in (place.pods, place.services):
        _run("ip", "route", "add", network, "via", place.node)
    _run(*place.enter, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for tree in trees():
        folder_of_tree = tree / name
        folder_of_tree.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (folder_of_tree / setting).exists() and not (folder_of_tree / setting).read_text().strip():
                (folder_of_tree / setting).write_text((tree / setting).read_text())
    return place


def unmake(folder: Path) -> None:
    """Put the machine back as it was; what is gone already is no fault."""
    place = of(folder)
    if place is None:
        return
    for mount in reversed(_mounts(folder)):
        subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "link", "del", place.name], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "netns", "del", place.name], check=False, stderr=subprocess.DEVNULL)
    for tree in trees():
        own = tree / place.name
        if own.is_dir():
            for path in sorted(own.rglob("*"), reverse=True):
                if path.is_dir():
                    eventually(f"{path} is empty", lambda path=path: _removed(path), 10)
            own.rmdir()
    _forget(place.name)


def _remember(name: str) -> None:
    """Keep the machine's settings as they are before the first cluster, of whoever it is."""
    LEDGER.mkdir(exist_ok=True)
    for path in LEDGER.iterdir():
        if path.name != "before" and not (NETNS / path.name).exists():
            path.unlink()
    if not [path for path in LEDGER.iterdir() if path.name != "before"]:
        (LEDGER / "before").write_text(json.dumps(dict(settings())))
    (LEDGER / name).touch()


def _forget(name: str) -> None:
    """The last cluster to go puts them back."""
    (LEDGER / name).unlink(missing_ok=True)
    if LEDGER.exists() and [path.name for path in LEDGER.iterdir()] == ["before"]:
        for key, value in json.loads((LEDGER / "before").read_text()).items():
            (Path("/proc/sys") / key).write_text(value)
        shutil.rmtree(LEDGER)


def left(place: Place, folder: Path) -> list[str]:
    """What is still there of a place that was unmade: nothing, it is hoped."""
    routes = [line for line in _run("ip", "route").splitlines() if place.host in line or place.node in line]
    cgroups = [str(tree / place.name) for tree in trees() if (tree / place.name).exists()]
    names = [str(path) for path in (NETNS / place.name, folder) if path.exists()]
    return [*routes, *cgroups, *names, *_mounts(folder)]


def processes(place: Place, container: str = "") -> list[int]:
    """The pids of all that runs in the node's cgroup, what its pods are made of; or in one container."""
    found = set()
    for tree in trees():
        for path, _, files in os.walk(tree / place.name):
            if "cgroup.procs" not in files or not path.endswith(container):
                continue
            try:
                found.update(map(int, Path(path, "cgroup.procs").read_text().split()))
            except OSError:
                continue
    return sorted(found)


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def trees() -> Iterator[Path]:
    """The roots of the controllers: one in a version 2, one each in a version 1."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS
        return
    for tree in sorted(CGROUPS.iterdir()):
        if tree.is_dir() and not tree.is_symlink() and (tree / "cgroup.procs").exists():
            yield tree


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [path for path in (line.split()[1] for line in lines) if path.startswith(f"{folder}/")]


def settings() -> Iterator[tuple[str, str]]:
    """What the machine's settings are."""
    for key in SYSCTLS:
        try:
            yield key, (Path("/proc/sys") / key).read_text()
        except OSError:
            continue


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
