"""Request counts from Prometheus, for comparisons per request.

The operator configures the query. The placeholders `{service}`, `{version}` and `{namespace}` stand for the
labels of the side's windows, and `{step}` for the length of a block of time. The collector sends it as a
range query with a step at the end of each block
(https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries). It must return the requests of
the block: `sum(increase(http_requests_total{app="{service}"}[{step}]))`. With `sum by (pod)`, requests
count for the pod that served them; otherwise they are distributed over the pods in proportion to their
profiled time.
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
"""The largest share of profiled blocks that may lack a count, which is then estimated."""

_PLACEHOLDER: Final = re.compile("{(service|version|namespace|step)}")
_MILLISECOND_NS: Final = 1_000_000

log = structlog.get_logger(__name__)


class RequestCountFailure(StrEnum):
    """Reasons for missing request counts; the last two are faults of the query."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    INVALID_RESPONSE = "invalid"
    NO_DATA = "empty"
    AMBIGUOUS = "ambiguous"


class RequestCountUnavailable(Exception):
    """Prometheus returned no usable request counts; the text tells users why."""

    def __init__(self, cause: RequestCountFailure, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class PrometheusClient:
    """A client that counts requests with one configured query.

    `token` is a bearer token, if the server requires one. `on_failure` is called with the reason of each
    failure.
    """

    url: str
    query: str
    timeout_seconds: float = 5.0
    token: str | None = field(default=None, repr=False)
    on_failure: Callable[[RequestCountFailure], None] = field(
        default=lambda _: None, repr=False, compare=False
    )

    def count_requests(self, name: str, time_blocks: TimeBlocks, timeout_seconds: float) -> F64:
        """Return the requests in each cell of the side `name`, (P, T), within the timeout.

        Raises RequestCountUnavailable.
        """
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
        except RequestCountUnavailable as error:
            self.on_failure(error.cause)
            text = str(error)
            log.warning("prometheus returned no request counts", cause=error.cause, error=text, query=query)
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
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
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
    """Follows no redirect, because the token is for the configured server alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _make_substitution(name: str, time_blocks: TimeBlocks, step_ns: int) -> Any:
    """Return the replacement of placeholders, escaped for quoted strings of PromQL."""
    table = time_blocks.process_windows

    def substitute(match: re.Match[str]) -> str:
        if match[1] == "step":
            return f"{max(step_ns // _MILLISECOND_NS, 1)}ms"
        values = list_unique_strings(table[match[1]])
        if len(values) != 1:
            text = f"{name} has {len(values)} values of {match[1]}, and the query takes one"
            raise RequestCountUnavailable(RequestCountFailure.AMBIGUOUS, text)
        return json.dumps(values[0], ensure_ascii=False)[1:-1]

    return substitute


def _parse_counts(answer: Any, first: float, time_blocks: TimeBlocks) -> F64:
    """Sum the series of a response by block of time.

    Returns (P, T) if the series have the label `pod`, and (1, T) otherwise; NaN where no series has a
    value.
    """
    row = {pod: at for at, pods in enumerate(time_blocks.pods) for pod in pods}
    try:
        if answer["data"]["resultType"] != "matrix":
            kind = answer["data"]["resultType"]
            raise RequestCountUnavailable(
                RequestCountFailure.INVALID_RESPONSE, f"the query gives a {kind}, no series"
            )
        all_series = answer["data"]["result"]
        pods = [series.get("metric", {}).get("pod") for series in all_series]
        by_pod = None not in pods and any(pod in row for pod in pods)
        counts = np.full(
            (len(time_blocks.alive_seconds) if by_pod else 1, time_blocks.alive_seconds.shape[1]), np.nan
        )
        for series, pod in zip(all_series, pods, strict=True):
            if by_pod and pod not in row:
                continue  # a pod that is not profiled
            row_counts = counts[row[pod] if by_pod else 0]
            for timestamp, text in series["values"]:
                at, value = round((float(timestamp) - first) / time_blocks.block_seconds), float(text)
                if 0 <= at < len(row_counts) and np.isfinite(value) and value >= 0:
                    row_counts[at] = value if np.isnan(row_counts[at]) else row_counts[at] + value
    except (KeyError, TypeError, ValueError) as error:
        raise RequestCountUnavailable(
            RequestCountFailure.INVALID_RESPONSE, "what answers is no Prometheus"
        ) from error
    return counts


def _fill_missing(name: str, counts: F64, alive_seconds: F64) -> F64:
    """Estimate missing counts, (P, T), from the mean rate of the blocks with a count.

    Raises RequestCountUnavailable if too many are missing, or if all counts are 0.
    """
    has_count = np.isfinite(counts)
    profiled = alive_seconds > 0
    missing = int((profiled & ~has_count).sum())
    if not (profiled & has_count).any():
        raise RequestCountUnavailable(RequestCountFailure.NO_DATA, f"the query returns no requests of {name}")
    if missing > MAX_MISSING_SHARE * int(profiled.sum()):
        text = f"the query returns nothing for {missing} of the {int(profiled.sum())} blocks of {name}"
        raise RequestCountUnavailable(RequestCountFailure.NO_DATA, text)
    both = profiled & has_count
    if not counts[both].sum():
        raise RequestCountUnavailable(RequestCountFailure.NO_DATA, f"{name} served no request, by the query")
    mean_rate = counts[both].sum() / alive_seconds[both].sum()
    return np.where(has_count, counts, alive_seconds * mean_rate)


def _read_error(error: HTTPError) -> str:
    """Return the error message of a response of Prometheus; empty if there is none."""
    try:
        message = json.loads(error.read(MAX_RESPONSE_BYTES))["error"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""
    return f": {str(message)[:200]}"
