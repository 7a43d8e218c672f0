"""Requests that a side served in each of its blocks, from Prometheus: time can be told per request then.

The query is the operator's, with `{service}`, `{version}` and `{namespace}` in the place of what the side's
windows say, and `{step}` for the length of a block. It is asked as a range query at the end of each block
(https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries), and has to tell how many requests
came in the block: `sum(increase(http_requests_total{app="{service}"}[{step}]))`. With `sum by (pod)` it tells
which pod served them; else they count as if they had come to all pods alike.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
import structlog

from sidelight_collector.arrow_ops import F64, used
from sidelight_collector.query.request_counts import Blocks
from sidelight_collector.times import SECOND_NS

MOST_BYTES: Final = 8 << 20
MOST_MISSING: Final = 0.25
"""Of the blocks that were watched so many may lack a number; these are taken to be like the others."""

_PLACE: Final = re.compile("{(service|version|namespace|step)}")
_MILLISECOND_NS: Final = 1_000_000

log = structlog.get_logger(__name__)


class Cause(StrEnum):
    """Why Prometheus did not tell requests; the last two are of the question, not of the server."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    WRONG = "invalid"
    EMPTY = "empty"
    AMBIGUOUS = "ambiguous"


class RequestsUnknown(Exception):
    """Prometheus does not tell how many requests there were; its text says why, for the reader."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus, the query for requests, and a bearer token where it asks for one.

    `failed` is told each question that was not answered, and why.
    """

    url: str
    query: str
    timeout_seconds: float = 5.0
    token: str | None = field(default=None, repr=False)
    failed: Callable[[Cause], None] = field(default=lambda _: None, repr=False, compare=False)

    def requests(self, name: str, of: Blocks, seconds: float) -> F64:
        """Requests in each cell of a side, (P, T), within so many seconds. Raises RequestsUnknown."""
        step_ns = round(of.seconds * SECOND_NS)
        blocks = of.alive.shape[1]
        first = (of.start_ns + step_ns) / SECOND_NS
        query = self.query
        try:
            query = _PLACE.sub(_values(name, of, step_ns), query)
            form = {
                "query": query,
                "start": f"{first:.3f}",
                "end": f"{first + (blocks - 1) * of.seconds:.3f}",
                "step": f"{of.seconds:.3f}",
            }
            answer = self._asked(form, min(self.timeout_seconds, seconds))
            counts = _counts(answer, first, of)
            if len(counts) == len(of.alive):
                return _filled(name, counts, of.alive)
            alive = of.alive.sum(0)
            share = np.divide(of.alive, alive, out=np.zeros_like(of.alive), where=alive > 0)
            dealt: F64 = share * _filled(name, counts, alive[None])
            return dealt
        except RequestsUnknown as unknown:
            self.failed(unknown.cause)
            text = str(unknown)
            log.warning("prometheus did not tell requests", cause=unknown.cause, error=text, query=query)
            raise

    def _asked(self, form: Mapping[str, str], seconds: float) -> Any:
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        path = f"{parts.path.rstrip('/')}/api/v1/query_range"
        request = Request(  # noqa: S310
            urlunsplit((parts.scheme, host, path, parts.query, "")), urlencode(form).encode()
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        elif parts.username is not None:
            known = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_header("Authorization", f"Basic {base64.b64encode(known.encode()).decode()}")
        try:
            with build_opener(_NoRedirects).open(request, timeout=seconds) as answer:
                return json.loads(answer.read(MOST_BYTES))
        except HTTPError as error:
            raise RequestsUnknown(Cause.REFUSED, f"Prometheus answers {error.code}{_told(error)}") from error
        except TimeoutError as error:
            late = f"Prometheus did not answer within {seconds:g} s"
            raise RequestsUnknown(Cause.TIMEOUT, late) from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                late = f"Prometheus did not answer within {seconds:g} s"
                raise RequestsUnknown(Cause.TIMEOUT, late) from error
            away = f"Prometheus does not answer: {error.reason}"
            raise RequestsUnknown(Cause.UNREACHABLE, away) from error
        except (OSError, HTTPException, ValueError) as error:
            raise RequestsUnknown(Cause.WRONG, "what answers is no Prometheus") from error


class _NoRedirects(HTTPRedirectHandler):
    """The token is for the server that was named, and for no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _values(name: str, of: Blocks, step_ns: int) -> Any:
    """What stands in the place of each name, as PromQL's quoted text has it."""
    table = of.watched

    def value(found: re.Match[str]) -> str:
        if found[1] == "step":
            return f"{max(step_ns // _MILLISECOND_NS, 1)}ms"
        values = used(table[found[1]])
        if len(values) != 1:
            text = f"{name} has {len(values)} values of {found[1]}, and the query takes one"
            raise RequestsUnknown(Cause.AMBIGUOUS, text)
        return json.dumps(values[0], ensure_ascii=False)[1:-1]

    return value


def _counts(answer: Any, first: float, of: Blocks) -> F64:
    """The sums of all series at the end of each block, of each row where series name pods, (P, T), else of
    all together, (1, T); NaN where none tells."""
    row = {pod: at for at, pods in enumerate(of.pods) for pod in pods}
    try:
        if answer["data"]["resultType"] != "matrix":
            kind = answer["data"]["resultType"]
            raise RequestsUnknown(Cause.WRONG, f"the query gives a {kind}, no series")
        told = answer["data"]["result"]
        pods = [series.get("metric", {}).get("pod") for series in told]
        by_pod = None not in pods and any(pod in row for pod in pods)
        found = np.full((len(of.alive) if by_pod else 1, of.alive.shape[1]), np.nan)
        for series, pod in zip(told, pods, strict=True):
            if by_pod and pod not in row:
                continue  # nobody watches it
            own = found[row[pod] if by_pod else 0]
            for moment, text in series["values"]:
                at, value = round((float(moment) - first) / of.seconds), float(text)
                if 0 <= at < len(own) and np.isfinite(value) and value >= 0:
                    own[at] = value if np.isnan(own[at]) else own[at] + value
    except (KeyError, TypeError, ValueError) as error:
        raise RequestsUnknown(Cause.WRONG, "what answers is no Prometheus") from error
    return found


def _filled(name: str, counts: F64, alive: F64) -> F64:
    """Requests of all blocks, (P, T); of those that nobody tells of as many as of the others in the same
    time."""
    known = np.isfinite(counts)
    watched = alive > 0
    missing = int((watched & ~known).sum())
    if not (watched & known).any():
        raise RequestsUnknown(Cause.EMPTY, f"the query tells of no requests of {name}")
    if missing > MOST_MISSING * int(watched.sum()):
        text = f"the query tells nothing of {missing} of the {int(watched.sum())} blocks of {name}"
        raise RequestsUnknown(Cause.EMPTY, text)
    both = watched & known
    if not counts[both].sum():
        raise RequestsUnknown(Cause.EMPTY, f"{name} served no request, by the query")
    usual = counts[both].sum() / alive[both].sum()
    return np.where(known, counts, alive * usual)


def _told(error: HTTPError) -> str:
    """What Prometheus says is wrong."""
    try:
        told = json.loads(error.read(MOST_BYTES))["error"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return f": {str(told)[:200]}"
