"""Every parameter, path and body of the HTTP API, generated from its OpenAPI document by schemathesis.

Half of the cases follow the document and half break it. Where a path names a capture or a recording, half of
the cases name one that exists.
"""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from tests.fuzz.report import FAILURES, MAX_GROWTH_BYTES, Summary, save_failure

TARGET: Final = "api"
EXAMPLES_AT_ONCE: Final = 25
TIMEOUT_SECONDS: Final = 120.0
"""Longer than any answer takes on a machine that is crowded."""
ERROR_FIELDS: Final = {"error", "message", "hint"}
CONNECT_PATHS: Final = ("/push.v1.PusherService/", "/querier.v1.QuerierService/")
"""The paths whose errors have the `code` of the Connect protocol too, as their descriptions say."""
NOT_IMPLEMENTED: Final = 501
_WARM_UP_SHARE: Final = 10


class BadAnswer(Exception):
    """An answer with a status of 500 and above, or an error that is not as documented."""


@dataclass(frozen=True, slots=True)
class ApiUnderTest:
    """A collector, values for path parameters that exist there, and its resident memory.

    `url` ends without a slash. `ids` has for each part of a path (`captures`) values of its parameters.
    """

    url: str
    ids: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    measure: Callable[[], int] = lambda: 0


def read_document() -> dict[str, Any]:
    """The OpenAPI document."""
    text = files("sidelight_collector.http.api").joinpath("openapi.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def list_operations() -> list[Any]:
    """All operations of the document."""
    schema = schemathesis.openapi.from_dict(read_document())
    return [result.ok() for result in schema.get_all_operations()]


def fuzz_api(
    api: ApiUnderTest,
    seed: int,
    inputs: int,
    seconds: float,
    folder: Path = FAILURES,
    only: Iterable[str] = (),
    at_once: int = EXAMPLES_AT_ONCE,
) -> Summary:
    """Send cases of all operations in turn, until `inputs` are sent or `seconds` have passed.

    `only` has labels of operations (`GET /api/v1/top`); empty: all.
    """
    summary, began, round_number = Summary(TARGET, "schemathesis"), time.monotonic(), 0
    operations = [one for one in list_operations() if not only or one.label in set(only)]
    statuses, first_bytes = set[tuple[str, int]](), 0
    with requests.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while summary.inputs < inputs and time.monotonic() - began < seconds and not summary.failures:
            for operation in operations:
                if summary.inputs >= inputs:
                    break
                count = min(at_once, inputs - summary.inputs)
                _try_operation(api, session, operation, seed + round_number, count, summary, statuses, folder)
            round_number += 1
            if not first_bytes and time.monotonic() - began > seconds / _WARM_UP_SHARE:
                first_bytes = api.measure()
    summary.seconds, summary.new_outcomes = time.monotonic() - began, len(statuses)
    summary.growth_bytes = api.measure() - (first_bytes or api.measure())
    if summary.growth_bytes > MAX_GROWTH_BYTES:
        problem = f"the collector grew by {summary.growth_bytes:,} bytes over {summary.inputs:,} requests"
        summary.failures.append(save_failure(TARGET, b"", problem, folder))
    return summary


def _try_operation(
    api: ApiUnderTest,
    session: requests.Session,
    operation: Any,
    seed: int,
    count: int,
    summary: Summary,
    statuses: set[tuple[str, int]],
    folder: Path,
) -> None:
    """Send `count` cases of one operation."""
    random = Random(f"{seed} {operation.label}")
    cases = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    try:
        negative = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        negative.validate()
        cases = st.one_of(cases, negative)
    except Exception:  # noqa: BLE001
        pass  # an operation without anything to break

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @hypothesis.seed(seed)
    @given(cases)
    def send(case: Case) -> None:
        if random.random() < 0.5:
            for part, values in api.ids.items():
                if f"/{part}/" in operation.path:
                    case.path_parameters = {**(case.path_parameters or {}), **values}
        raw = describe(case, api.url)
        summary.inputs += 1
        try:
            statuses.add((operation.label, replay(api.url, raw, session)))
        except (BadAnswer, requests.RequestException) as error:
            problem = f"{operation.label}: {type(error).__name__}: {error}"
            text = json.dumps(raw, indent=1).encode()
            summary.failures.append(save_failure(TARGET, text, problem, folder))
            raise BadAnswer(problem) from error

    try:
        send()
    except BadAnswer:
        return
    except hypothesis.errors.HypothesisException:
        return  # a strategy that finds no case


def describe(case: Case, url: str) -> dict[str, Any]:
    """A request as JSON, which `replay` sends."""
    raw = requests.Request(**case.as_transport_kwargs(base_url=url)).prepare()
    body = raw.body or b""
    parts = urlsplit(str(raw.url))
    return {
        "method": raw.method,
        "path": parts.path + (f"?{parts.query}" if parts.query else ""),
        "headers": {str(name): str(value) for name, value in raw.headers.items()},
        "body": base64.b64encode(body.encode() if isinstance(body, str) else bytes(body)).decode(),
    }


def replay(url: str, raw: Mapping[str, Any], session: requests.Session) -> int:
    """Send a request and check its answer; return its status."""
    request = requests.Request(raw["method"], url, data=base64.b64decode(raw["body"])).prepare()
    request.url = url + raw["path"]
    request.headers.update(raw["headers"])
    request.headers.pop("Transfer-Encoding", None)
    try:
        answer = session.send(request, timeout=TIMEOUT_SECONDS, allow_redirects=False)
    except (requests.exceptions.InvalidHeader, UnicodeEncodeError):
        return 0  # a header that no client can send
    if answer.status_code >= 500 and answer.status_code != NOT_IMPLEMENTED:
        raise BadAnswer(f"status {answer.status_code}: {answer.text[:500]}")
    if answer.status_code >= 400 and raw["method"] != "HEAD":
        try:
            error = answer.json()
        except ValueError:
            error = answer.text[:200]
        # aiohttp itself answers what is no HTTP.
        is_ours = answer.headers.get("Content-Type", "").startswith("application/json")
        fields = ERROR_FIELDS | ({"code"} if urlsplit(raw["path"]).path.startswith(CONNECT_PATHS) else set())
        if is_ours and not (isinstance(error, dict) and set(error) == fields and error["message"]):
            raise BadAnswer(f"status {answer.status_code} with {error!r:.300}")
    return answer.status_code
