"""Sleeps with the GIL as after vfork, which no signal ends (state D), from one line read to the next."""

import ctypes
import os
import platform
import signal
import sys
import threading

CLONE_VFORK = 0x4000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]

print("ready", flush=True)
threading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start()
sys.stdin.readline()
# PyDLL keeps the GIL. The parent goes on when the child has ended.
if ctypes.PyDLL(None).syscall(SYS_CLONE, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    os.read(0, 1)
    os._exit(0)
print("over", flush=True)
os._exit(0)
