"""Samples processes until so many samples were counted, and says how large it got.

Usage: soak.py SAMPLES SECONDS MAX_STACKS PID:RATE [PID:RATE ...]. Prints a JSON line after each take (four
a second): the samples so far, the bytes resident and the open descriptors. The last is from after everything
was let go.
"""

import json
import os
import sys
import time
from pathlib import Path

from sidelight_native import Engine

PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    goal, seconds = int(sys.argv[1]), float(sys.argv[2])
    samples, attempts, failed, longest = 0, 0, 0, 0

    def tell() -> None:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        told = {"samples": samples, "attempts": attempts, "failed": failed, "longest_stop_ns": longest}
        print(json.dumps({**told, "resident": resident, "open": descriptors}), flush=True)

    tell()
    engine = Engine(max_stacks=int(sys.argv[3]))
    sessions = []
    for target in sys.argv[4:]:
        pid, rate = target.split(":")
        sessions.append(engine.attach(int(pid), rate_hz=float(rate), mode="auto"))
    until = time.monotonic() + seconds
    while samples < goal and time.monotonic() < until:
        time.sleep(0.25)
        for session in sessions:
            batch = session.take()
            samples += batch.samples
            attempts += batch.attempts
            failed += sum(batch.errors.values())
            longest = max(longest, batch.longest_stop_ns)
        tell()
        assert all(session.ended is None for session in sessions), [session.ended for session in sessions]
    for session in sessions:
        session.stop()
    engine.close()
    del session, sessions, engine
    tell()


main()
