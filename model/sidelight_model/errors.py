"""Errors and their reason words.

An error has the same reason word in an HTTP error body, a metric label and a log field. It may quote a URL
with a password (RFC 3986, section 3.2.1) or with a token among its parameters: `mask_urls` masks both.

SidelightError
├── BadFolded         a line of folded text cannot be read (carries the line's number)
├── BadHeader         a window's header cannot be read (carries the line's number)
├── BadLabel          a label's name or value is not allowed, or a required one is missing
├── BadSelector       a selector cannot be read (carries the position)
└── LimitExceeded     something is larger than a configured limit
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

MASK: Final = "***"
_USER: Final = re.compile(
    # After ://. A password may hold an unencoded slash. Digits alone before a slash are a port.
    r"(?:(?P<user>[^\s/?#:@]*):(?!\d*(?:[/?#\s]|$))[^\s@]*(?:@[^\s/?#@]*)*|[^\s/?#:@'\"]+)@(?=[^\s@])"
)
_PARAMETER: Final = re.compile(
    r"(?P<name>[?&;#](?:key|[\w.%-]*(?:pass(?:word|wd)?|pwd|secret|token|signature|sig|credential|auth(?:orization)?|"
    r"api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key))=)[^\s&;#'\"<>]+",
    re.IGNORECASE,
)


class Reason(StrEnum):
    """The reason of an error: a closed set of words."""

    # a client's request
    BAD_REQUEST = "bad_request"
    BAD_FOLDED = "bad_folded"
    BAD_PROFILE = "bad_profile"
    BAD_HEADER = "bad_header"
    BAD_LABEL = "bad_label"
    BAD_SELECTOR = "bad_selector"
    BAD_TIME = "bad_time"
    BAD_PARAMETER = "bad_parameter"
    NO_PREVIOUS_VERSION = "no_previous_version"
    NO_VERSION_LABEL = "no_version_label"
    BAD_JSON = "bad_json"
    BAD_ENCODING = "bad_encoding"
    UNSUPPORTED_TYPE = "unsupported_type"
    TOO_LARGE = "too_large"
    TOO_MANY_WINDOWS = "too_many_windows"
    TOO_MANY_STACKS = "too_many_stacks"
    TOO_MANY_LABELS = "too_many_labels"
    TOO_MANY_RECORDINGS = "too_many_recordings"
    TOO_MANY_NOTES = "too_many_notes"
    CLOCK_SKEW = "clock_skew"
    TOO_OLD = "too_old"
    DUPLICATE_ID = "duplicate_id"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_IMPLEMENTED = "not_implemented"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    WRONG_NAMESPACE = "wrong_namespace"
    WRONG_POD = "wrong_pod"
    WRONG_SERVICE = "wrong_service"
    WRONG_NODE = "wrong_node"
    NO_POD = "no_pod"
    NO_NAMESPACES = "no_namespaces"
    REQUEST_TIMEOUT = "request_timeout"
    CAPTURE_RUNNING = "capture_running"
    CONFLICT = "conflict"
    # the state of this process or of what it depends on
    OVERLOADED = "overloaded"
    QUERY_TIMEOUT = "query_timeout"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_FORMAT = "store_format"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    CLUSTER_UNAVAILABLE = "cluster_unavailable"
    CLUSTER_DENIED = "cluster_denied"
    STARTING = "starting"
    SHUTTING_DOWN = "shutting_down"
    INTERNAL = "internal"
    # a problem that an operator has to solve
    BAD_SETTING = "bad_setting"
    BAD_CERTIFICATE = "bad_certificate"
    PORT_IN_USE = "port_in_use"
    UI_MISSING = "ui_missing"
    SPOOL_UNWRITABLE = "spool_unwritable"
    OUT_OF_DESCRIPTORS = "out_of_descriptors"
    COLLECTOR_UNREACHABLE = "collector_unreachable"
    UNTRUSTED_CERTIFICATE = "untrusted_certificate"
    # a process that cannot be sampled
    PID_GONE = "pid_gone"
    PTRACE_DENIED = "ptrace_denied"
    NOT_PYTHON = "not_python"
    UNSUPPORTED_PYTHON = "unsupported_python"
    NOTHING_TO_WATCH = "nothing_to_watch"
    SAMPLER_MISSING = "sampler_missing"
    ATTACH_LIMIT = "attach_limit"
    SAMPLER_FAILED = "sampler_failed"
    OVER_BUDGET = "over_budget"
    THROTTLED = "throttled"
    PAUSED = "paused"


class SidelightError(Exception):
    """An expected failure.

    `message` says what failed, with the value; `hint` says what to do next, if it is not empty. Secrets in
    URLs are masked. `retry_after_seconds` is how long a client should wait, None if the reason decides.
    """

    reason: Reason = Reason.INTERNAL
    retry_after_seconds: int | None = None

    def __init__(self, message: str, *, reason: Reason | None = None, hint: str = "") -> None:
        message = mask_urls(message)
        super().__init__(message)
        self.message = message
        self.hint = mask_urls(hint)
        if reason is not None:
            self.reason = reason


class BadFolded(SidelightError):
    """A line of folded text cannot be parsed.

    `line` is the line number in the request body, from 1.
    """

    reason = Reason.BAD_FOLDED

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(
            f"line {line}: {problem}",
            hint="A folded line is `frame;frame;frame COUNT`, the root first, COUNT a whole number.",
        )
        self.line = line


class BadHeader(SidelightError):
    """A window's header line cannot be parsed.

    `line` is the line number in the request body, from 1.
    """

    reason = Reason.BAD_HEADER

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(
            f"line {line}: {problem}",
            hint='A window begins with `# {"format":1,"id":…,"labels":{…},"start_ns":…,'
            '"duration_ns":…,"period_ns":…}`: see docs/formats.md.',
        )
        self.line = line


class BadLabel(SidelightError):
    """A label's name or value is not allowed, or a required label is missing."""

    reason = Reason.BAD_LABEL


class BadSelector(SidelightError):
    """A selector cannot be parsed; `position` counts characters from 0."""

    reason = Reason.BAD_SELECTOR

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(
            f"selector, position {position}: {problem}",
            hint='A selector is Prometheus matchers: {service="shop", version=~"2026.*", pod!="x"}.',
        )
        self.position = position


class LimitExceeded(SidelightError):
    """An input exceeds a configured limit.

    The message names the limit and its value.
    """

    reason = Reason.TOO_LARGE


def mask_urls(text: str) -> str:
    """Replace the secrets of all URLs in a text by `***`.

    These are a password, a name without a password, and the value of a parameter such as `token=`.
    """
    if "@" in text and "://" in text:
        start, *urls = text.split("://")
        text = "://".join(
            [start, *(_USER.sub(_mask_user, url, count=1) if _USER.match(url) else url for url in urls)]
        )
    if "=" in text:
        text = _PARAMETER.sub(rf"\g<name>{MASK}", text)
    return text


def _mask_user(match: re.Match[str]) -> str:
    user = match["user"]
    return f"{MASK if user is None else f'{user}:{MASK}'}@"
