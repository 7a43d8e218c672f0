"""Sanic: a function, a plain function, a class with methods, behind a middleware."""

import asyncio
import sys

from sanic import Sanic
from sanic.response import text
from sanic.views import HTTPMethodView
from work import WAIT_SECONDS, burn

app = Sanic("shop")


@app.middleware("request")
async def audit(request):
    burn()


@app.get("/")
async def show_home(request):
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return text("ok\n")


@app.get("/cart")
def show_cart(request):
    burn()
    return text("ok\n")


class Orders(HTTPMethodView):
    async def get(self, request):
        burn()
        return text("ok\n")


app.add_route(Orders.as_view(), "/orders")

if __name__ == "__main__":
    app.run("127.0.0.1", int(sys.argv[1]), single_process=True, access_log=False, motd=False)
