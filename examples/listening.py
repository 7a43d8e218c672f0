"""Where an example service listens: the loopback interface, on the port asked for or on any free one."""

import argparse
import socket
from pathlib import Path


def listening_socket() -> socket.socket:
    """Open the socket that `--port` names; `--port-file` receives the real port once clients can connect."""
    parser = argparse.ArgumentParser(description="An example service: /50, /125 and /healthz.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="file that receives the real port")
    arguments = parser.parse_args()

    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=1024)
    listener.setblocking(False)
    port = listener.getsockname()[1]
    if arguments.port_file:
        unfinished = arguments.port_file.with_suffix(".unfinished")
        unfinished.write_text(f"{port}\n")
        unfinished.rename(arguments.port_file)
    return listener
