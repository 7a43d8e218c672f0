"""The command `sidelight storage`: inspect and change what a store retains.

It accesses the store directly, with the environment variables of the collector (SIDELIGHT_STORE and so on)
and its credentials.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

from sidelight.settings import (
    BadSetting,
    format_variable,
    join_negative_times,
    parse_nonnegative_int,
    parse_positive_float,
    parse_settings,
    setting,
)
from sidelight_collector.answers.catalog import ServiceList, list_services
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.collector import Settings
from sidelight_collector.settings.types import DAY_SECONDS
from sidelight_collector.settings_wiring import build_retention_policy
from sidelight_collector.storage.backends.open_store import open_store
from sidelight_collector.storage.lifecycle.retention import (
    BlockChange,
    Resolution,
    plan_retention,
    resolution_of,
)
from sidelight_collector.storage.objects import ObjectStore, StoreRefused
from sidelight_collector.storage.pins import Pin, add_pin, read_pins, remove_pin
from sidelight_collector.storage.trino_ddl import build_trino_ddl
from sidelight_collector.times import SECOND_NS, format_rfc3339, parse_time
from sidelight_model.selectors import Matcher, Op, Selector

if TYPE_CHECKING:
    from sidelight_collector.storage.backends.s3 import S3Store

RESOLUTION_LABELS: Final = {
    Resolution.WINDOW: "windows",
    Resolution.HOUR: "hours",
    Resolution.DAY: "days",
    Resolution.NOTHING: "nothing",
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings that select the store."""

    store: str = setting("", "the store: a directory, or s3://bucket/prefix", required=True, metavar="STORE")
    s3_endpoint: str | None = setting(None, "URL of an S3 service other than AWS", metavar="URL")
    store_timeout_seconds: float = setting(
        20.0, "timeout of one request to S3 (up to four attempts)", parse=parse_positive_float
    )

    def open(self, *, read_only: bool = False) -> ObjectStore:
        """Open the store. Raises StoreError; with `read_only`, also if it does not exist."""
        return open_store(
            self.store,
            s3_endpoint=self.s3_endpoint,
            timeout_seconds=self.store_timeout_seconds,
            read_only=read_only,
        )


@dataclass(frozen=True, slots=True)
class PinSettings(StoreSettings):
    """Settings of a new pin."""

    name: str = setting(
        "", "name of the pin: lower-case letters, digits, '.', '_' and '-'", required=True, positional=True
    )
    from_: str = setting("", "start of the range to pin; pins whole days", metavar="TIME")
    until: str = setting("now", "end of the range to pin; pins whole days", metavar="TIME")
    service: str = setting("", "pin only this service")
    capture: str = setting("", "id of a capture to pin, instead of --from and --until", metavar="ID")
    reason: str = setting("", "reason, shown in the list of pins", metavar="TEXT")


@dataclass(frozen=True, slots=True)
class UnpinSettings(StoreSettings):
    """Settings that select a pin."""

    name: str = setting("", "name of the pin", required=True, positional=True)


@dataclass(frozen=True, slots=True)
class LifecycleSettings(StoreSettings):
    """Settings of the lifecycle rule, a fallback for retention."""

    days: int = setting(
        30, "whole days after which the bucket deletes remaining segments", parse=parse_nonnegative_int
    )
    apply: bool = setting(default=False, help="write the rule to the bucket; otherwise only show it")

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ValueError("days must be at least 1")


@dataclass(frozen=True, slots=True)
class TrinoDdlSettings:
    """Settings of the tables by which Trino reads the store."""

    store: str = setting("", "the store: s3://bucket/prefix", required=True, metavar="STORE")
    catalog: str = setting("profiles", "catalog of Trino's Hive connector")
    schema: str = setting("sidelight", "schema of the tables")
    replace: bool = setting(default=False, help="drop each table first, as after an upgrade of Sidelight")


def run(argv: list[str]) -> int:
    """Run an action; return 0, or 2 for an unknown action. Raises SidelightError."""
    action, *rest = argv or ["--help"]
    if action in ("-h", "--help"):
        print(format_usage())
        return 0 if argv else 2
    if action not in ACTIONS:
        print(f"error: there is no action {action!r}\n\n{format_usage()}", file=sys.stderr)
        return 2
    ACTIONS[action][0](rest)
    return 0


def format_usage() -> str:
    """Format the list of actions."""
    lines = [f"  {name:<10} {summary}" for name, (_, summary) in ACTIONS.items()]
    return "\n".join(
        [
            "usage: sidelight storage ACTION --store STORE [OPTIONS]",
            "",
            *lines,
            "",
            "sidelight storage ACTION --help explains its options.",
        ]
    )


def show_retention(argv: list[str]) -> None:
    """Print what a collector with these settings would delete now, and why."""
    description = (
        "Show what would go now for its age or its size, and change nothing. It takes all options of a"
        " collector: give it those of yours."
    )
    settings = parse_settings(Settings, "storage retention", description, argv, os.environ)
    store = open_store(
        settings.store,
        s3_endpoint=settings.s3_endpoint,
        timeout_seconds=settings.store_timeout_seconds,
        read_only=True,
    )
    now = datetime.now(UTC)
    plan = plan_retention(store, build_retention_policy(settings), now)
    keys = [key for group in plan.expired_keys for key in group]
    lines = [_format_change(change) for change in plan.changes]
    days: dict[str, int] = {}
    for key in keys:
        day = key.split("/")[2][:10]
        days[day] = days.get(day, 0) + 1
    lines += [(day, "all", "nothing", f"{count} objects", "age or size") for day, count in days.items()]
    if not lines:
        print("nothing would go")
        return
    _print_table(("day", "services", "is kept", "goes", "because of its"), sorted(lines))
    freed_bytes = sum(change.freed_bytes for change in plan.changes)
    print(f"{freed_bytes} bytes of {len(plan.changes)} blocks, and {len(keys)} objects of days that are over")


def _format_change(change: BlockChange) -> tuple[str, ...]:
    after = ", ".join(
        f"{RESOLUTION_LABELS[level]} of {' '.join(names)}"
        if len(change.services_by_resolution) > 1
        else RESOLUTION_LABELS[level]
        for level, names in sorted(change.services_by_resolution.items())
    )
    retained = f"{RESOLUTION_LABELS[resolution_of(change.block)]} -> {after}"
    freed = f"{change.freed_bytes} bytes"
    return change.day.isoformat(), " ".join(change.block.services), retained, freed, change.cause


def create_pin(argv: list[str]) -> None:
    """Create a pin, which exempts all windows of some days from retention."""
    description = "Keep all windows of the days of a range as they are, until the pin is taken away."
    settings = parse_settings(
        PinSettings, "storage pin", description, join_negative_times(argv), _read_store_environment()
    )
    if bool(settings.capture) == bool(settings.from_):
        raise BadSetting(
            "a pin needs --from or --capture, and not both",
            hint="--from -2d, --from 2026-11-21T00:00:00Z, or --capture ID.",
        )
    store, now_ns = settings.open(), time.time_ns()
    if settings.capture:
        pin = _build_capture_pin(store, settings, now_ns)
    else:
        start = parse_time(settings.from_, parameter="from", now_ns=now_ns)
        until = parse_time(settings.until, parameter="until", now_ns=now_ns)
        if until <= start:
            raise BadSetting("--until is not after --from", hint="A pin holds from <= start < until.")
        pin = _build_pin(settings, start, until, settings.service, now_ns)
    add_pin(store, pin)
    print(_format_pin(pin))


def delete_pin(argv: list[str]) -> None:
    description = "Take a pin away: what it held goes when it is old enough."
    settings = parse_settings(UnpinSettings, "storage unpin", description, argv, _read_store_environment())
    remove_pin(settings.open(), settings.name)
    print(f"{settings.name} is taken away")


def list_pins(argv: list[str]) -> None:
    """Print all pins."""
    settings = parse_settings(
        StoreSettings, "storage pins", "List what is kept whatever its age.", argv, _read_store_environment()
    )
    pins = read_pins(settings.open(read_only=True))
    print("\n".join(map(_format_pin, pins)) if pins else "there are no pins")


def set_lifecycle_rule(argv: list[str]) -> None:
    """Show or set the rule by which the bucket itself deletes old segments."""
    description = (
        "A net below retention: a rule by which the bucket itself deletes segments (v1/l0/) that are older"
        " than any collector leaves them. It is put only with --apply; other rules of the bucket stay."
    )
    settings = parse_settings(
        LifecycleSettings, "storage lifecycle", description, argv, _read_store_environment()
    )
    store = settings.open()
    if store.kind != "s3":
        raise StoreRefused(
            f"{store.location} is not a bucket",
            hint="Lifecycle rules are S3's: give --store s3://bucket/prefix.",
        )
    print(cast("S3Store", store).set_segment_expiration(settings.days, apply=settings.apply))
    if not settings.apply:
        print("shown only: --apply puts it")


def _read_store_environment() -> dict[str, str]:
    """Return the environment variables of the store.

    Other variables of the collector have another meaning for this command.
    """
    names = map(format_variable, fields(StoreSettings))
    return {name: os.environ[name] for name in names if name in os.environ}


def _build_capture_pin(store: ObjectStore, settings: PinSettings, now_ns: int) -> Pin:
    """Build a pin for the time range of the windows of a capture."""
    labels = {"capture": settings.capture, "service": settings.service}
    matchers = [Matcher(name, Op.EQUAL, value) for name, value in labels.items() if value]
    query = WindowQuery(Selector(tuple(matchers)), 0, now_ns + round(DAY_SECONDS * SECOND_NS))

    def query_services() -> ServiceList:
        with closing(QueryEngine(store, QueryLimits(timeout_seconds=600))) as engine:
            return asyncio.run(engine.run(lambda context: list_services(context, query)))

    services = query_services()["services"]
    if not services:
        raise StoreRefused(
            f"no window of the capture {settings.capture!r} is in the store",
            hint="Windows carry it in the label `capture`; they come some seconds after the capture ends.",
        )
    start = min(service["first_seen"] for service in services)
    until = max(service["last_seen"] for service in services)
    name = services[0]["service"] if len(services) == 1 else settings.service
    return _build_pin(settings, round(start * SECOND_NS), round(until * SECOND_NS), name, now_ns)


def _build_pin(settings: PinSettings, start_ns: int, until_ns: int, service: str, now_ns: int) -> Pin:
    return Pin(
        settings.name,
        start_ns / SECOND_NS,
        until_ns / SECOND_NS,
        service,
        settings.reason or (f"capture {settings.capture}" if settings.capture else ""),
        now_ns / SECOND_NS,
    )


def _format_pin(pin: Pin) -> str:
    first, until, created = (
        format_rfc3339(round(at) * SECOND_NS) for at in (pin.start, pin.until, pin.created_at)
    )
    scope = f"service {pin.service}" if pin.service else "all services"
    return f"{pin.name}: {scope}, days from {first} until {until}, made {created}" + (
        f" ({pin.reason})" if pin.reason else ""
    )


def _print_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    for row in (header, *rows):
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def print_trino_ddl(argv: list[str]) -> None:
    """Print the statements that make the objects of a store tables of Trino."""
    settings = parse_settings(
        TrinoDdlSettings,
        "storage trino-ddl",
        "Print statements that create tables of Trino over the objects of a store. It changes nothing.",
        argv,
        os.environ,
    )
    try:
        statements = build_trino_ddl(
            settings.store, settings.catalog, settings.schema, replace=settings.replace
        )
    except ValueError as error:
        raise BadSetting(
            str(error), hint="Give --store s3://bucket/prefix, and plain names to --catalog and --schema."
        ) from error
    print("\n\n".join(f"{statement};" for statement in statements))


ACTIONS: Final[dict[str, tuple[Callable[[list[str]], None], str]]] = {
    "retention": (show_retention, "show what would go now for its age or its size, and why"),
    "pin": (create_pin, "keep everything of a range of days, or of a capture"),
    "unpin": (delete_pin, "take a pin away"),
    "pins": (list_pins, "list the pins"),
    "lifecycle": (set_lifecycle_rule, "show or put a rule of the bucket that deletes segments left behind"),
    "trino-ddl": (print_trino_ddl, "print statements that create tables of Trino over the objects"),
}
