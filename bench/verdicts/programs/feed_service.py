"""The aiohttp program of the corpus as a separate service, for external load.

    python feed_service.py PORT_FILE SECONDS

It exits after that number of seconds.
"""

import asyncio
import random
import sys
from collections import deque
from pathlib import Path

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[2] / "corpus" / "programs"))

import feed


def tell(port_file: Path, port: int) -> None:
    port_file.write_text(f"{port}\n")


async def serve(port_file: Path, seconds: float) -> None:
    app = web.Application(middlewares=[feed.timed, feed.known])
    app[feed.LATEST] = deque((feed.made_up(random.Random(n), n) for n in range(300)), maxlen=300)
    app.cleanup_ctx.append(feed.session)
    app.add_routes(
        [
            web.get("/items.{kind}", feed.listed),
            web.post("/items", feed.added),
            web.get("/words", feed.counted),
            web.get("/stream", feed.streamed),
            web.get("/many", feed.fanned),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    tell(port_file, runner.addresses[0][1])
    try:
        await asyncio.sleep(seconds)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
