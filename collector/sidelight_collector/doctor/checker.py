"""The whole of it: the store, day after day, and the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from secrets import token_hex
from typing import Final

from sidelight_collector.doctor import machine
from sidelight_collector.doctor.cost_estimate import Account, Prices, Service
from sidelight_collector.doctor.day_check import Checked, Rules, check, unknown_keys
from sidelight_collector.doctor.findings import Finding, Findings, Kind, error, note, warning
from sidelight_collector.doctor.gaps import Gaps
from sidelight_collector.doctor.layout import Survey, survey
from sidelight_collector.doctor.repair import Done, mend, probes_deleted
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_collector.native_kernel import Status, status
from sidelight_collector.storage import pins
from sidelight_collector.storage.backends.no_conditional_writes import UnconditionalStore
from sidelight_collector.storage.backends.open_store import (
    CONFIG_KEY,
    FORMAT,
    PROBES,
    format_told,
    probe,
    verify,
)
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreIncompatible

Step = Callable[[str], None]


@dataclass(slots=True)
class Report:
    """What the doctor has to say. `format` and `conditional_writes` are None if it is not known."""

    where: str
    kind: str
    at: float
    quick: bool
    kernel: Status
    prices: Prices
    findings: Findings
    format: int | None = None
    conditional_writes: bool | None = None
    days: int = 0
    blocks: int = 0
    segments: int = 0
    objects: int = 0
    bytes: int = 0
    services: list[Service] = field(default_factory=list)
    repaired: list[Done] = field(default_factory=list)


class Unsafe(StoreError):
    """A repair that another writer could make wrong."""


def examine(store: ObjectStore, settings: DoctorSettings, clock: Callable[[], float], step: Step) -> Report:
    """Check a store, and mend it if told to; `step` is told what is being done.

    Raises StoreUnavailable and StoreRefused where the store as a whole does not answer, and Unsafe.
    """
    return _Examination(store, settings, clock, step).report()


class _Examination:
    def __init__(
        self, store: ObjectStore, settings: DoctorSettings, clock: Callable[[], float], step: Step
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._step = step
        self._report = Report(
            store.where,
            store.kind,
            clock(),
            settings.quick,
            status(),
            Prices(
                settings.price_per_gb_month,
                settings.price_per_1000_requests,
                settings.retention_raw_days,
                settings.retention_hour_days,
                settings.retention_day_days,
                settings.flush_seconds,
                settings.collectors,
            ),
            Findings(settings.max_findings),
        )

    def report(self) -> Report:
        report, settings = self._report, self._settings
        report.findings.add(machine.findings(report.kernel))
        self._step("what lies there")
        found = survey(self._store)
        report.objects = found.objects
        if not self._format(found):
            return report
        self._conditions()
        rules = Rules(self._now(), settings.orphan_age_seconds, settings.quick)
        if settings.repair:
            report.repaired += probes_deleted(self._store, found.probes, rules)
        else:
            report.findings.add(_probes(found, rules))
        report.findings.add(unknown_keys(found.unknown, rules))
        report.findings.add(_pins(self._store, found))
        self._days(found, rules)
        return report

    def _format(self, found: Survey) -> bool:
        """Check the format marker; whether to go on."""
        report, where = self._report, self._store.where
        marker = b""
        try:
            marker = self._store.get(CONFIG_KEY)
            report.format = format_told(marker, where)
        except ObjectMissing:
            if self._settings.repair and found.days:
                report.format = verify(self._store).format
                report.repaired.append(Done(CONFIG_KEY, "written anew"))
                return True
            report.findings.add([_no_config(where, empty=found.is_empty)])
        except StoreIncompatible as problem:
            newer = _is_newer(marker)
            kind = Kind.FORMAT_NEWER if newer else Kind.CONFIG_DAMAGED
            hint = problem.hint if newer else _DAMAGED
            report.findings.add([error(kind, CONFIG_KEY, problem.message, hint)])
            return not newer
        return True

    def _conditions(self) -> None:
        """Find out whether conditional writes hold, where that is asked for."""
        report, settings = self._report, self._settings
        if settings.probe or settings.repair:
            report.conditional_writes = probe(self._store)
        elif self._store.kind in _CONDITIONAL:
            report.conditional_writes = True
        else:
            report.findings.add([note(Kind.CONDITIONS_UNTESTED, "", _UNTESTED, "Run it with --probe.")])
        if report.conditional_writes is False:
            report.findings.add([warning(Kind.CONDITIONS_MISSING, "", _NO_CONDITIONS, _ONE_COLLECTOR)])
            if settings.repair and not settings.offline:
                raise Unsafe(
                    f"{self._store.where} has no conditional writes: a collector could undo what is mended",
                    hint="Stop all collectors, then give --offline.",
                )
            self._store = UnconditionalStore(self._store)

    def _now(self) -> float:
        """The moment; by the clock of the store where something may be deleted for its age."""
        return store_clock(self._store) if self._settings.repair else self._clock()

    def _days(self, found: Survey, rules: Rules) -> None:
        report, account, gaps = self._report, Account(), Gaps()
        for at, day in enumerate(sorted(found.days)):

            def step(what: str, told: str = f"{day} ({at + 1} of {len(found.days)})") -> None:
                self._step(f"{told}: {what}")

            step("listing")
            checked = self._day(day, rules, step)
            report.findings.add(checked.findings)
            report.findings.add(gaps.add(checked.hours))
            account.add(checked.usage)
            report.days += 1
            report.blocks += checked.blocks
            report.segments += checked.segments
            report.objects += checked.objects
            report.bytes += checked.bytes
        report.services = account.services(report.prices)

    def _day(self, day: date, rules: Rules, step: Step) -> Checked:
        """Check a day; once more if something was mended."""
        checked = check(self._store, day, rules, step)
        if not self._settings.repair:
            return checked
        done = list(mend(self._store, checked, rules, forget_lost=self._settings.forget_lost))
        self._report.repaired += done
        return check(self._store, day, rules, step) if done else checked


def _is_newer(marker: bytes) -> bool:
    """Whether what is no marker of this version is one of a later version."""
    with suppress(ValueError, KeyError, TypeError):
        return bool(json.loads(marker)["format"] > FORMAT)
    return False


def store_clock(store: ObjectStore) -> float:
    """What time it is where objects get the time at which they were written."""
    key = f"{PROBES}{token_hex(16)}"
    store.put(key, b"what time is it")
    try:
        return next(entry.modified for entry in store.list(key))
    finally:
        store.delete(key)


_CONDITIONAL: Final = ("memory", "directory")
_UNTESTED: Final = "whether conditional writes hold in this store was not tested, for that writes an object"
_NO_CONDITIONS: Final = (
    "conditional writes do not hold in this store: two collectors may undo each other's work"
)
_ONE_COLLECTOR: Final = (
    "Run one collector that compacts (the others with --compact-interval-seconds 0), "
    "or use a store that has them."
)
_DAMAGED: Final = (
    "If what lies below v1/ is Sidelight's, delete this object: a collector writes it anew when it starts, "
    "and so does --repair. If not, choose another --store."
)


def _no_config(where: str, *, empty: bool) -> Finding:
    if empty:
        message = f"nothing of Sidelight is in {where}"
        return error(Kind.CONFIG_MISSING, CONFIG_KEY, message, "Check --store. A collector makes a new one.")
    message = f"{where} has no format marker"
    hint = "A collector writes it when it starts, and so does --repair where there are windows."
    return error(Kind.CONFIG_MISSING, CONFIG_KEY, message, hint)


def _pins(store: ObjectStore, found: Survey) -> Iterator[Finding]:
    for key in found.pins:
        try:
            pins.decode(store.get(key), key, "")
        except ObjectMissing:
            continue
        except (pins.PinDamaged, StoreIncompatible) as problem:
            yield error(Kind.PIN_DAMAGED, key, problem.message, problem.hint)


def _probes(found: Survey, rules: Rules) -> Iterator[Finding]:
    for entry in found.probes:
        if rules.is_old(entry.modified):
            message = "somebody tried the store with this object and did not delete it"
            yield warning(Kind.STRAY, entry.key, message, "--repair deletes it.")
