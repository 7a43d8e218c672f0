"""A file system that is nearly full: a tmpfs in a mount namespace of its own.

A script runs there with `DISK`, the path of the file system. Nothing is mounted outside the namespace, and it
ends with the script.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELUDE = """
import os, sys
from pathlib import Path

DISK = Path(sys.argv[1])

def files(folder=DISK):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

def fill():
    with (DISK / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == 28, error

def leave(size):
    \"\"\"Fill the disk except for `size` bytes, a multiple of 4096.\"\"\"
    fill()
    os.truncate(DISK / "ballast", (DISK / "ballast").stat().st_size - size)
"""


def run_on_small_disk(folder: Path, script: str, *, size: str = "1m") -> str:
    """Run a Python script on a tmpfs of this size mounted at `folder`; return what it printed."""
    mount = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && exec "$3" -c "$4" "$2"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", size, str(folder)]
    done = subprocess.run(
        [*command, sys.executable, PRELUDE + script], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
