"""TCP ports on which processes listen: the first outside sign of readiness.

The formats are those of proc_pid_net(5). The local address is HEX:PORT, state 0A is LISTEN, and the tenth
field is the socket's inode, which one of the process's descriptors links to. The kernel lists listening
sockets before all others (net/ipv4/tcp_ipv4.c). A busy service has thousands of others, which are not read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

_LISTEN = "0A"
_CHUNK = 4096


def find_ports(pids: Collection[int], root: Path = Path("/proc")) -> list[int]:
    """Return the ports on which any of these processes listens, ascending.

    The processes must share a network namespace. The list is empty if none listens, or if that may not be
    seen.
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
    """Yield the rows of a table; the file is read only as far as they are consumed."""
    try:
        table = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        rest, has_header = b"", False
        while chunk := os.read(table, _CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines[0 if has_header else 1 :]:
                yield line.decode(errors="replace").split()
            has_header = True
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
