"""All settings of the sidecar, declared once and validated together."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidelight import settings as house
from sidelight.settings import BadSetting, setting
from sidelight_model.errors import BadLabel
from sidelight_model.labels import Labels
from sidelight_model.regular_expressions.pattern import Pattern
from sidelight_model.regular_expressions.program import BadPattern
from sidelight_sidecar.one_time_token import NO_ONE_TIME_TOKEN, OneTimeToken, parse_one_time_token
from sidelight_sidecar.sampling_settings import SamplingSettings


def _parse_pid(text: str) -> int:
    value = house.parse_nonnegative_int(text)
    if value < 1:
        raise ValueError(f"{text!r} is not a process id")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSettings(SamplingSettings):
    """Settings of `sidelight sidecar`; units are part of the names."""

    one_shot_token: OneTimeToken = setting(
        NO_ONE_TIME_TOKEN,
        "one-time token of the collector that attached this sidecar: run that capture, then exit",
        parse=parse_one_time_token,
        secret=True,
        metavar="TOKEN",
    )
    pid: tuple[int, ...] = setting(
        (), "process id to profile; may be repeated", parse=_parse_pid, metavar="N"
    )
    match: str = setting(
        "", "profile Python processes whose command line matches this pattern", metavar="REGEX"
    )
    all: bool = setting(False, "profile every Python process of this PID namespace")
    include_children: bool = setting(True, "also profile the Python descendants of these processes")
    target_container: str = setting(
        "", "profile only processes in this container of the pod, by its Kubernetes name", metavar="NAME"
    )
    service: str = setting("", "label: the service", required=True, metavar="NAME")
    version: str = setting("", "label: the deployed version")
    namespace: str = setting("", "label: the namespace", metavar="NAME")
    pod: str = setting(socket.gethostname(), "label: the pod", metavar="NAME")
    container: str = setting("", "label: the container", metavar="NAME")
    node: str = setting("", "label: the node", metavar="NAME")
    exit_when_done_seconds: float | None = setting(
        None,
        "exit with code 0 when no profiled process has been left for this long, as beside a Job; "
        "without it, wait for new ones",
        parse=house.parse_seconds,
    )

    def __post_init__(self) -> None:
        SamplingSettings.__post_init__(self)
        _check_targets(self)

    @property
    def match_pattern(self) -> Pattern | None:
        """`--match`, compiled."""
        return Pattern(self.match) if self.match else None

    @property
    def labels(self) -> Labels:
        """The labels of every window of this sidecar; raises BadLabel."""
        reserved = {
            "service": self.service,
            "version": self.version,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "node": self.node,
        }
        return Labels.parse({**reserved, **dict(self.label)})


def parse_sidecar_settings(argv: Sequence[str], environ: Mapping[str, str]) -> SidecarSettings:
    """Parse settings from flags, `SIDELIGHT_…` variables and defaults, in that order.

    Raises SidelightError.
    """
    settings = house.parse_settings(
        SidecarSettings, "sidecar", "Sample the Python processes beside it and ship windows.", argv, environ
    )
    try:
        _ = settings.labels
    except BadLabel as error:
        raise BadSetting(error.message, hint=error.hint) from error
    return settings


def _check_targets(settings: SidecarSettings) -> None:
    selectors = [
        flag
        for flag, value in (("--pid", settings.pid), ("--match", settings.match), ("--all", settings.all))
        if value
    ]
    if len(selectors) != 1:
        raise BadSetting(
            f"{' and '.join(selectors)} cannot go together" if selectors else "nothing says what to watch",
            hint="Give one of --pid N, --match REGEX and --all.",
        )
    try:
        Pattern(settings.match)
    except BadPattern as error:
        raise BadSetting(
            f"--match {settings.match!r} is not a regular expression: {error}",
            hint="It is RE2's syntax, which has no lookahead and no \\1; quote it for the shell.",
        ) from error
