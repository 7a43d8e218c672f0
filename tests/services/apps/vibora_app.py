"""Vibora, a master and its workers: `vibora_app.py PORT WORKERS`."""

import asyncio
import sys

from vibora import Response, Vibora
from work import WAIT_SECONDS, burn

app = Vibora()


@app.route("/")
async def handle():
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return Response(b"ok\n")


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(sys.argv[1]), workers=int(sys.argv[2]), debug=False)
