"""The sidecar's threads share one heap."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

HEAPS = """\
import ctypes, os, sys, tempfile, threading
from sidelight_sidecar.samplers import malloc_tuning
if "one" in sys.argv:
    malloc_tuning.limit_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.fopen.restype = ctypes.c_void_p
all_here = threading.Barrier(4)
def allocate():
    assert libc.malloc(1000)
    all_here.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with tempfile.NamedTemporaryFile("r") as info:
    stream = ctypes.c_void_p(libc.fopen(info.name.encode(), b"w"))
    assert libc.malloc_info(0, stream) == 0
    libc.fclose(stream)
    print(info.read().count("<heap "))
"""


def heaps(*argv: str) -> int:
    return int(subprocess.check_output([sys.executable, "-c", HEAPS, *argv]))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heaps of glibc")
def test_all_threads_allocate_from_one_heap() -> None:
    assert heaps() > 1
    assert heaps("one") == 1
