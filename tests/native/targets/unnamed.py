"""Code without a usable file or function name: empty, not decodable, or longer than 4,096 characters.

Ends after argv[1] seconds. `caller` runs a module of each kind; each calls `time.monotonic` in a loop.
"""

import sys
import time

END = time.monotonic() + float(sys.argv[1])
SOURCE = "until = time.monotonic() + 0.01\nwhile time.monotonic() < until: sum(range(99))\n"


def named(file, function="<module>"):
    code = compile(SOURCE, "replaced", "exec")
    if hasattr(code, "replace"):
        names = {"co_filename": file, "co_name": function}
        if hasattr(code, "co_qualname"):
            names["co_qualname"] = function
        return code.replace(**names)
    return compile(SOURCE, file, "exec")


CODES = [named(""), named("/srv/\ud800.py"), named("/srv/" + "long" * 1200 + ".py"), named("", "x" * 5000)]


class Made:
    """Python 3.12 and later put a frame of their own, without a file, below a call of `__init__`."""

    def __init__(self):
        self.work()

    def work(self):
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            sum(range(99))


def caller(code):
    exec(code)


print("ready", flush=True)
while time.monotonic() < END:
    for code in CODES:
        caller(code)
    Made()
