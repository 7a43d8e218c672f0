"""Coroutines that await only given others: `g<n>` awaits `g<2n % 64>` or `g<(2n + 1) % 64>`, ten deep.

Any other pair of neighbours in a stack never existed. Ends after argv[1] seconds.
"""

import asyncio
import sys
import time

WIDTH, DEPTH = 64, 10
TEMPLATE = """
async def g{n}(depth, bits):
    if depth == 1:
        await asyncio.sleep(0)
        return sum(range(10))
    return await (g{right} if bits & 1 else g{left})(depth - 1, bits >> 1)
"""
SOURCE = "".join(TEMPLATE.format(n=n, left=2 * n % WIDTH, right=(2 * n + 1) % WIDTH) for n in range(WIDTH))
SCOPE = {"asyncio": asyncio}
exec(compile(SOURCE, "coroutines.py", "exec"), SCOPE)


async def serve(number: int, end: float) -> None:
    starts = [SCOPE[f"g{n}"] for n in range(WIDTH)]
    turn = number
    while time.monotonic() < end:
        turn += 1
        assert await starts[turn % WIDTH](DEPTH, turn * 40503 & 0x3FF) == 45


async def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    print("ready", flush=True)
    await asyncio.gather(*(serve(number, end) for number in range(4)))


asyncio.run(main())
