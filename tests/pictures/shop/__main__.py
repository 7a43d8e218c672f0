"""Serves made-up requests at a constant rate until it is ended.

cd tests/pictures && python -m shop --release 2 [--rate 250]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools

from .checkout import Checkout


async def serve(checkout: Checkout, rate: float) -> None:
    """Start a request every 1/rate seconds, however long the others take."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with asyncio.TaskGroup() as requests:
        for number in itertools.count():
            await asyncio.sleep(begin + number / rate - loop.time())
            requests.create_task(checkout.handle(number))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shop")
    parser.add_argument("--release", type=int, choices=(1, 2), required=True)
    parser.add_argument("--rate", type=float, default=250.0, help="requests per second (%(default)s)")
    wish = parser.parse_args()
    asyncio.run(serve(Checkout(wish.release), wish.rate))


if __name__ == "__main__":
    main()
