"""Forks, execs and exits without a pause, and checks that every child ended as it should.

Usage: storm.py SECONDS. Children live for 50 ms or so; a third of them replace themselves by another Python,
and a third start threads. At the end prints, as JSON, how many children there were and which ended otherwise.
"""

import json
import os
import sys
import threading
import time

UNTIL = time.monotonic() + float(sys.argv[1])
AT_ONCE = 6
CHILD = """
import sys, time
until = time.monotonic() + .05
while time.monotonic() < until:
    pass
sys.exit(int(sys.argv[1]))
"""


def work(seconds=0.05):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def child(number):
    code = number % 100
    if number % 3 == 0:
        os.execv(sys.executable, [sys.executable, "-c", CHILD, str(code)])
    if number % 3 == 1:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        work()
    os._exit(code)


def main():
    number, living, wrong = 0, {}, []
    while living or time.monotonic() < UNTIL:
        while len(living) < AT_ONCE and time.monotonic() < UNTIL:
            pid = os.fork()
            if pid == 0:
                child(number)
            living[pid] = number % 100
            number += 1
        pid, status = os.wait()
        expected = living.pop(pid)
        if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != expected:
            wrong.append([pid, status, expected])
    print(json.dumps({"children": number, "wrong": wrong}), flush=True)


print("ready", flush=True)
main()
