"""Programs of argv[2:], each in an interpreter with a GIL of its own, for argv[1] seconds."""

import sys
import threading
import time
from pathlib import Path

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

SECONDS = sys.argv[1]


def isolated():
    try:
        return interpreters.create("isolated")
    except TypeError:
        return interpreters.create(isolated=True)


def run(interpreter, program):
    path = Path(__file__).with_name(program)
    source = path.read_text().replace('print("ready", flush=True)', "")
    scope = {"__name__": "program"}
    compiled = f"compile({source!r}, {program!r}, 'exec')"
    interpreters.run_string(
        interpreter, f"import sys\nsys.argv = ['', {SECONDS!r}]\nexec({compiled}, {scope})"
    )


def main() -> None:
    for program in sys.argv[2:]:
        threading.Thread(target=run, args=(isolated(), program), daemon=True).start()
    print("ready", flush=True)
    time.sleep(float(SECONDS))


main()
