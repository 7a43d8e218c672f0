"""Bottle, for any WSGI server."""

import bottle
from work import burn, wait_for_backend

app = bottle.Bottle()


@app.get("/")
def handle() -> str:
    wait_for_backend()
    burn()
    return "ok\n"
