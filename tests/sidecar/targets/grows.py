"""Takes 100 MB more each time that its file GROW appears, and listens on a port once LISTEN does."""

import socket
import sys
import time
from pathlib import Path

folder = Path(sys.argv[1])
kept = []
listening = None
print("ready", flush=True)
while True:
    if (folder / "grow").exists():
        (folder / "grow").unlink()
        kept.append(b"x" * (100 << 20))
        print("grown", flush=True)
    if listening is None and (folder / "listen").exists():
        listening = socket.create_server(("127.0.0.1", 0))
        print(f"port {listening.getsockname()[1]}", flush=True)
    time.sleep(0.02)
