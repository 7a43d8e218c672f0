"""Which TCP ports a process listens on: the first sign, seen from outside, that a service is ready.

Formats of proc_pid_net(5): the local address is HEX:PORT, state 0A is LISTEN, the tenth field is the
socket's inode, to which one of the process's descriptors leads. The kernel lists sockets that listen before
all others (net/ipv4/tcp_ipv4.c), of which a busy service has thousands: those are not read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

_LISTEN = "0A"
_CHUNK = 4096


def find_ports(pids: Collection[int], root: Path = Path("/proc")) -> list[int]:
    """Of any of these processes of one network namespace, ascending.

    None where nothing listens, or where it may not be seen.
    """
    listening = {}
    for table in ("tcp", "tcp6"):
        for fields in _read_rows(f"{root}/{min(pids)}/net/{table}"):
            if len(fields) < 10 or fields[3] != _LISTEN:
                break
            listening[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    if not listening:
        return []
    return sorted(
        {listening[link] for pid in pids for link in _read_links(f"{root}/{pid}/fd") if link in listening}
    )


def _read_rows(path: str) -> Iterator[list[str]]:
    """The rows of a table, read as far as they are asked for."""
    try:
        table = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        rest, titled = b"", False
        while chunk := os.read(table, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines[0 if titled else 1 :]:
                yield line.decode(errors="replace").split()
            titled = True
    except OSError:
        return
    finally:
        os.close(table)


def _read_links(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as descriptors:
            for descriptor in descriptors:
                try:
                    yield os.readlink(descriptor.path)  # noqa: PTH115 - there may be thousands
                except OSError:
                    continue  # closed since it was listed
    except OSError:
        return
