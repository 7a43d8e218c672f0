"""Serves the built web UI and speedscope.

Their content security policy prevents names and labels from running as code. The UI comes from the
installed package (`collector/sidelight_collector/ui`), or else from a source tree (`web/dist`). Its files
are listed once at start, so requests can only name built files, and a rebuilt UI appears after a restart.
Placeholders in the pages stand for the path prefix, the build, the disabled parts of the API and the URLs
of source code. They are replaced here, so that one build serves any `--path-prefix`.
"""

from __future__ import annotations

import hashlib
import html
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from sidelight import __version__
from sidelight_collector.auth.authorizer import NotFound

_PLACEHOLDER: Final = "/__sidelight_prefix__/"
_BUILD_PLACEHOLDER: Final = "__sidelight_build__"
_DISABLED_PLACEHOLDER: Final = "__sidelight_off__"
_SOURCES_PLACEHOLDER: Final = "__sidelight_sources__"
_HERE: Final = Path(__file__).resolve().parent
BUILD_DIRECTORIES: Final = (_HERE.parent / "ui", _HERE.parents[2] / "web" / "dist")

_SHARED_POLICY: Final = (
    "default-src 'none'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; object-src 'none'"
)
_TRUSTED_TYPES_POLICY: Final = "require-trusted-types-for 'script'; trusted-types 'none'"
POLICY: Final = f"{_SHARED_POLICY}; script-src 'self'; style-src 'self'; {_TRUSTED_TYPES_POLICY}"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_UNKNOWN_PATH: Final = "/{page:(?!(?:api|l)/|ingest$).+}"
"""Any other path. A browser gets the page that says so, other clients an error as JSON."""
_NO_EVAL: Final = "no-eval.js"
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
_MISSING_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sidelight</title></head>
<body><h1>The web UI is not built</h1>
<p>The collector runs and its API answers under <code>api/v1</code>, but there are no pages to show.</p>
<p>In a source tree run <code>make ui</code> and start the collector again.
A released wheel carries the UI.</p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class UiBuild:
    """A built UI: its pages as text, and every other file by name within its folder.

    `offline_html` is the page of HTML exports; None in a build without it.
    """

    index_html: str
    speedscope_html: str
    assets: Mapping[str, Path]
    speedscope_files: Mapping[str, Path]
    offline_html: str | None = None


def find_build(directories: tuple[Path, ...] = BUILD_DIRECTORIES) -> UiBuild | None:
    """Find the first complete build in `directories`, or None."""
    for place in directories:
        page, speedscope = place / "index.html", place / "speedscope" / "index.html"
        if page.is_file() and speedscope.is_file():
            assets, files = _list_files(place / "assets"), _list_files(place / "speedscope")
            offline = place / "offline.html"
            text = offline.read_text("utf-8") if offline.is_file() else None
            return UiBuild(page.read_text("utf-8"), speedscope.read_text("utf-8"), assets, files, text)
    return None


def build_name(build: UiBuild | None) -> str:
    """Build the name of a release and its UI: the version and a hash of the page.

    Pages and API responses carry this name. A page that gets a response with another name is outdated. The
    page refers to scripts and styles by names that contain a hash, so its text differs between builds.
    """
    if build is None:
        return __version__
    return f"{__version__}+{hashlib.sha256(build.index_html.encode()).hexdigest()[:8]}"


def routes(
    path_prefix: str = "", build: UiBuild | None = None, disabled: Sequence[str] = (), sources: str = ""
) -> list[web.RouteDef]:
    """Build the routes of the UI, whose paths lack `path_prefix`.

    `path_prefix` is empty or like `/profiles`. `disabled` names the disabled parts of the API, to which
    pages send no requests. `sources` is JSON that says where source code is, for links from frames.
    """
    if build is None:
        return [
            web.get(path, _serve_missing_page)
            for path in (*_page_paths(path_prefix), "/speedscope/{page:.*}")
        ]
    page = build.index_html.replace(_PLACEHOLDER, f"{path_prefix}/").replace(
        _BUILD_PLACEHOLDER, build_name(build)
    )
    page = page.replace(_DISABLED_PLACEHOLDER, " ".join(disabled))
    page = page.replace(_SOURCES_PLACEHOLDER, html.escape(sources))

    async def show(_: web.Request) -> web.Response:
        return _html_response(page, POLICY)

    async def show_unknown(request: web.Request) -> web.Response:
        if methods := await _list_other_methods(request):
            raise web.HTTPMethodNotAllowed(request.method, methods)
        if "text/html" not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound
        response = _html_response(page, POLICY)
        response.set_status(404)
        return response

    async def show_speedscope(_: web.Request) -> web.Response:
        nonce = secrets.token_urlsafe(16)
        return _html_response(_adapt_speedscope(build.speedscope_html, nonce), build_speedscope_policy(nonce))

    async def no_eval(_: web.Request) -> web.Response:
        return web.Response(
            text="globalThis.eval = undefined;\n", content_type="text/javascript", headers=_HEADERS
        )

    async def redirect(_: web.Request) -> web.Response:
        raise web.HTTPPermanentRedirect(f"{path_prefix}/speedscope/")

    return [
        *(web.get(path, show) for path in _page_paths(path_prefix)),
        web.get("/assets/{name}", _build_file_handler(build.assets)),
        web.get("/speedscope", redirect),
        web.get("/speedscope/", show_speedscope),
        web.get("/speedscope/index.html", show_speedscope),
        web.get(f"/speedscope/{_NO_EVAL}", no_eval),
        web.get("/speedscope/{name}", _build_file_handler(build.speedscope_files)),
        web.get(_UNKNOWN_PATH, show_unknown),
    ]


async def _list_other_methods(request: web.Request) -> set[str]:
    """List the methods that other routes have for the path of a GET request."""
    methods: set[str] = set()
    for resource in request.app.router.resources():
        _, allowed = await resource.resolve(request)
        methods |= allowed
    return methods - {"GET", "HEAD"}


def _page_paths(path_prefix: str) -> tuple[str, ...]:
    """Return the paths of the app, which interprets the rest of the URL itself.

    The bare prefix without a trailing slash is one of them.
    """
    pages = ("/", "/services", "/s/{page:.*}", "/captures", "/captures/{page}", "/files", "/settings")
    fleet = ("/fleet", "/fleet/{page}")
    return (*pages, *fleet, *([""] if path_prefix else []))


def build_speedscope_policy(nonce: str) -> str:
    """Build the content security policy of speedscope.

    Speedscope may also write styles into one element, and compile its WebAssembly reader.
    """
    scripts = "script-src 'self' 'wasm-unsafe-eval'"
    return f"{_SHARED_POLICY}; {scripts}; style-src 'self' 'nonce-{nonce}'; {_TRUSTED_TYPES_POLICY}"


def _adapt_speedscope(speedscope: str, nonce: str) -> str:
    """Adapt the page of speedscope to its content security policy.

    The added style element has a nonce; the CSS library aphrodite would create one without. The script
    removes `eval`: protobufjs inside speedscope tries `eval("require")` and works without it. The policy
    forbids `eval` anyway, but without the function the browser reports no violation.
    """
    added = f'<style data-aphrodite nonce="{nonce}"></style><script src="{_NO_EVAL}"></script>'
    return speedscope.replace("</head>", f"{added}</head>", 1)


def _html_response(text: str, policy: str) -> web.Response:
    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", **_HEADERS}
    return web.Response(text=text, content_type="text/html", headers=headers)


async def _serve_missing_page(_: web.Request) -> web.Response:
    response = _html_response(_MISSING_PAGE, POLICY)
    response.set_status(404)
    return response


def _build_file_handler(files: Mapping[str, Path]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Build a handler for files whose names change with their content.

    aiohttp serves a .br or .gz sibling of a file if the client accepts it.
    """

    async def serve(request: web.Request) -> web.StreamResponse:
        path = files.get(request.match_info["name"])
        if path is None:
            raise NotFound(
                f"there is no file {request.path}", hint="Load the page again: the UI was rebuilt."
            )
        kind = _CONTENT_TYPES.get(path.suffix, "application/octet-stream")
        return web.FileResponse(path, headers={"Cache-Control": _IMMUTABLE, "Content-Type": kind, **_HEADERS})

    return serve


def _list_files(folder: Path) -> dict[str, Path]:
    return {
        path.name: path for path in folder.iterdir() if path.is_file() and path.suffix not in (".br", ".gz")
    }
