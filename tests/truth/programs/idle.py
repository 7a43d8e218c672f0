"""Asleep for argv[3] percent of the time, in `rest`; busy in `work` for the others."""

import time

from telling import Diary, Run, length, spin_until

CYCLE_SECONDS = 0.025


def work(seconds):
    spin_until(time.perf_counter() + seconds)


def rest(seconds):
    time.sleep(seconds)


def main():
    run = Run()
    share = float(run.variant[0]) / 100
    diary = Diary("main", ["work", "rest"])
    run.ready()
    while run.on():
        busy, idle = length((1 - share) * CYCLE_SECONDS), length(share * CYCLE_SECONDS)
        diary.begin(0)
        work(busy)
        diary.begin(1)
        rest(idle)
        diary.end()
    run.leave(diary)


main()
