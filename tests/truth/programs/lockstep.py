"""Two functions by turns, each for half of argv[3] seconds: in step with a sampler of that period."""

import time

from telling import Diary, Run


def part_first(until):
    while time.perf_counter() < until:
        pass


def part_second(until):
    while time.perf_counter() < until:
        pass


def main():
    run = Run()
    half = float(run.variant[0]) / 2
    diary = Diary("main", ["part_first", "part_second"])
    run.ready()
    at = time.perf_counter()
    while run.on():
        # From moments that are fixed beforehand; after a stall from now on.
        at = max(at, time.perf_counter() - half)
        diary.begin(0)
        part_first(at + half)
        diary.begin(1)
        part_second(at + 2 * half)
        diary.end()
        at += 2 * half
    run.leave(diary)


main()
