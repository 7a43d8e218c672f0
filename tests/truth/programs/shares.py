"""Functions with known shares of the time: argv[3] is like 70/30, and `part_70` is at work 70 % of the time.

Which one comes next is drawn anew every 2.5 ms or so.
"""

from time import perf_counter

from telling import LUCK, Diary, Run, length

PHASE_SECONDS = 0.0025
TEMPLATE = """
def part_{share}(until):
    while perf_counter() < until:
        pass
"""


def main():
    run = Run()
    shares = [int(share) for share in run.variant[0].split("/")]
    scope = {"perf_counter": perf_counter}
    for share in shares:
        exec(compile(TEMPLATE.format(share=share), "parts.py", "exec"), scope)
    parts = [scope[f"part_{share}"] for share in shares]
    diary = Diary("main", [f"part_{share}" for share in shares])
    numbers = range(len(parts))
    run.ready()
    while run.on():
        [number] = LUCK.choices(numbers, shares)
        seconds = length(PHASE_SECONDS)
        diary.begin(number)
        parts[number](perf_counter() + seconds)
        diary.end()
    run.leave(diary)


main()
