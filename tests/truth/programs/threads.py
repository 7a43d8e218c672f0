"""Five threads: `often` and `seldom` want the GIL for 50 and 15 % of their time, `digest` computes without
it, `waiting` waits for an event, and the main thread for all of them.
"""

import hashlib
import threading
import time

from telling import Diary, Run, length, spin_until

CYCLE_SECONDS = 0.04
BLOCK = bytes(1 << 20)


def work(seconds):
    spin_until(time.perf_counter() + seconds)


def work_in_c():
    hashlib.sha256(BLOCK)


def rest(seconds):
    time.sleep(seconds)


def by_turns(diary, share):
    while RUN.on():
        diary.begin(0)
        work(length(share * CYCLE_SECONDS))
        diary.begin(1)
        rest(length((1 - share) * CYCLE_SECONDS))
        diary.end()


def often():
    diary = Diary("often", ["work", "rest"])
    DIARIES.append(diary)
    by_turns(diary, 0.5)


def seldom():
    diary = Diary("seldom", ["work", "rest"])
    DIARIES.append(diary)
    by_turns(diary, 0.15)


def digest():
    diary = Diary("digest", ["work", "rest"])
    DIARIES.append(diary)
    while RUN.on():
        diary.begin(0)
        work_in_c()
        diary.begin(1)
        rest(length(0.02))
        diary.end()


def waiting():
    DONE.wait()


RUN = Run()
DONE = threading.Event()
DIARIES = []
THREADS = [threading.Thread(target=target) for target in (often, seldom, digest, waiting)]
for thread in THREADS:
    thread.start()
while len(DIARIES) < 3:
    time.sleep(0.01)
RUN.ready()
for thread in THREADS[:3]:
    while thread.is_alive():
        thread.join(0.5)
DONE.set()
THREADS[3].join()
RUN.leave(*DIARIES)
