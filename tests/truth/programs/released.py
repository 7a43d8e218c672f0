"""By turns: computes in Python (`python`), in C without the GIL (`released`), and sleeps (`rest`)."""

import hashlib
import time

from telling import LUCK, Diary, Run, length, spin_until

PHASE_SECONDS = 0.008
BLOCK = bytes(8 << 20)


def python(seconds):
    spin_until(time.perf_counter() + seconds)


def released(_seconds):
    hashlib.sha256(BLOCK)


def rest(seconds):
    time.sleep(seconds)


def main():
    run = Run()
    parts = [python, released, rest]
    diary = Diary("main", [part.__name__ for part in parts])
    run.ready()
    while run.on():
        number = LUCK.randrange(3)
        seconds = length(PHASE_SECONDS)
        diary.begin(number)
        parts[number](seconds)
        diary.end()
    run.leave(diary)


main()
