"""A program that makes itself expensive to read: argv[1] says how, argv[2] for how many seconds it runs.

threads   Python 3.8 to 3.10: a deep stack in a list of threads that never ends
names     the same with names of thousands of characters
lines     Python 3.11: argv[3] functions on the stack, each with a location table of a megabyte
"""

import ctypes
import sys
import time

NEXT_THREAD = 8


def wait(seconds):
    print("ready", flush=True)
    time.sleep(seconds)


def descend(call, depth, seconds):
    if depth:
        call(call, depth - 1, seconds)
    else:
        wait(seconds)


def endless_threads(call, seconds):
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    state = ctypes.pythonapi.PyThreadState_Get()
    ctypes.c_void_p.from_address(state + NEXT_THREAD).value = state
    sys.setrecursionlimit(5000)
    call(call, 3900, seconds)


def lines(seconds, count):
    table = bytes([0xE8, 2, 0xE8, 3]) * ((1 << 20) // 4 - 16)  # one line on, one line back, and so on
    functions = []
    for i in range(count):
        names = {"wait": wait}
        exec(f"def f{i}(n): functions[n](n + 1) if n < len(functions) else wait(seconds)", names)
        names.update(functions=functions, seconds=seconds)
        function = names[f"f{i}"]
        function.__code__ = function.__code__.replace(co_linetable=table, co_filename=f"/x/{i}.py")
        functions.append(function)
    functions[0](1)


kind, seconds = sys.argv[1], float(sys.argv[2])
if kind == "lines":
    lines(seconds, int(sys.argv[3]))
elif kind == "names":
    code = descend.__code__.replace(co_name="n" * 4000, co_filename="f" * 4000)
    endless_threads(type(descend)(code, globals()), seconds)
else:
    endless_threads(descend, seconds)
