"""FastAPI: async endpoints, endpoints and dependencies in the thread pool, a middleware and a router."""

import asyncio
from functools import wraps

from fastapi import APIRouter, Depends, FastAPI, WebSocket
from starlette.middleware.base import BaseHTTPMiddleware
from work import WAIT_SECONDS, burn

app = FastAPI()
router = APIRouter(prefix="/orders")


class AuditMiddleware(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        burn()
        return await call_next(request)


app.add_middleware(AuditMiddleware)


def audited(endpoint):
    @wraps(endpoint)
    async def wrapper(*args, **kwargs):
        return await endpoint(*args, **kwargs)

    return wrapper


async def read_user():
    burn()
    return "ann"


@app.get("/")
async def show_home():
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return "ok"


@app.get("/cart")
def show_cart():
    burn()
    return "ok"


@app.get("/checkout")
@audited
async def checkout(user: str = Depends(read_user)):
    await reserve_stock()
    return "ok"


async def reserve_stock():
    await asyncio.sleep(0)
    burn()


@router.get("/{number}")
def show_order(number: int):
    burn()
    return number


@router.get("")
async def list_orders():
    burn()
    return list(range(2000))


@app.websocket("/feed")
async def feed(socket: WebSocket):
    await socket.accept()
    await socket.close()


app.include_router(router)
