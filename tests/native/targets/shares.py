"""Half of the time idle; of the CPU time 70 % in `heavy` and 30 % in `light`.

Ends after argv[1] seconds and prints as JSON what it did: seconds by the wall clock in each function.
"""

import json
import sys
import time


def spin(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def heavy():
    spin(0.035)


def light():
    spin(0.015)


def rest(seconds):
    time.sleep(seconds)


def main():
    spent = {"heavy": 0.0, "light": 0.0, "rest": 0.0}
    end = time.perf_counter() + float(sys.argv[1])
    print("ready", flush=True)
    while time.perf_counter() < end:
        times = [time.perf_counter()]
        heavy()
        times.append(time.perf_counter())
        light()
        times.append(time.perf_counter())
        rest(times[2] - times[0])
        times.append(time.perf_counter())
        for name, begun, ended in zip(spent, times, times[1:]):  # noqa: B905 (Python 3.9 has no strict)
            spent[name] += ended - begun
    print(json.dumps(spent), flush=True)


main()
