"""The services of the matrix: how each is started, and what must be seen of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

APPS = Path(__file__).parent / "apps"
COMPILED = Path(__file__).parent / "compiled"
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Service:
    """One service.

    `requirements` names a file in requirements/ (none: the standard library is enough); `argv` is started
    with {bin}, {python} and {port} filled in; `roles` is how many processes of each role there must be;
    `leaf` is the function that computes, as far as Python frames tell; `packages` are those whose
    versions the page gives. A service without `http` gives work to itself; one that is `recycled` has its
    workers replaced all the time. `native` is how a frame below the leaf begins in a native capture.
    `only` is the one minor version it runs on, where not 3.8 and later.
    """

    name: str
    requirements: str
    argv: tuple[str, ...]
    roles: dict[str, int]
    packages: tuple[str, ...]
    leaf: str = "burn"
    env: dict[str, str] = field(default_factory=dict)
    http: bool = True
    recycled: bool = False
    native: str = ""
    only: str = ""

    def runs_on(self, python: str) -> bool:
        """Whether it is for this version, as "3.11.7"."""
        major, minor = python.split(".")[:2]
        return f"{major}.{minor}" == self.only if self.only else (int(major), int(minor)) >= (3, 8)


SINGLE = {"main": 1}
PREFORK = {"master": 1, "worker": WORKERS}


def _python(name: str, requirements: str, *argv: str, packages: tuple[str, ...]) -> Service:
    return Service(name, requirements, ("{python}", *argv), SINGLE, packages)


def _gunicorn(framework: str, kind: str, *options: str, recycled: bool = False) -> Service:
    argv = ("{python}", "-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(WORKERS),
            "--worker-class", kind.partition(" ")[0], *options, f"{framework}_app:app")  # fmt: skip
    gevent = ("gevent",) if kind == "gevent" else ()
    name = f"{framework}, gunicorn {kind}"
    return Service(name, "wsgi", argv, PREFORK, (framework, "gunicorn", *gevent), recycled=recycled)


def _uwsgi(framework: str, *options: str) -> Service:
    argv = ("{bin}/uwsgi", "--http-socket", "127.0.0.1:{port}", "--master", "--processes", str(WORKERS),
            "--virtualenv", "{bin}/..", "--wsgi", f"{framework}_app:app", "--need-app", "--disable-logging",
            "--die-on-term", *options)  # fmt: skip
    name = f"{framework}, uWSGI{' lazy-apps' if options else ''}"
    # It loads libpython, and does not know where pyenv keeps it.
    return Service(name, "uwsgi", argv, PREFORK, (framework, "uwsgi"), env={"LD_LIBRARY_PATH": "{lib}"})


def _aio() -> list[Service]:
    services = []
    for loop in ((), ("uvloop",)):
        on = f", {loop[0]}" if loop else ""
        services += [
            _python(f"aiohttp{on}", "aio", "aiohttp_app.py", "{port}", *loop, packages=("aiohttp", *loop)),
            _python(f"Tornado gen.coroutine{on}", "aio", "tornado_app.py", "{port}", "coroutine", *loop,
                    packages=("tornado", *loop)),
            _python(f"Tornado async{on}", "aio", "tornado_app.py", "{port}", "async", *loop,
                    packages=("tornado", *loop)),
        ]  # fmt: skip
    return services


def _wsgi() -> list[Service]:
    services = []
    for framework in ("flask", "falcon", "bottle"):
        services += [
            _gunicorn(framework, "sync"),
            _gunicorn(framework, "gthread", "--threads", "2"),
            _gunicorn(framework, "gevent"),
            _uwsgi(framework),
            _uwsgi(framework, "--lazy-apps"),
        ]
    return [*services, _gunicorn("flask", "sync --max-requests", "--max-requests", "40", recycled=True)]


_MEINHELD = Service(
    "flask, gunicorn meinheld", "meinheld",
    ("{python}", "-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", str(WORKERS),
     "--worker-class", "meinheld.gmeinheld.MeinheldWorker", "flask_app:app"),
    PREFORK, ("flask", "gunicorn", "meinheld"),
)  # fmt: skip
_UVICORN = Service(
    "Starlette, uvicorn", "asgi",
    ("{python}", "-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--workers", str(WORKERS),
     "--log-level", "warning", "starlette_app:app"),
    PREFORK, ("starlette", "uvicorn"),
)  # fmt: skip
_HYPERCORN = Service(
    "Starlette, hypercorn", "asgi",
    ("{python}", "-m", "hypercorn", "--bind", "127.0.0.1:{port}", "--workers", str(WORKERS),
     "starlette_app:app"),
    PREFORK, ("starlette", "hypercorn"),
)  # fmt: skip
_DAPHNE = Service(
    "Django, Daphne", "django",
    ("{python}", "-m", "daphne", "-b", "127.0.0.1", "-p", "{port}", "-v", "0", "django_app:application"),
    SINGLE, ("django", "daphne"),
)  # fmt: skip
_SANIC = Service(
    "Sanic", "sanic",
    ("{python}", "-m", "sanic", "--host", "127.0.0.1", "--port", "{port}", "--workers", str(WORKERS),
     "--no-access-logs", "--no-motd", "sanic_app:app"),
    # A multiprocessing.Manager keeps its state, in a process that is a worker by all that can be seen.
    {"master": 1, "worker": WORKERS + 1}, ("sanic",),
)  # fmt: skip
_CELERY = Service(
    "Celery prefork", "celery",
    ("{python}", "-m", "celery", "--app", "celery_app", "worker", "--pool", "prefork", "--concurrency",
     str(WORKERS), "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning"),
    PREFORK, ("celery", "billiard", "kombu"),
    env={"REQUESTS_PER_SECOND": "{rate}"},
    http=False,
)  # fmt: skip
_TWISTED = Service("Twisted", "twisted", ("{python}", "twisted_app.py", "{port}"), SINGLE, ("twisted",))
# Neither was changed since 2018.
_JAPRONTO = Service(
    "Japronto", "japronto", ("{python}", "japronto_app.py", "{port}", str(WORKERS)), PREFORK,
    ("japronto", "uvloop"), only="3.6",
)  # fmt: skip
_VIBORA = Service(
    "Vibora", "vibora", ("{python}", "vibora_app.py", "{port}", str(WORKERS)), PREFORK,
    ("vibora", "uvloop"), only="3.6",
)  # fmt: skip
_PREFORK = Service("a loop around os.fork", "", ("{python}", "prefork_app.py", "{port}"), PREFORK, ())
_COMPILED = [
    Service(f"a module in {what}", "compiled", ("{python}", "compiled_app.py", "{port}", module), SINGLE,
            packages, leaf="call_compiled", native=native)
    for what, module, packages, native in (
        ("Cython", "hot_cython", ("cython",), "burn (hot_cython.pyx:"),
        ("Cython, nogil", "hot_nogil", ("cython",), "burn (hot_nogil.pyx:"),
        ("C", "hot_c", (), "burn (hot_c."),
    )
]  # fmt: skip

SERVICES: dict[str, Service] = {
    service.name: service
    for service in [
        *_aio(), *_wsgi(), _MEINHELD, _UVICORN, _HYPERCORN, _DAPHNE, _SANIC, _TWISTED, _JAPRONTO,
        _VIBORA, _CELERY, _PREFORK, *_COMPILED,
    ]
}  # fmt: skip

# What the development dependencies of this project carry: a short form of the matrix.
SHORT: dict[str, Service] = {
    name: SERVICES[name]
    for name in (
        "aiohttp", "aiohttp, uvloop", "Tornado gen.coroutine", "Tornado async", "bottle, gunicorn sync",
        "bottle, gunicorn gevent", "a loop around os.fork",
    )
}  # fmt: skip
SHORT["ASGI, uvicorn"] = Service(
    "ASGI, uvicorn", "asgi", (*_UVICORN.argv[:-1], "asgi_app:app"), PREFORK, ("uvicorn",)
)
