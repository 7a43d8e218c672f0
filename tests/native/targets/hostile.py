"""Code whose file and function names hold what folded text cannot. Ends after argv[1] seconds.

The source is compiled under file names with spaces, `;`, `%3B` and, if argv[2] is "newlines", line ends. Its
functions are renamed, as code generators do, to names with spaces, a leading `#`, and a state's name.
"""

import sys
import time

SOURCE = """
def outer(inner):
    inner()

def inner():
    until = time.monotonic() + 0.01
    while time.monotonic() < until:
        pass
"""
FILES = ["/srv/my app; v 2.py", "/srv/100%3B.py", "/srv/line end 3.py"]
if "newlines" in sys.argv:
    FILES[2] = "/srv/line\nend\r.py"
NAMES = ["<spaced name> 12", "#comment; x", "[idle]", "%3B"]
END = time.monotonic() + float(sys.argv[1])


def renamed(number: int) -> tuple[object, object]:
    scope = {"time": time}
    exec(compile(SOURCE, FILES[number % len(FILES)], "exec"), scope)
    functions = []
    for function in (scope["outer"], scope["inner"]):
        name = NAMES[number % len(NAMES)]
        function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
        functions.append(function)
    return functions[0], functions[1]


PAIRS = [renamed(number) for number in range(12)]
print("ready", flush=True)
while time.monotonic() < END:
    for outer, inner in PAIRS:
        outer(inner)
