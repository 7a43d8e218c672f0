"""argv[3] threads that compute in `compute` and so want the GIL all the time."""

import threading
import time

from telling import Diary, Run, length, spin_until

PHASE_SECONDS = 0.1


def compute(seconds):
    spin_until(time.perf_counter() + seconds)


def by_turns(number):
    diary = Diary(f"compute{number}", ["compute"])
    DIARIES.append(diary)
    while RUN.on():
        diary.begin(0)
        compute(length(PHASE_SECONDS))
        diary.end()


RUN = Run()
DIARIES = []
THREADS = [threading.Thread(target=by_turns, args=(number,)) for number in range(int(RUN.variant[0]))]
for thread in THREADS:
    thread.start()
while len(DIARIES) < len(THREADS):
    time.sleep(0.01)
RUN.ready()
for thread in THREADS:
    while thread.is_alive():
        thread.join(0.5)
RUN.leave(*DIARIES)
