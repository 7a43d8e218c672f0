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

from sidelight_collector.arrow_ops import F64, list_unique_strings
from sidelight_collector.query.request_counts import TimeBlocks
from sidelight_collector.times import SECOND_NS

MAX_RESPONSE_BYTES: Final = 8 << 20
MAX_MISSING_SHARE: Final = 0.25
"""Of the blocks that were watched so many may lack a number; these are taken to be like the others."""

_PLACEHOLDER: Final = re.compile("{(service|version|namespace|step)}")
_MILLISECOND_NS: Final = 1_000_000

log = structlog.get_logger(__name__)


class RequestCountFailure(StrEnum):
    """Why Prometheus did not tell requests; the last two are of the question, not of the server."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    INVALID_RESPONSE = "invalid"
    NO_DATA = "empty"
    AMBIGUOUS = "ambiguous"


class RequestCountUnavailable(Exception):
    """Prometheus does not tell how many requests there were; its text says why, for the reader."""

    def __init__(self, cause: RequestCountFailure, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class PrometheusClient:
    """A Prometheus, the query for requests, and a bearer token where it asks for one.

    `on_failure` is told each question that was not answered, and why.
    """

    url: str
    query: str
    timeout_seconds: float = 5.0
    token: str | None = field(default=None, repr=False)
    on_failure: Callable[[RequestCountFailure], None] = field(
        default=lambda _: None, repr=False, compare=False
    )

    def count_requests(self, name: str, time_blocks: TimeBlocks, timeout_seconds: float) -> F64:
        """Requests in each cell of a side, (P, T), within so many seconds. Raises RequestsUnknown."""
        step_ns = round(time_blocks.block_seconds * SECOND_NS)
        block_count = time_blocks.alive_seconds.shape[1]
        first = (time_blocks.start_ns + step_ns) / SECOND_NS
        query = self.query
        try:
            query = _PLACEHOLDER.sub(_make_substitution(name, time_blocks, step_ns), query)
            form = {
                "query": query,
                "start": f"{first:.3f}",
                "end": f"{first + (block_count - 1) * time_blocks.block_seconds:.3f}",
                "step": f"{time_blocks.block_seconds:.3f}",
            }
            answer = self._query_range(form, min(self.timeout_seconds, timeout_seconds))
            counts = _parse_counts(answer, first, time_blocks)
            if len(counts) == len(time_blocks.alive_seconds):
                return _fill_missing(name, counts, time_blocks.alive_seconds)
            alive = time_blocks.alive_seconds.sum(0)
            share = np.divide(
                time_blocks.alive_seconds,
                alive,
                out=np.zeros_like(time_blocks.alive_seconds),
                where=alive > 0,
            )
            distributed: F64 = share * _fill_missing(name, counts, alive[None])
            return distributed
        except RequestCountUnavailable as unknown:
            self.on_failure(unknown.cause)
            text = str(unknown)
            log.warning("prometheus did not tell requests", cause=unknown.cause, error=text, query=query)
            raise

    def _query_range(self, form: Mapping[str, str], timeout_seconds: float) -> Any:
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
            with build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as answer:
                return json.loads(answer.read(MAX_RESPONSE_BYTES))
        except HTTPError as error:
            raise RequestCountUnavailable(
                RequestCountFailure.REFUSED, f"Prometheus answers {error.code}{_read_error(error)}"
            ) from error
        except TimeoutError as error:
            late = f"Prometheus did not answer within {timeout_seconds:g} s"
            raise RequestCountUnavailable(RequestCountFailure.TIMEOUT, late) from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                late = f"Prometheus did not answer within {timeout_seconds:g} s"
                raise RequestCountUnavailable(RequestCountFailure.TIMEOUT, late) from error
            away = f"Prometheus does not answer: {error.reason}"
            raise RequestCountUnavailable(RequestCountFailure.UNREACHABLE, away) from error
        except (OSError, HTTPException, ValueError) as error:
            raise RequestCountUnavailable(
                RequestCountFailure.INVALID_RESPONSE, "what answers is no Prometheus"
            ) from error


class _NoRedirects(HTTPRedirectHandler):
    """The token is for the server that was named, and for no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _make_substitution(name: str, time_blocks: TimeBlocks, step_ns: int) -> Any:
    """What stands in the place of each name, as PromQL's quoted text has it."""
    table = time_blocks.process_windows

    def value(found: re.Match[str]) -> str:
        if found[1] == "step":
            return f"{max(step_ns // _MILLISECOND_NS, 1)}ms"
        values = list_unique_strings(table[found[1]])
        if len(values) != 1:
            text = f"{name} has {len(values)} values of {found[1]}, and the query takes one"
            raise RequestCountUnavailable(RequestCountFailure.AMBIGUOUS, text)
        return json.dumps(values[0], ensure_ascii=False)[1:-1]

    return value


def _parse_counts(answer: Any, first: float, time_blocks: TimeBlocks) -> F64:
    """The sums of all series at the end of each block, of each row where series name pods, (P, T), else of
    all together, (1, T); NaN where none tells."""
    row = {pod: at for at, pods in enumerate(time_blocks.pods) for pod in pods}
    try:
        if answer["data"]["resultType"] != "matrix":
            kind = answer["data"]["resultType"]
            raise RequestCountUnavailable(
                RequestCountFailure.INVALID_RESPONSE, f"the query gives a {kind}, no series"
            )
        told = answer["data"]["result"]
        pods = [series.get("metric", {}).get("pod") for series in told]
        by_pod = None not in pods and any(pod in row for pod in pods)
        found = np.full(
            (len(time_blocks.alive_seconds) if by_pod else 1, time_blocks.alive_seconds.shape[1]), np.nan
        )
        for series, pod in zip(told, pods, strict=True):
            if by_pod and pod not in row:
                continue  # nobody watches it
            own = found[row[pod] if by_pod else 0]
            for moment, text in series["values"]:
                at, value = round((float(moment) - first) / time_blocks.block_seconds), float(text)
                if 0 <= at < len(own) and np.isfinite(value) and value >= 0:
                    own[at] = value if np.isnan(own[at]) else own[at] + value
    except (KeyError, TypeError, ValueError) as error:
        raise RequestCountUnavailable(
            RequestCountFailure.INVALID_RESPONSE, "what answers is no Prometheus"
        ) from error
    return found


def _fill_missing(name: str, counts: F64, alive_seconds: F64) -> F64:
    """Requests of all blocks, (P, T); of those that nobody tells of as many as of the others in the same
    time."""
    known = np.isfinite(counts)
    watched = alive_seconds > 0
    missing = int((watched & ~known).sum())
    if not (watched & known).any():
        raise RequestCountUnavailable(
            RequestCountFailure.NO_DATA, f"the query tells of no requests of {name}"
        )
    if missing > MAX_MISSING_SHARE * int(watched.sum()):
        text = f"the query tells nothing of {missing} of the {int(watched.sum())} blocks of {name}"
        raise RequestCountUnavailable(RequestCountFailure.NO_DATA, text)
    both = watched & known
    if not counts[both].sum():
        raise RequestCountUnavailable(RequestCountFailure.NO_DATA, f"{name} served no request, by the query")
    mean_rate = counts[both].sum() / alive_seconds[both].sum()
    return np.where(known, counts, alive_seconds * mean_rate)


def _read_error(error: HTTPError) -> str:
    """What Prometheus says is wrong."""
    try:
        told = json.loads(error.read(MAX_RESPONSE_BYTES))["error"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return f": {str(told)[:200]}"
