"""What of this machine's installation is missing."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from sidelight.collector.doctor.findings import Finding, Kind, note


@dataclass(frozen=True, slots=True)
class Machine:
    """The version of the native extension that is used here; if None, why none is."""

    native: str | None
    reason: str = ""


def look() -> Machine:
    """Ask the collector's own kernel which it uses, or the extension where there is no such kernel."""
    try:
        status = importlib.import_module("sidelight.collector.kernel").status()
    except ModuleNotFoundError:
        return _extension()
    return Machine(str(status.version)) if status.native else Machine(None, str(status.reason))


def _extension() -> Machine:
    try:
        found = importlib.import_module("sidelight_native")
    except ImportError as failed:
        return Machine(None, str(failed))
    return Machine(str(getattr(found, "__version__", "")))


def findings(machine: Machine) -> list[Finding]:
    """A note if the extension is not used."""
    if machine.native is not None:
        return []
    message = (
        f"the native extension is not used on this machine ({machine.reason}): a collector here works and "
        "answers the same, with more CPU time a window and a query"
    )
    return [note(Kind.NATIVE_MISSING, "", message, "Install the wheel sidelight_native of this release.")]
