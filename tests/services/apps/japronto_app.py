"""Japronto, a master and its workers: `japronto_app.py PORT WORKERS`."""

import asyncio
import sys

from japronto import Application
from work import WAIT_SECONDS, burn


async def handle(request):
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return request.Response(text="ok\n")


if __name__ == "__main__":
    app = Application()
    app.router.add_route("/", handle)
    app.run(host="127.0.0.1", port=int(sys.argv[1]), worker_num=int(sys.argv[2]))
