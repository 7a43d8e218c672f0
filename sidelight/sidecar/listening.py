"""Which TCP ports a process listens on: the first sign, seen from outside, that a service is ready.

Formats of proc_pid_net(5): the local address is HEX:PORT, state 0A is LISTEN, the tenth field is the
socket's inode, to which one of the process's descriptors leads.
"""

from __future__ import annotations

import os
from pathlib import Path

_LISTEN = "0A"


def ports(pid: int, root: Path = Path("/proc")) -> list[int]:
    """Ascending; none where nothing listens, or where it may not be seen."""
    listening = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = (root / str(pid) / "net" / table).read_text().split("\n")[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) > 9 and fields[3] == _LISTEN:
                listening[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    if not listening:
        return []
    found = set()
    try:
        with os.scandir(root / str(pid) / "fd") as descriptors:
            for descriptor in descriptors:
                try:
                    port = listening.get(str(Path(descriptor.path).readlink()))
                except OSError:
                    continue  # closed since it was listed
                if port is not None:
                    found.add(port)
    except OSError:
        return []
    return sorted(found)
