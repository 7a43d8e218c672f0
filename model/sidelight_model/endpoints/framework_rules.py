"""The rules of each framework: which frames call a handler, and which lie between.

A place is written `function (file)`, and matches by the last part of the frame's function and by its file,
from the outermost package on. `a|b (file)` names several functions, `* (file)` any; a file that ends in `/`
means its folder.
The recordings in `tests/services/endpoints/recorded` show the frames of real services.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HTTP_METHODS: Final = "get|post|put|patch|delete|head|options|trace"


@dataclass(frozen=True, slots=True)
class FrameworkRule:
    """How handlers of a framework are called.

    callers: frames that call a handler. passes: frames between a caller and the handler, such as the
    framework's own decorators. handlers: frames of the framework itself that are handlers all the same.
    packages: the framework's packages, whose other frames end the search. method: a regular expression that
    the whole last part of a handler's name matches. excluded: names of functions that are no handlers.
    is_asgi: middlewares are callable objects, and a frame of the framework follows each of them.
    """

    framework: str
    callers: tuple[str, ...]
    passes: tuple[str, ...] = ()
    handlers: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    method: str = ""
    excluded: str = ""
    is_asgi: bool = False


_DJANGO_PASSES: Final = (
    "run_child|func (asgiref/sync.py)",
    "view|dispatch (django/views/generic/base.py)",
    "* (django/views/decorators/)",
    "* (django/utils/decorators.py)",
    "* (django/contrib/auth/decorators.py)",
    "wrapper|inner (django/contrib/admin/)",
    "view (rest_framework/viewsets.py)",
    "dispatch (rest_framework/views.py)",
    "handler (rest_framework/decorators.py)",
)
_DJANGO_HANDLERS: Final = (
    "* (django/contrib/)",
    "* (django/views/)",
    f"{HTTP_METHODS} (rest_framework/)",
    "list|create|retrieve|update|partial_update|destroy (rest_framework/mixins.py)",
)
_DJANGO_PACKAGES: Final = ("django", "rest_framework", "asgiref")
# asgiref runs a middleware's hooks in its threads as it runs views.
_DJANGO_HOOKS: Final = "process_(request|view|response|exception|template_response)"

FRAMEWORK_RULES: Final = (
    FrameworkRule(
        "django",
        callers=(
            "_get_response|_get_response_async (django/core/handlers/base.py)",
            "thread_handler (asgiref/sync.py)",
        ),
        passes=_DJANGO_PASSES,
        handlers=_DJANGO_HANDLERS,
        packages=_DJANGO_PACKAGES,
        excluded=_DJANGO_HOOKS,
    ),
    # Coroutines that blocking code calls, such as async views of Django and Flask below WSGI.
    FrameworkRule(
        "asgiref",
        callers=("main_wrap (asgiref/sync.py)",),
        passes=_DJANGO_PASSES,
        packages=_DJANGO_PACKAGES,
        excluded=_DJANGO_HOOKS,
    ),
    FrameworkRule(
        "fastapi",
        callers=(
            "app|run_endpoint_function (fastapi/routing.py)",
            "_run_sync_endpoint (fastapi/telemetry/_api.py)",
        ),
        passes=("* (starlette/_exception_handler.py)",),
        packages=("fastapi", "starlette", "anyio", "pydantic"),
        is_asgi=True,
    ),
    # Its thread pool calls a function with nothing of the framework above it.
    FrameworkRule(
        "starlette",
        callers=(
            "app (starlette/routing.py)",
            "dispatch (starlette/endpoints.py)",
            "run (anyio/_backends/_asyncio.py)",
        ),
        passes=(
            "handle|__call__ (starlette/routing.py)",
            "* (starlette/_exception_handler.py)",
        ),
        packages=("starlette", "fastapi", "anyio", "pydantic"),
        is_asgi=True,
    ),
    FrameworkRule(
        "flask",
        callers=("dispatch_request (flask/app.py)",),
        passes=(
            "view|dispatch_request (flask/views.py)",
            "wrapper|dispatch_request (flask_restful/)",
        ),
        packages=("flask", "werkzeug", "asgiref"),
    ),
    FrameworkRule(
        "aiohttp",
        callers=("_handle (aiohttp/web_app.py)",),
        passes=(
            "_iter|__await__ (aiohttp/web_urldispatcher.py)",
            "impl (aiohttp/web_middlewares.py)",
        ),
        packages=("aiohttp",),
    ),
    # A coroutine of a generator goes on below the runner, without the frames above.
    FrameworkRule(
        "tornado",
        callers=("_execute (tornado/web.py)", "run (tornado/gen.py)"),
        passes=("wrapper (tornado/)",),
        packages=("tornado",),
        method=HTTP_METHODS,
    ),
    FrameworkRule(
        "sanic",
        # It compiles some of its functions anew, under file names of their own.
        callers=("handle_request (sanic/app.py)", "handle_request (handle_request)"),
        passes=("view|dispatch_request (sanic/views.py)",),
        packages=("sanic", "_run_request_middleware"),
    ),
    FrameworkRule(
        "falcon",
        callers=("__call__ (falcon/app.py)", "__call__ (falcon/asgi/app.py)"),
        passes=("* (falcon/hooks.py)",),
        packages=("falcon",),
        method=rf"on_({HTTP_METHODS}|websocket)(_\w+)?",
    ),
    FrameworkRule(
        "bottle",
        callers=("_handle|call (bottle.py)",),
        passes=("wrapper (bottle.py)",),
        packages=("bottle",),
    ),
    FrameworkRule(
        "grpc",
        callers=("_call_behavior|_take_response_from_response_iterator (grpc/_server.py)",),
        packages=("grpc",),
    ),
    # The coroutines of grpc.aio that call a method are compiled, and the method is the first frame of a task.
    FrameworkRule(
        "grpc",
        callers=("_run (asyncio/events.py)", "run (asyncio/runners.py)"),
        packages=("grpc",),
        method="[A-Z][A-Za-z0-9]*",
    ),
    FrameworkRule(
        "celery",
        callers=("trace_task|__protected_call__ (celery/app/trace.py)",),
        passes=("__call__ (celery/app/task.py)", "run (celery/app/autoretry.py)"),
        handlers=("* (celery/app/builtins.py)",),
        packages=("celery", "kombu", "billiard"),
    ),
    FrameworkRule(
        "rq",
        callers=("_execute (rq/job.py)",),
        packages=("rq",),
    ),
)
