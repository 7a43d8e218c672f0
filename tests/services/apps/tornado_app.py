"""Tornado: `tornado_app.py PORT coroutine|async [uvloop]`, handlers in the old style or the new."""

import asyncio
import sys

from tornado import gen, web
from work import WAIT_SECONDS, burn


class CoroutineHandler(web.RequestHandler):
    @gen.coroutine
    def get(self):
        yield self.call_backend()
        burn()
        self.write("ok\n")

    @gen.coroutine
    def call_backend(self):
        yield gen.sleep(WAIT_SECONDS)


class AsyncHandler(web.RequestHandler):
    async def get(self):
        await self.call_backend()
        burn()
        self.write("ok\n")

    async def call_backend(self):
        await asyncio.sleep(WAIT_SECONDS)


async def main(port: int, style: str) -> None:
    handler = {"coroutine": CoroutineHandler, "async": AsyncHandler}[style]
    web.Application([("/", handler)], log_function=lambda handler: None).listen(port, "127.0.0.1")
    await asyncio.Event().wait()


def new_loop() -> asyncio.AbstractEventLoop:
    if "uvloop" in sys.argv[3:]:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


if __name__ == "__main__":
    loop = new_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(main(int(sys.argv[1]), sys.argv[2]))
