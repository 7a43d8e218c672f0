"""What a program says of itself: when each of its threads did what, by the kernel's clocks.

A diary has a row for each phase, made where the phase begins: Unix time when the row was begun and when
it was done, the time until then that the thread was on a CPU, and that it was ready to run and in the
queue for one (all in ns), and which phase it is. A phase lasts from where its row was done to where the
next was begun: what the diary itself takes belongs to none. Whoever sampled the program compares what it
saw between two moments with what the program did between them.

Runs on Python 3.8 and later.
"""

import ctypes
import json
import os
import random
import signal
import sys
import time
from array import array
from pathlib import Path

LUCK = random.Random(20261121)
C = ctypes.PyDLL(None)
C.pread.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long]


class Diary:
    """The phases of the thread that makes it. `phases` are their names; `begin` takes a name's number."""

    # A row that took longer was interrupted, and its clocks were read at different moments.
    LONGEST_NS = 100_000

    def __init__(self, thread, phases):
        self.thread = thread
        self.phases = [*phases, "between"]
        self.rows = array("q")
        self._queued = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._text = ctypes.create_string_buffer(64)
        self.end()

    def begin(self, phase):
        begun = tried = time.time_ns()
        while True:
            queued = self._queued_ns()
            cpu = time.thread_time_ns()
            done = time.time_ns()
            if done - tried < self.LONGEST_NS:
                break
            tried = done
        self.rows.extend((begun, done, cpu, queued, phase))

    def end(self):
        """The phase is over, and what comes now is none."""
        self.begin(len(self.phases) - 1)

    def switch(self, moment, phase):
        """Without a CPU the thread has been in another phase since a moment, which became known only now."""
        _, done, cpu, queued, _ = self.rows[-5:]
        moment = max(moment, done)
        self.rows.extend((moment, moment, cpu, queued, phase))

    def _queued_ns(self):
        # As a call that keeps the GIL: other threads would have it for 5 ms.
        size = C.pread(self._queued, self._text, 64, 0)
        return int(self._text.raw[:size].split()[1])


class Run:
    """Goes on until a SIGTERM, or for argv[2] seconds, and then leaves the diaries in the file argv[1]."""

    def __init__(self):
        self.path = sys.argv[1]
        self.variant = sys.argv[3:]
        self.until = time.monotonic() + float(sys.argv[2])
        self.ended = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, _number, _frame):
        self.ended = True

    def on(self):
        return not self.ended and time.monotonic() < self.until

    def ready(self):
        print("ready", os.getpid(), flush=True)

    def leave(self, *diaries):
        for diary in diaries:
            if diary.thread == "main":
                diary.end()
        told = [
            {"thread": diary.thread, "phases": diary.phases, "rows": diary.rows.tolist()} for diary in diaries
        ]
        Path(self.path).write_text(json.dumps(told))


def spin_until(moment, clock=time.perf_counter):
    while clock() < moment:
        pass


def length(mean_seconds):
    """A length from none to twice the mean, all alike likely."""
    return LUCK.uniform(0, 2 * mean_seconds)
