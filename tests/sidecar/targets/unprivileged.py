"""Becomes another user, whose memory only a holder of SYS_PTRACE may read."""

import os
import time

os.setgid(65534)
os.setuid(65534)
print("ready", flush=True)
while True:
    sum(range(50_000))
    time.sleep(0.001)
