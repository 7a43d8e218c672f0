"""Threads that live for moments, code that is compiled, run and freed, and generators left half way.

Usage: churn.py SECONDS [names]. With `names`, every piece of code has a name that never was before.
"""

import sys
import threading
import time

SOURCE = """
def {name}(n):
    return sum(range(n))

def {name}_items(n):
    for i in range(n):
        yield {name}(i)
"""
UNTIL = time.monotonic() + float(sys.argv[1])
NAMES = "names" in sys.argv


def moment(number):
    name = f"f{number}" if NAMES else f"f{number % 50}"
    scope = {}
    exec(compile(SOURCE.format(name=name), f"{name}.py" if NAMES else "churn.py", "exec"), scope)
    for total in scope[name + "_items"](200):
        if total > 10_000:
            break


def main():
    number = 0
    while time.monotonic() < UNTIL:
        threads = [threading.Thread(target=moment, args=(number + n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for n in range(20):
            moment(number + 4 + n)
        number += 24


print("ready", flush=True)
main()
