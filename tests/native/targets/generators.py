"""Generators that call only given others: `g<n>` runs `g<2n % 64>` or `g<(2n + 1) % 64>`, ten deep.

Any other pair of neighbours in a stack never existed. Ends after argv[1] seconds.
"""

import sys
import time

WIDTH, DEPTH = 64, 10
TEMPLATE = """
def g{n}(depth, bits):
    if depth == 1:
        yield sum(range(10))
        return
    yield from (g{right} if bits & 1 else g{left})(depth - 1, bits >> 1)
"""
SOURCE = "".join(TEMPLATE.format(n=n, left=2 * n % WIDTH, right=(2 * n + 1) % WIDTH) for n in range(WIDTH))
SCOPE = {}
exec(compile(SOURCE, "generators.py", "exec"), SCOPE)


def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    starts = [SCOPE[f"g{n}"] for n in range(WIDTH)]
    print("ready", flush=True)
    turn = 0
    while time.monotonic() < end:
        turn += 1
        for value in starts[turn % WIDTH](DEPTH, turn * 40503 & 0x3FF):
            assert value == 45


main()
