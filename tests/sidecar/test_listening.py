"""Listening sockets of real processes, and tables as the kernel writes them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from sidelight_sidecar.discovery.listening_ports import find_ports

TITLE = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
ROW = " {n}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0"


def test_ports_of_this_process_are_found_and_no_others() -> None:
    before = find_ports([os.getpid()])
    with (
        socket.create_server(("127.0.0.1", 0)) as four,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        mine = {four.getsockname()[1], six.getsockname()[1]}
        with socket.create_connection(four.getsockname()) as client:
            found = set(find_ports([os.getpid()]))
            assert client.getsockname()[1] not in found
        assert found == {*before, *mine}
        assert not mine & set(find_ports([os.getppid()]))
    assert find_ports([os.getpid()]) == before


def table(root: Path, rows: list[str]) -> None:
    (root / "7/net").mkdir(parents=True)
    (root / "7/fd").mkdir()
    (root / "7/fd/3").symlink_to("socket:[99]")
    (root / "7/net/tcp").write_text("\n".join([TITLE, *rows]) + "\n")


def test_a_table_longer_than_one_reading_is_read_to_the_last_that_listens(tmp_path: Path) -> None:
    rows = [ROW.format(n=n, port=1000 + n, state="0A", inode=n) for n in range(90)]
    rows += [ROW.format(n=99, port=8080, state="0A", inode=99)]
    rows += [ROW.format(n=100 + n, port=9000 + n, state="06", inode=0) for n in range(500)]
    table(tmp_path, rows)
    assert find_ports([7], tmp_path) == [8080]


def test_what_may_not_be_seen_is_none(tmp_path: Path) -> None:
    assert find_ports([7], tmp_path) == []
    table(tmp_path, [])
    assert find_ports([7], tmp_path) == []
