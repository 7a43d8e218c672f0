"""Works at known depths: `bottom` is called through 3, 10, 25, 60 or 120 calls of `descend`."""

import time

from telling import LUCK, Diary, Run, length, spin_until

DEPTHS = [3, 10, 25, 60, 120]
SHARES = [10, 25, 30, 20, 15]
PHASE_SECONDS = 0.0025


def bottom(diary, number, seconds):
    diary.begin(number)
    spin_until(time.perf_counter() + seconds)
    diary.end()


def descend(left, diary, number, seconds):
    if left == 1:
        bottom(diary, number, seconds)
    else:
        descend(left - 1, diary, number, seconds)


def main():
    run = Run()
    diary = Diary("main", [f"depth_{depth}" for depth in DEPTHS])
    numbers = range(len(DEPTHS))
    run.ready()
    while run.on():
        [number] = LUCK.choices(numbers, SHARES)
        descend(DEPTHS[number], diary, number, length(PHASE_SECONDS))
    run.leave(diary)


main()
