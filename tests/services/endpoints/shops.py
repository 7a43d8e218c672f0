"""The services: how each is started, which paths are asked for, and the handlers that its stacks may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

APPS = Path(__file__).parent / "apps"
WORK = Path(__file__).parents[1] / "apps"
RECORDINGS = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True)
class Shop:
    """One service.

    `argv` is started with {bin}, {python} and {port} filled in; `paths` are asked for, or the service gives
    work to itself. `endpoints` maps what must be found, the frames of handlers with qualified names, to the
    frameworks that may call them. `helpers` are functions that a middleware calls: they are found instead of
    a handler, which the rules cannot tell. `redis`: the port is that of a Redis, and not the service's own.
    """

    name: str
    argv: Sequence[str]
    endpoints: Mapping[str, str]
    paths: Sequence[str] = ()
    helpers: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    redis: bool = False


def _handlers(framework: str, file: str, *functions: str) -> dict[str, str]:
    return {f"{function} ({file}.py)": framework for function in functions}


def _script(app: str, *words: str) -> list[str]:
    return ["{python}", str(APPS / f"{app}.py"), "{port}", *words]


def _gunicorn(app: str, *options: str) -> list[str]:
    return [
        "{python}",
        "-m",
        "gunicorn",
        "--bind",
        "127.0.0.1:{port}",
        "--workers",
        "2",
        *options,
        f"{app}:app",
    ]


def _uvicorn(app: str, *options: str) -> list[str]:
    return ["{python}", "-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning",
            *options, f"{app}:app"]  # fmt: skip


_DJANGO = {
    **_handlers("django", "shop_django", "show_home", "checkout", "CartView.get", "show_prices"),
    **_handlers("django/asgiref", "shop_django", "search"),
    **_handlers("django", "shop_django", "OrderViewSet.list", "OrderViewSet.retrieve"),
    "ListAPIView.get (rest_framework/generics.py)": "django",
}
_DJANGO_PATHS = ("/", "/checkout", "/cart", "/search", "/prices", "/orders", "/orders/3", "/items")
_FASTAPI = {
    **_handlers("fastapi", "shop_fastapi", "show_home", "checkout", "list_orders"),
    # Older versions leave no frame of FastAPI in the stacks of the thread pool.
    **_handlers("fastapi/starlette", "shop_fastapi", "show_cart", "show_order"),
}
_FASTAPI_PATHS = ("/", "/cart", "/checkout", "/orders", "/orders/3")
_FLASK = {
    **_handlers("flask", "shop_flask", "show_admin", "create_app.<locals>.show_home", "Orders.get"),
    **_handlers("flask", "shop_flask", "create_app.<locals>.checkout"),
    **_handlers("flask/asgiref", "shop_flask", "create_app.<locals>.search"),
}
_FLASK_PATHS = ("/", "/admin", "/checkout", "/search", "/orders")
_BOTTLE = _handlers("bottle", "shop_bottle", "show_home", "show_cart")

SHOPS: Mapping[str, Shop] = {
    shop.name: shop
    for shop in (
        Shop("django-gunicorn", _gunicorn("shop_django"), _DJANGO, _DJANGO_PATHS),
        Shop("django-uvicorn", _uvicorn("shop_django"), _DJANGO, _DJANGO_PATHS, env={"GATEWAY": "asgi"}),
        Shop("fastapi-asyncio", _uvicorn("shop_fastapi", "--loop", "asyncio"), _FASTAPI, _FASTAPI_PATHS),
        Shop("fastapi-uvloop", _uvicorn("shop_fastapi", "--loop", "uvloop"), _FASTAPI, _FASTAPI_PATHS),
        Shop("starlette", _uvicorn("shop_starlette"),
             _handlers("starlette", "shop_starlette", "show_home", "show_cart", "Orders.get"),
             ("/", "/shop/cart", "/shop/orders", "/shop/home")),
        Shop("flask-gthread", _gunicorn("shop_flask", "--threads", "2"), _FLASK, _FLASK_PATHS),
        Shop("flask-gevent", _gunicorn("shop_flask", "--worker-class", "gevent"),
             {name: framework for name, framework in _FLASK.items() if "search" not in name},
             tuple(path for path in _FLASK_PATHS if path != "/search")),
        Shop("aiohttp", _script("shop_aiohttp"),
             _handlers("aiohttp", "shop_aiohttp", "show_home", "Carts.show_cart", "Orders.get"),
             ("/", "/cart", "/orders"), helpers=("burn (work.py)",)),
        Shop("tornado", _script("shop_tornado"),
             _handlers("tornado", "shop_tornado", "HomeHandler.get", "CartHandler.get", "OrdersHandler.get"),
             ("/", "/cart", "/orders/")),
        Shop("sanic", _script("shop_sanic"),
             _handlers("sanic", "shop_sanic", "show_home", "show_cart", "Orders.get"),
             ("/", "/cart", "/orders")),
        Shop("falcon", _gunicorn("shop_falcon"),
             _handlers("falcon", "shop_falcon", "Home.on_get", "Orders.on_get_list"), ("/", "/orders")),
        Shop("bottle-gevent", _gunicorn("shop_bottle", "--worker-class", "gevent"), _BOTTLE, ("/", "/cart")),
        Shop("grpc", _script("shop_grpc", "sync"),
             _handlers("grpc", "shop_grpc", "Shop.GetPrice", "Shop.ListItems")),
        Shop("grpc-aio", _script("shop_grpc", "aio"),
             _handlers("grpc", "shop_grpc", "AsyncShop.GetPrice", "AsyncShop.ListItems")),
        Shop("celery", ["{python}", "-m", "celery", "--app", "shop_celery", "worker", "--concurrency", "2",
                        "--without-gossip", "--without-mingle", "--without-heartbeat"],
             _handlers("celery", "shop_celery", "send_receipt", "index_items", "sync_stock")),
        Shop("rq", _script("shop_rq"), _handlers("rq", "shop_rq", "send_receipt", "Stock.sync"), redis=True),
    )
}  # fmt: skip
