"""Tornado: handlers that are plain methods, coroutines of generators, and native coroutines."""

import asyncio
import sys

from tornado import gen, web
from work import WAIT_SECONDS, burn


class HomeHandler(web.RequestHandler):
    def prepare(self):
        burn()

    def get(self):
        burn()
        self.write("ok\n")


class CartHandler(web.RequestHandler):
    @gen.coroutine
    def get(self):
        burn()
        yield gen.sleep(WAIT_SECONDS)
        burn()
        self.write("ok\n")


class OrdersHandler(web.RequestHandler):
    @web.addslash
    async def get(self):
        await self.reserve_stock()
        self.write("ok\n")

    async def reserve_stock(self):
        await asyncio.sleep(WAIT_SECONDS)
        burn()


async def main(port):
    handlers = [("/", HomeHandler), ("/cart", CartHandler), ("/orders/", OrdersHandler)]
    web.Application(handlers, log_function=lambda handler: None).listen(port, "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main(int(sys.argv[1])))
