"""The check of a whole store, day by day, and of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from secrets import token_hex
from typing import Final

from sidelight_collector.doctor import machine
from sidelight_collector.doctor.cost_estimate import CostAccount, CostParameters, ServiceCosts
from sidelight_collector.doctor.day_check import (
    DayCheckOptions,
    DayCheckResult,
    check_day,
    check_unknown_keys,
)
from sidelight_collector.doctor.findings import (
    FindingKind,
    StoreFinding,
    StoreFindings,
    make_error,
    make_note,
    make_warning,
)
from sidelight_collector.doctor.gaps import GapDetector
from sidelight_collector.doctor.layout import StoreSurvey, survey_store
from sidelight_collector.doctor.repair import RepairAction, delete_probes, repair_day
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_collector.native_kernel import NativeKernelStatus, get_kernel_status
from sidelight_collector.storage import pins
from sidelight_collector.storage.backends.directory import PRIVATE_DIRECTORY_HINT, DirectoryStore
from sidelight_collector.storage.backends.no_conditional_writes import SingleWriterStore
from sidelight_collector.storage.backends.open_store import (
    CONFIG_KEY,
    FORMAT,
    PROBE_ROOT,
    parse_format_marker,
    probe_store,
    verify_store,
)
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreIncompatible

ProgressCallback = Callable[[str], None]


@dataclass(slots=True)
class DoctorReport:
    """The report of the doctor.

    `format` and `conditional_writes` are None if unknown. `checked_at` is in Unix seconds.
    """

    location: str
    kind: str
    checked_at: float
    is_quick: bool
    kernel: NativeKernelStatus
    prices: CostParameters
    findings: StoreFindings
    format: int | None = None
    conditional_writes: bool | None = None
    days: int = 0
    blocks: int = 0
    segments: int = 0
    objects: int = 0
    total_bytes: int = 0
    services: list[ServiceCosts] = field(default_factory=list)
    repairs: list[RepairAction] = field(default_factory=list)


class UnsafeRepair(StoreError):
    """A repair is refused because concurrent writers could corrupt it."""


def check_store(
    store: ObjectStore, settings: DoctorSettings, clock: Callable[[], float], step: ProgressCallback
) -> DoctorReport:
    """Check a store, and repair it if `settings.repair` is set.

    `step` is called with the current activity. Raises StoreUnavailable and StoreRefused if the store as a
    whole does not respond, and UnsafeRepair.
    """
    return _StoreCheck(store, settings, clock, step).run()


class _StoreCheck:
    def __init__(
        self, store: ObjectStore, settings: DoctorSettings, clock: Callable[[], float], step: ProgressCallback
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._step = step
        self._report = DoctorReport(
            store.location,
            store.kind,
            clock(),
            settings.quick,
            get_kernel_status(),
            CostParameters(
                settings.price_per_gb_month,
                settings.price_per_1000_requests,
                settings.retention_raw_days,
                settings.retention_hour_days,
                settings.retention_day_days,
                settings.flush_seconds,
                settings.collectors,
            ),
            StoreFindings(settings.max_findings),
        )

    def run(self) -> DoctorReport:
        report, settings = self._report, self._settings
        report.findings.add(machine.check_machine(report.kernel))
        self._step("what lies there")
        store_survey = survey_store(self._store)
        report.objects = store_survey.objects
        if not self._check_format(store_survey):
            return report
        report.findings.add(_check_directory(self._store))
        self._check_conditional_writes()
        options = DayCheckOptions(self._read_clock(), settings.orphan_age_seconds, settings.quick)
        if settings.repair:
            report.repairs += delete_probes(self._store, store_survey.probes, options)
        else:
            report.findings.add(_check_probes(store_survey, options))
        report.findings.add(check_unknown_keys(store_survey.unknown, options))
        report.findings.add(_check_pins(self._store, store_survey))
        self._check_days(store_survey, options)
        return report

    def _check_format(self, store_survey: StoreSurvey) -> bool:
        """Check the format marker; returns whether the check can continue."""
        report, where = self._report, self._store.location
        marker = b""
        try:
            marker = self._store.get(CONFIG_KEY)
            report.format = parse_format_marker(marker, where)
        except ObjectMissing:
            if self._settings.repair and store_survey.days:
                report.format = verify_store(self._store).format
                report.repairs.append(RepairAction(CONFIG_KEY, "written again"))
                return True
            report.findings.add([_make_missing_config_error(where, empty=store_survey.is_empty)])
        except StoreIncompatible as problem:
            newer = _is_newer_format(marker)
            kind = FindingKind.FORMAT_NEWER if newer else FindingKind.CONFIG_DAMAGED
            hint = problem.hint if newer else _DAMAGED_CONFIG_HINT
            report.findings.add([make_error(kind, CONFIG_KEY, problem.message, hint)])
            return not newer
        return True

    def _check_conditional_writes(self) -> None:
        """Test conditional writes if a probe or a repair is requested.

        Raises UnsafeRepair for a repair without them, unless it is offline.
        """
        report, settings = self._report, self._settings
        if settings.probe or settings.repair:
            report.conditional_writes = probe_store(self._store)
        elif self._store.kind in _CONDITIONAL_STORES:
            report.conditional_writes = True
        else:
            report.findings.add(
                [
                    make_note(
                        FindingKind.CONDITIONAL_WRITES_UNTESTED, "", _UNTESTED_MESSAGE, "Run it with --probe."
                    )
                ]
            )
        if report.conditional_writes is False:
            report.findings.add(
                [
                    make_warning(
                        FindingKind.CONDITIONAL_WRITES_MISSING,
                        "",
                        _NO_CONDITIONAL_WRITES_MESSAGE,
                        _ONE_COLLECTOR_HINT,
                    )
                ]
            )
            if settings.repair and not settings.offline:
                raise UnsafeRepair(
                    f"{self._store.location} has no conditional writes: a collector could undo what "
                    "is mended",
                    hint="Stop all collectors, then give --offline.",
                )
            self._store = SingleWriterStore(self._store)

    def _read_clock(self) -> float:
        """Return the time in Unix seconds.

        Repairs delete objects by age, so they use the clock of the store.
        """
        return read_store_clock(self._store) if self._settings.repair else self._clock()

    def _check_days(self, store_survey: StoreSurvey, options: DayCheckOptions) -> None:
        report, costs, gaps = self._report, CostAccount(), GapDetector()
        for at, day in enumerate(sorted(store_survey.days)):

            def report_step(
                activity: str, prefix: str = f"{day} ({at + 1} of {len(store_survey.days)})"
            ) -> None:
                self._step(f"{prefix}: {activity}")

            report_step("listing")
            result = self._check_day(day, options, report_step)
            report.findings.add(result.findings)
            report.findings.add(gaps.add_day(result.hours))
            costs.add_day(result.usage)
            report.days += 1
            report.blocks += result.blocks
            report.segments += result.segments
            report.objects += result.objects
            report.total_bytes += result.total_bytes
        report.services = costs.estimate_costs(report.prices)

    def _check_day(self, day: date, options: DayCheckOptions, step: ProgressCallback) -> DayCheckResult:
        """Check a day, and check it again after a repair."""
        result = check_day(self._store, day, options, step)
        if not self._settings.repair:
            return result
        actions = list(repair_day(self._store, result, options, forget_lost=self._settings.forget_lost))
        self._report.repairs += actions
        return check_day(self._store, day, options, step) if actions else result


def _is_newer_format(marker: bytes) -> bool:
    """Return whether an incompatible marker is one of a later version."""
    with suppress(ValueError, KeyError, TypeError):
        return bool(json.loads(marker)["format"] > FORMAT)
    return False


def read_store_clock(store: ObjectStore) -> float:
    """Return the store's time in Unix seconds, from the modification time of a probe."""
    key = f"{PROBE_ROOT}{token_hex(16)}"
    store.put(key, b"what time is it")
    try:
        return next(entry.modified for entry in store.list(key))
    finally:
        store.delete(key)


_CONDITIONAL_STORES: Final = ("memory", "directory")
_UNTESTED_MESSAGE: Final = (
    "whether conditional writes hold in this store was not tested, for that writes an object"
)
_NO_CONDITIONAL_WRITES_MESSAGE: Final = (
    "conditional writes do not hold in this store: two collectors may undo each other's work"
)
_ONE_COLLECTOR_HINT: Final = (
    "Run one collector that compacts (the others with --compact-interval-seconds 0), "
    "or use a store that has them."
)
_DAMAGED_CONFIG_HINT: Final = (
    "If what lies below v1/ is Sidelight's, delete this object: a collector writes it anew when it starts, "
    "and so does --repair. If not, choose another --store."
)


def _make_missing_config_error(where: str, *, empty: bool) -> StoreFinding:
    if empty:
        message = f"nothing of Sidelight is in {where}"
        return make_error(
            FindingKind.CONFIG_MISSING, CONFIG_KEY, message, "Check --store. A collector makes a new one."
        )
    message = f"{where} has no format marker"
    hint = "A collector writes it when it starts, and so does --repair where there are windows."
    return make_error(FindingKind.CONFIG_MISSING, CONFIG_KEY, message, hint)


def _check_directory(store: ObjectStore) -> list[StoreFinding]:
    """Check that only the collector's user may write to a directory store."""
    problem = store.describe_shared_directory() if isinstance(store, DirectoryStore) else ""
    if not problem:
        return []
    return [make_warning(FindingKind.DIRECTORY_SHARED, "", problem, PRIVATE_DIRECTORY_HINT)]


def _check_pins(store: ObjectStore, store_survey: StoreSurvey) -> Iterator[StoreFinding]:
    for key in store_survey.pins:
        try:
            pins.decode(key, store.get(key))
        except ObjectMissing:
            continue
        except (pins.PinDamaged, StoreIncompatible) as problem:
            yield make_error(FindingKind.PIN_DAMAGED, key, problem.message, problem.hint)


def _check_probes(store_survey: StoreSurvey, options: DayCheckOptions) -> Iterator[StoreFinding]:
    for entry in store_survey.probes:
        if options.is_old(entry.modified):
            message = "somebody tried the store with this object and did not delete it"
            yield make_warning(FindingKind.ORPHANED_OBJECT, entry.key, message, "--repair deletes it.")
